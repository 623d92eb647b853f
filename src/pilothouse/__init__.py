"""Pilothouse: run many AI agents and commands at once, watch them, stop them, trust what you see.

This package initialiser stays empty on purpose: the warden and the command line import it on their way
to a single module and must not pay for the rest.
"""
