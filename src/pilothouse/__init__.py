"""Pilothouse: run many AI agents and commands at once, watch them, stop them, trust what you see.

``Client`` and ``AsyncClient`` are here, fetched when they are first asked for: the warden and the command line import
this package on their way to a single module and must not pay for the rest. Type checkers read the stub beside it.
"""

from __future__ import annotations

import importlib

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
