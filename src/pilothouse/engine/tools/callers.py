"""Whoever calls the server's tools over MCP, in one shape: which tools it has, and what comes of a call.

An agent that answers a turn calls the tools of that turn, and each call is the turn's; anybody else calls tools outside
any turn. Knows nothing of MCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from pilothouse.core.tools.spec import ToolSpec

Tell = Callable[[str], Awaitable[None]]
"""What a call waits for, in words for people: told whenever that changes."""


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call. ``result`` is a JSON value. Of one that is not ``ok``, ``error`` says why, in words that a
    model can act upon. ``pending``: it is no failure, it goes on, but nobody waits for it any more; ``error`` says how
    to learn of its end."""

    ok: bool
    result: Any = None
    error: str = ""
    pending: bool = False


class ToolCaller(Protocol):
    """One principal, as a caller of tools."""

    async def offered(self) -> tuple[ToolSpec, ...]:
        """By name. Raises ``Refused`` for an agent whose turn does not wait for it any more."""
        ...

    async def call(self, call_id: str, name: str, arguments: Mapping[str, Any], tell: Tell) -> ToolOutcome:
        """Call a tool and wait for its outcome, however long a person takes to allow it. The same ``call_id`` twice is
        one call: whoever lost the answer asks again. Failures of a tool, and calls that nobody permits, are outcomes.

        Raises ``NotFound`` for a tool that there is not, ``Refused`` as above, ``BadInput`` for arguments that are no
        object or too large, ``Unavailable`` when this process lets go of it: the next one knows what came of it."""
        ...
