"""What a backend is told of a tool call: as a report, or among the results that a request brings.

Statuses are as of HTTP, the way the mark-complete call of the chat document has them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.message import ToolBlock

_STATUS = {
    CallStatus.SUCCESS: 200,
    CallStatus.BACKGROUND: 202,
    CallStatus.SKIPPED: 400,
    CallStatus.REJECTED: 400,
    CallStatus.CANCELLED: 499,
    CallStatus.ERROR: 500,
}
_DECLINED = frozenset({CallStatus.SKIPPED, CallStatus.REJECTED})


class Told(msgspec.Struct, frozen=True):
    """``success``: its tool did what it should. ``message`` is one sentence, empty where the status says it all."""

    status: int
    success: bool
    message: str
    data: Any


def told_of(block: ToolBlock) -> Told:
    """A call as the backend is told of it. One that is not over is told to go on elsewhere: there is nothing to wait
    for."""
    status = block.status if block.status in _STATUS else CallStatus.BACKGROUND
    if status is CallStatus.SUCCESS:
        return Told(200, True, "", block.result)
    if status is CallStatus.BACKGROUND:
        return Told(202, True, "It goes on in the background.", {"background": True})
    code = 408 if status is CallStatus.REJECTED and block.reason == "timeout" else _STATUS[status]
    data: Any = {"skipped": True, "reason": block.reason} if status in _DECLINED else block.result
    if data is None:
        data = {"error": block.error, **({"reason": block.reason} if block.reason else {})}
    return Told(code, False, block.error, data)
