"""Talking to a server from Python: ``from pilothouse import Client``.

What is listed here is public, as are ``pilothouse.client.events`` and ``pilothouse.errors``. Fetched when it is asked
for: the command line uses parts of this room that cost much less.
"""

from __future__ import annotations

import importlib

_HOMES = {
    "Approval": "runs",
    "AsyncClient": "clients",
    "AsyncTurn": "turns",
    "Chat": "chats",
    "Client": "clients",
    "Decision": "decisions",
    "Saying": "chats",
    "ServerFailed": "failures",
    "Turn": "turns",
    "Unreachable": "failures",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
