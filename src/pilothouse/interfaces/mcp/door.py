"""The door for MCP: who comes in is handed a tool caller, and one message is answered at a time.

Owns when the SDK is imported, which takes a second: when somebody first speaks MCP or is sure to, on a thread. Knows
neither what is said nor by which route it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from pilothouse.core.auth.principals import Principal
from pilothouse.engine.tools.callers import ToolCaller
from pilothouse.errors import Unavailable

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from pilothouse.interfaces.mcp.serving import OneMessage


class NotInstalled(Unavailable):
    """Raised where the SDK is missing. To ask again changes nothing."""

    code = "not_installed"


class McpDoor:
    """Answers MCP for whoever is let in."""

    def __init__(self, callers: Callable[[Principal], ToolCaller], version: str) -> None:
        """``version``: of this server, as clients are told it."""
        self._callers = callers
        self._version = version
        self._application: type[OneMessage] | None = None

    async def __call__(self, principal: Principal, call_id: str, ending: asyncio.Event, *, again: bool) -> ASGIApp:
        """Who answers one message, as the body of a request. ``call_id`` names the call that it may make, which nobody
        waits for any more once ``ending`` is set; ``again``: a server before this one was asked for it, and its answer
        was lost. Raises ``NotInstalled`` without the SDK, and what ``callers`` raises."""
        await self.warm()
        assert self._application is not None
        caller = self._callers(principal)
        return self._application(caller, principal, call_id, ending, version=self._version, again=again)

    async def warm(self) -> None:
        """Have the SDK. Raises ``NotInstalled``."""
        if self._application is None:
            self._application = await asyncio.to_thread(_load)


def _load() -> type[OneMessage]:
    try:
        from pilothouse.interfaces.mcp.serving import OneMessage  # noqa: PLC0415  # it imports an extra, slowly
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise NotInstalled("MCP needs a package that is not installed: pip install 'pilothouse[mcp]'") from None
    return OneMessage
