"""The command line: a thin client of whoever owns the data directory.

``main`` is the front door, ``verbs/`` has one module per verb, everything else is what they share. Nothing is decided
here: verbs ask the owner over its Unix socket and show what it answers.
"""
