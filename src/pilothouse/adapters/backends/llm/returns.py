"""What a model is told of a tool call that is over, or never was: always something, in words it can act upon."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from pilothouse.core.chat.calls import CallStatus, GivenResult
from pilothouse.core.chat.message import ToolBlock

MAX_RESULT = 100_000
"""Characters of a result that a model gets."""

Outcome = Literal["success", "failed", "denied", "interrupted"]


class Return(NamedTuple):
    text: str
    outcome: Outcome


_WORDS: dict[CallStatus, Return] = {
    CallStatus.ERROR: Return("The tool failed.", "failed"),
    CallStatus.SKIPPED: Return("This call is not permitted; it was not executed.", "denied"),
    CallStatus.REJECTED: Return("The user did not allow this call; it was not executed.", "denied"),
    CallStatus.CANCELLED: Return("The call was ended before it was through; what it did is not known.", "interrupted"),
    CallStatus.BACKGROUND: Return("It goes on in the background; its result is not known yet.", "success"),
    CallStatus.EXECUTING: Return("It was still running when the turn ended; its result is not known.", "interrupted"),
    CallStatus.AWAITING_APPROVAL: Return("Nobody has allowed this call yet; it was not executed.", "denied"),
    CallStatus.PENDING: Return("This call was not executed.", "interrupted"),
    CallStatus.GENERATING: Return("This call was never complete; it was not executed.", "interrupted"),
}
_UNANSWERED = "Nobody answered in time whether this call is allowed; it was not executed."


def return_of(block: ToolBlock) -> Return:
    """What came of a call."""
    if block.status is CallStatus.SUCCESS:
        return Return(_text(block.result), "success")
    text, outcome = _WORDS[block.status]
    if block.status is CallStatus.REJECTED and block.reason == "timeout":
        text = _UNANSWERED
    if not block.error:
        return Return(text, outcome)
    said = block.error if block.status in (CallStatus.ERROR, CallStatus.SKIPPED) else f"{text} {block.error}"
    return Return(_bounded(said), outcome)


def given(result: GivenResult) -> Return:
    """What whoever executed it told."""
    if result.ok:
        return Return(_text(result.result), "success")
    return Return(_bounded(result.error or _WORDS[CallStatus.ERROR].text), "failed")


def _text(result: Any) -> str:
    if result is None:
        return "Done."
    return _bounded(result if isinstance(result, str) else msgspec.json.encode(result).decode())


def _bounded(text: str) -> str:
    if len(text) <= MAX_RESULT:
        return text
    return f"{text[:MAX_RESULT]}\n… {len(text) - MAX_RESULT:,} more characters are left out …"
