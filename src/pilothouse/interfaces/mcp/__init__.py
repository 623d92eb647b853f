"""MCP: a server of tools for agents and editors, and the bridge to it for those that start a program.

``bridge`` is a program of its own that needs the standard library only; nothing may be imported here.
"""
