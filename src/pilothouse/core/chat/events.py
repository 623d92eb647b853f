"""Events of a turn: one request to a conversation, and all that followed from it.

Texts are stored as they arrived, joined per network chunk. Text, arguments and notices are deltas; intents, approvals
and ends are durable. ``call`` counts the requests to the backend within a turn, from 1; ``lane`` is the tool call
whose subagent did it, empty for the turn itself.

What a turn owes when it has ended (a report, a title, word of a stop, an answer to be remembered) is counted in its row
as ``detail["owed"]``, so the events from which that follows say so.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pilothouse.core.chat.calls import (
    BackendEnd,
    CallReason,
    Features,
    GivenResult,
    Offered,
    OnApproval,
)
from pilothouse.core.chat.row_notes import know, owe
from pilothouse.core.chat.tool_events import TOOL_EVENTS
from pilothouse.core.run.events import Event
from pilothouse.core.run.rows import RunRow

FAULT = "backend_error"
"""The kind of a notice that tells of an error in the middle of a stream."""
STEERING_FAILED = "steering_failed"
"""The kind of a notice that the backend could not be told at once what was said meanwhile."""


class TurnReceived(Event, frozen=True, kw_only=True, tag="TURN_RECEIVED"):
    """A person, or a program, said something. Second event of every turn; everything it was accepted with.

    Times are in milliseconds. ``attachments`` and ``context`` are as they were sent, bounded."""

    message_id: str
    message: str
    mode: str = "chat"
    backend: str
    features: Features = Features()
    model: str = ""
    tools: tuple[Offered, ...] = ()
    workflow_id: str = ""
    workspace: str = ""
    attachments: tuple[dict[str, Any], ...] = ()
    context: tuple[dict[str, Any], ...] = ()
    auto_execute: bool = True
    on_approval: OnApproval = OnApproval.WAIT
    approval_timeout_ms: int = 600_000
    timeout_ms: int = 300_000
    headless: bool = False
    conversation_id: str = ""
    checkpoint_id: str = ""
    """Where the backend paused in an earlier turn, for results of that turn's pending calls."""
    tool_results: tuple[GivenResult, ...] = ()
    title: bool = False
    """A title is to be made of the message."""

    def project(self, row: RunRow) -> RunRow:
        detail = {
            "messageId": self.message_id,
            "model": self.model,
            "mode": self.mode,
            "workflowId": self.workflow_id,
            "headless": self.headless,
            "conversationId": self.conversation_id,
        }
        return owe(msgspec.structs.replace(row, detail={**row.detail, **detail}), int(self.title))


class BackendCalled(Event, frozen=True, kw_only=True, tag="BACKEND_CALLED"):
    """The backend is about to be asked: an intent."""

    call: int
    reason: CallReason
    checkpoint_id: str = ""
    results: tuple[str, ...] = ()
    """The ids of the calls whose results it brings."""


class BackendEnded(Event, frozen=True, kw_only=True, tag="BACKEND_ENDED"):
    """``transient``: the same again may succeed. ``shown`` is meant for people where it differs from ``error``."""

    call: int
    end: BackendEnd
    error: str = ""
    shown: str = ""
    code: str = ""
    transient: bool = False
    retry_after_ms: int = 0
    checkpoint_id: str = ""
    pending: tuple[str, ...] = ()


class TextDelta(Event, frozen=True, kw_only=True, tag="TEXT_DELTA"):
    durable: ClassVar[bool] = False

    text: str
    lane: str = ""


class ReasoningDelta(Event, frozen=True, kw_only=True, tag="REASONING_DELTA"):
    """``begins`` and ``ends``: the bounds of one thought, where the backend marks them."""

    durable: ClassVar[bool] = False

    text: str = ""
    lane: str = ""
    begins: bool = False
    ends: bool = False


