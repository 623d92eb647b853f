"""Git behind the engine's ``Git`` port: the real one, and its in-memory twin."""

from pilothouse.adapters.git.adapter import GitAdapter
from pilothouse.adapters.git.memory import MemoryGit
from pilothouse.adapters.git.memory_world import MemoryWorld

__all__ = ["GitAdapter", "MemoryGit", "MemoryWorld"]
