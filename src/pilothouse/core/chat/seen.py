"""The tool calls of a turn as of one point of a network chunk, of which the state knows nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pilothouse.core.chat.backend import ToolCalled
from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.plain import plain
from pilothouse.core.chat.state import ToolCall


@dataclass(slots=True)
class Seen:
    """``told``: whole. ``settled``: its tool has been begun here, so no answer of the backend's counts any more.
    ``wait_id``: the open question about it. ``before``: its arguments as JSON text, as far as they came with earlier
    chunks, in their pieces; ``pieces``: what this one brought of them."""

    name: str = ""
    told: bool = False
    over: bool = False
    settled: bool = False
    run_by: RunBy = RunBy.BACKEND
    wait_id: str = ""
    arguments: dict[str, Any] | None = None
    before: Sequence[str] = ()
    pieces: list[str] = field(default_factory=list)

    def rebound(self, name: str, runner: RunBy) -> bool:
        """A call that went through a gateway of the backend comes again under the name of what it is."""
        its_own = self.run_by is RunBy.BACKEND and runner is not RunBy.BACKEND
        return its_own and name != self.name and not self.over

    def whole(self, said: ToolCalled) -> dict[str, Any] | None:
        """The arguments: those of the last frame, or else those told before it. None: what came is no object."""
        told: Any = said.arguments
        if told is None and (self.before or self.pieces):
            try:
                told = msgspec.json.decode("".join((*self.before, *self.pieces)))
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                return None
        elif told is None:
            told = self.arguments or {}
        told = plain(told)
        return told if isinstance(told, dict) else None


def seen_of(call: ToolCall) -> Seen:
    return Seen(
        name=call.name,
        told=call.told,
        over=call.over,
        settled=call.attempt > 0,
        run_by=call.run_by,
        wait_id=call.wait_id if call.status is CallStatus.AWAITING_APPROVAL else "",
        arguments=call.arguments or None,
        before=call.pieces,
    )
