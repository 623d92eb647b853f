"""What tools were asked to do outside any turn, where no log of a run tells it: by whom, through which door, and what
became of it.

A call stands here before it has an effect, and its end after it. Each owner has an output of their own, beside those
of commands and bounded as they are: of very many calls the first and the last ones are kept. Knows neither tools nor
doors.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pilothouse.core.tools.spec import ToolAnswer
from pilothouse.engine.driving.undisturbed import undisturbed
from pilothouse.engine.ports import Clock, Ids, LogStore
from pilothouse.errors import PilothouseError

log = logging.getLogger(__name__)

MOST = 1000
"""Calls that are answered at once."""
_LARGEST = 16_384
"""Bytes of arguments that are kept; of more the beginning."""
_LONGEST_ERROR = 1_000


class Call(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call as it was made. ``door``: how it came in. What is secret in ``arguments`` has been replaced."""

    owner: str
    door: str
    tool: str
    arguments: Any
    chat_id: str = ""
    call_id: str = ""
    """Its caller's name for it."""
    key_id: str = ""
    """The API key that was used."""


class Recorded(Call, frozen=True, kw_only=True, rename="camel"):
    """A call and its end. ``status``: ``executing``, ``success``, ``error``, or ``interrupted`` where nobody knows what
    became of it. Times in milliseconds since 1970."""

    id: str
    at: int
    status: str
    ended_at: int | None = None
    error: str = ""


class _Begun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="begun"):
    id: str
    at: int
    call: Call


class _Ended(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="ended"):
    id: str
    at: int
    status: str
    error: str = ""


_LINE = msgspec.json.Decoder(_Begun | _Ended)


class Recording:
    """A call that is being made: ``answer`` is to be what came of it."""

    answer: ToolAnswer | None = None


class ToolJournal:
    def __init__(self, logs: LogStore, clock: Clock, ids: Ids) -> None:
        self._logs = logs
        self._clock = clock
        self._ids = ids
        self._going_on: set[str] = set()

    @asynccontextmanager
    async def recorded(self, call: Call) -> AsyncIterator[Recording]:
        """Around what a call does. Raises ``StoreFailed`` when it cannot be recorded: then nothing is to be done."""
        id, recording = self._ids.new(), Recording()
        call = msgspec.structs.replace(call, arguments=_bounded(call.arguments))
        await self._append(call.owner, _Begun(id=id, at=self._clock.now_ms(), call=call))
        self._going_on.add(id)
        try:
            yield recording
        finally:
            self._going_on.discard(id)
            await undisturbed(self._end(call, id, recording.answer))

    async def calls(self, owner: str, limit: int = 100) -> list[Recorded]:
        """The last calls of an owner, newest first."""
        text = await self._logs.tail(_output(owner), 4 * min(limit, MOST))  # an end may come long after its beginning
        begun: dict[str, _Begun] = {}
        ended: dict[str, _Ended] = {}
        for line in text.splitlines():
            try:
                match _LINE.decode(line):
                    case _Begun() as one:
                        begun[one.id] = one
                    case _Ended() as other:
                        ended[other.id] = other
            except msgspec.DecodeError:
                continue  # cut off by a crash, or where old ones are dropped
        newest = list(reversed(begun.values()))[: min(limit, MOST)]
        return [self._told(one, ended.get(one.id)) for one in newest]

    def _told(self, begun: _Begun, ended: _Ended | None) -> Recorded:
        call = {name: getattr(begun.call, name) for name in begun.call.__struct_fields__}
        if ended is not None:
            return Recorded(**call, id=begun.id, at=begun.at, status=ended.status, ended_at=ended.at, error=ended.error)
        status = "executing" if begun.id in self._going_on else "interrupted"
        return Recorded(**call, id=begun.id, at=begun.at, status=status)

    async def _end(self, call: Call, id: str, answer: ToolAnswer | None) -> None:
        status = "interrupted" if answer is None else "success" if answer.ok else "error"
        error = answer.error[:_LONGEST_ERROR] if answer is not None else ""
        try:
            await self._append(call.owner, _Ended(id=id, at=self._clock.now_ms(), status=status, error=error))
        except PilothouseError as trouble:  # it has been done: whoever called is to hear what came of it
            log.warning("tools.end-not-recorded: %s", trouble, extra={"tool": call.tool, "call": id})

    async def _append(self, owner: str, line: _Begun | _Ended) -> None:
        await self._logs.append(_output(owner), msgspec.json.encode(line) + b"\n")


def _output(owner: str) -> str:
    return f"tool-calls/{hashlib.sha256(owner.encode()).hexdigest()[:32]}"


def _bounded(arguments: Any) -> Any:
    encoded = msgspec.json.encode(arguments)
    if len(encoded) <= _LARGEST:
        return arguments
    return {"truncated": True, "bytes": len(encoded), "beginning": encoded[: _LARGEST // 4].decode("utf-8", "ignore")}
