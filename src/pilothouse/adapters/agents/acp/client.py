"""Our side of a conversation over the Agent Client Protocol: what the agent tells, asks, reads and writes.

Joins ``news``, ``permissions`` and ``files`` to the library's client. Runs no terminals: agents that are
not offered any have their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from acp import RequestError
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
    WriteTextFileResponse,
)

from pilothouse.adapters.agents.acp.files import Files, Refused
from pilothouse.adapters.agents.acp.news import Updates
from pilothouse.adapters.agents.acp.outcome import NOT_FOUND
from pilothouse.adapters.agents.acp.permissions import Desk
from pilothouse.adapters.agents.acp.reach import CHANGES, too_far
from pilothouse.core.run.agents import News, Text

CAPABILITIES = ClientCapabilities(fs=FileSystemCapabilities(write_text_file=True))
"""That files can be read through us we do not offer, although they can: an agent sees them as well without us, and one
of them takes a file that is not there yet for an error."""
EDIT = "edit"
"""What the protocol calls tools that write files."""

# Once before always: an agent may keep an "always" in its settings, some of which lie in the repository.
_YES = ("allow_once", "allow_always")
_NO = ("reject_once", "reject_always")


class AgentClient:
    """Implements the parts of the library's client that we offer. ``tell`` makes news known."""

    def __init__(
        self,
        updates: Updates,
        desk: Desk,
        files: Files,
        urls: Iterable[str],
        tell: Callable[[Iterable[News]], None],
    ) -> None:
        self._urls = tuple(urls)
        self._updates = updates
        self._desk = desk
        self._files = files
        self._tell = tell
        self._permitted: set[str] = set()
        """Paths that it was allowed to change."""
        self.replaying = False
        """Whether what it tells has been told before, in another process."""
        self.last = ""
        """The last piece that it said."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if self.replaying:
            return
        news = list(self._updates.news(update))
        for one in news:
            if isinstance(one, Text):
                self.last = one.text
        self._tell(news)

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        wanted, news = self._updates.asked(tool_call)
        self._tell(news)
        beyond = too_far(wanted, self._files.holds, self._urls)
        if await self._desk.decide(wanted.name, wanted.title, wanted.input, beyond=beyond, given=wanted.given):
            if wanted.kind in CHANGES:
                self._permitted.update(str(self._files.place(path)) for path in wanted.paths if self._files.holds(path))
            kinds = _YES
        else:
            self._updates.denied(tool_call.tool_call_id)
            kinds = _NO
        chosen = next((option for kind in kinds for option in options if option.kind == kind), None)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        try:
            return ReadTextFileResponse(content=await asyncio.to_thread(self._files.read, path, line, limit))
        except (Refused, OSError) as error:
            raise _error(error, path) from None

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        try:
            place = str(self._files.place(path))
            if place not in self._permitted and not await self._desk.decide(EDIT, path, content):
                raise Refused(f"writing {path} is not permitted")
            before = await asyncio.to_thread(self._files.write, path, content)
        except (Refused, OSError) as error:
            raise _error(error, path) from None
        self._tell(self._updates.written(path, before, content))
        return WriteTextFileResponse()

    async def create_terminal(self, **_: Any) -> None:
        """Without this the library would answer that there is one. Raises ``RequestError``."""
        raise RequestError.method_not_found("terminal/create")


def _error(error: Refused | OSError, path: str) -> RequestError:
    """Agents look for files that are not there, and recognize that by this text."""
    if isinstance(error, FileNotFoundError):
        return RequestError(NOT_FOUND, "Resource not found", {"uri": path, "details": "No such file or directory"})
    text = str(error) if isinstance(error, Refused) else f"{path}: {error.strerror}"
    return RequestError(RequestError.invalid_params().code, text)
