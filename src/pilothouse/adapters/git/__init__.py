"""Git behind the engine's ``Git`` port: the real one, and its in-memory twin."""

from pilothouse.adapters.git.adapter import GitAdapter

__all__ = ["GitAdapter"]