class LaneOpened(Event, frozen=True, kw_only=True, tag="LANE_OPENED"):
    """A subagent begins to work for the call ``tool_call_id``; ``lane`` is where that call was made."""

    durable: ClassVar[bool] = False

    tool_call_id: str
    agent: str = ""
    lane: str = ""


class LaneClosed(Event, frozen=True, kw_only=True, tag="LANE_CLOSED"):
    durable: ClassVar[bool] = False

    tool_call_id: str


class StructuredResult(Event, frozen=True, kw_only=True, tag="STRUCTURED_RESULT"):
    """The result of a subagent that was called directly."""

    kind: str = ""
    summary: str = ""
    data: Any = None
    ok: bool = True
    lane: str = ""


class ConversationKnown(Event, frozen=True, kw_only=True, tag="CONVERSATION_KNOWN"):
    """The backend's own id of the conversation."""

    conversation_id: str

    def project(self, row: RunRow) -> RunRow:
        return know(row, "conversationId", self.conversation_id)


class TitleUpdated(Event, frozen=True, kw_only=True, tag="TITLE_UPDATED"):
    """The conversation has a title; empty with ``error``: none could be made. ``made``: it is the one that was asked
    for, and not one the backend told of itself."""

    title: str = ""
    error: str = ""
    made: bool = False

    def project(self, row: RunRow) -> RunRow:
        return owe(know(row, "title", self.title), -int(self.made))


class UsageRecorded(Event, frozen=True, kw_only=True, tag="USAGE_RECORDED"):
    """What one request to the backend used. ``input_tokens`` includes the cached ones; ``cost`` is in US dollars, None
    where nobody knows the price."""

    call: int
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None


class TurnNoticed(Event, frozen=True, kw_only=True, tag="TURN_NOTICED"):
    """Something to know that decides nothing: a resource, a compaction, a payload that was not understood, a call
    that was told twice. ``data`` is bounded."""

    durable: ClassVar[bool] = False

    kind: str
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class TurnSteered(Event, frozen=True, kw_only=True, tag="TURN_STEERED"):
    """Something was said while the turn went on. ``at_once``: the backend takes it while it works."""

    steering_id: str
    content: str
    by: str = ""
    at_once: bool = False


class SteeringApplied(Event, frozen=True, kw_only=True, tag="STEERING_APPLIED"):
    """The backend has it: told with the request ``call``, or while that went on."""

    steering_ids: tuple[str, ...]
    call: int = 0


class BackendAborting(Event, frozen=True, kw_only=True, tag="BACKEND_ABORTING"):
    """The backend is to be told that the leg is being ended, before anything else of it is."""

    leg: int

    def project(self, row: RunRow) -> RunRow:
        return owe(row, 1)


class BackendAborted(Event, frozen=True, kw_only=True, tag="BACKEND_ABORTED"):
    """The backend was told of a stop, or could not be (``error``)."""

    durable: ClassVar[bool] = False

    leg: int = 0
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return owe(row, -1)


class BackendAnswered(Event, frozen=True, kw_only=True, tag="BACKEND_ANSWERED"):
    """The answer to what an agent asked reached it, or cannot any more (``error``)."""

    durable: ClassVar[bool] = False

    wait_id: str
    error: str = ""


class TurnTimedOut(Event, frozen=True, kw_only=True, tag="TURN_TIMED_OUT"):
    """It took longer than it may: what runs is being ended, RUN_FAILED follows."""

    timeout_ms: int


CHAT_EVENTS: tuple[type[Event], ...] = (
    *TOOL_EVENTS,
    TurnReceived,
    BackendCalled,
    BackendEnded,
    TextDelta,
    ReasoningDelta,
    LaneOpened,
    LaneClosed,
    StructuredResult,
    ConversationKnown,
    TitleUpdated,
    UsageRecorded,
    TurnNoticed,
    TurnSteered,
    SteeringApplied,
    BackendAborting,
    BackendAborted,
    BackendAnswered,
    TurnTimedOut,
)
