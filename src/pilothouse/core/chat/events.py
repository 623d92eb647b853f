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
    CallStatus,
    Features,
    GivenResult,
    Offered,
    OnApproval,
    RunBy,
)
from pilothouse.core.run.events import Event
from pilothouse.core.run.rows import RunRow
from pilothouse.core.tools.spec import Permit

ONCE = "once"
"""The scope of an answer that holds for one call alone."""
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
        return _owe(msgspec.structs.replace(row, detail={**row.detail, **detail}), int(self.title))


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


class ToolCallGenerating(Event, frozen=True, kw_only=True, tag="TOOL_CALL_GENERATING"):
    """A call is on its way; its arguments are not whole."""

    durable: ClassVar[bool] = False

    tool_call_id: str
    tool_name: str = ""
    arguments: dict[str, Any] | None = None
    lane: str = ""


class ToolCallArgs(Event, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """More of a call's arguments, as JSON text."""

    durable: ClassVar[bool] = False

    tool_call_id: str
    delta: str


class ToolCalled(Event, frozen=True, kw_only=True, tag="TOOL_CALLED"):
    """A whole call, and what becomes of it."""

    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    lane: str = ""
    call: int
    run_by: RunBy = RunBy.SERVER
    permit: Permit = Permit.ALLOW
    ui: dict[str, Any] = msgspec.field(default_factory=dict)
    report: bool = False
    """The backend is told at once not to wait: somebody else will execute it, in their own time."""

    def project(self, row: RunRow) -> RunRow:
        return _owe(row, int(self.report))


class ToolApproved(Event, frozen=True, kw_only=True, tag="TOOL_APPROVED"):
    """A person allowed a call, with other arguments where those are told. ``scope``: ``once``, ``chat`` or
    ``always``."""

    tool_call_id: str
    arguments: dict[str, Any] | None = None
    scope: str = "once"
    by: str = ""
    message: str = ""

    def project(self, row: RunRow) -> RunRow:
        return _owe(row, int(self.scope != ONCE))


class PermitRemembered(Event, frozen=True, kw_only=True, tag="PERMIT_REMEMBERED"):
    """What was answered for longer than once is kept; or could not be (``error``)."""

    tool_call_id: str
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return _owe(row, -1)


class ToolStarted(Event, frozen=True, kw_only=True, tag="TOOL_STARTED"):
    """The tool is about to run: an intent. ``attempt`` counts from 1: a repeatable one whose outcome was lost is run
    again."""

    tool_call_id: str
    attempt: int = 1


class ToolBackgrounded(Event, frozen=True, kw_only=True, tag="TOOL_BACKGROUNDED"):
    """The backend is told not to wait for it; it runs on, and the turn ends when it has."""

    tool_call_id: str
    by: str = ""
    report: bool = False

    def project(self, row: RunRow) -> RunRow:
        return _owe(row, int(self.report))


class ToolEnded(Event, frozen=True, kw_only=True, tag="TOOL_ENDED"):
    """A call is over. ``reason`` is a word for programs where the status alone does not say it: ``user_rejected``,
    ``timeout``, ``not_permitted``, ``needs_approval``, ``no_client``, ``stopped``, ``lost``, ``not_found``,
    ``bad_arguments``, ``watchdog``, ``turn_failed``, ``incomplete``. ``known``: the backend
    said so itself. ``report``: it waits to be told."""

    tool_call_id: str
    status: CallStatus
    result: Any = None
    error: str = ""
    reason: str = ""
    workflow_id: str = ""
    runs: tuple[str, ...] = ()
    known: bool = False
    report: bool = False

    def project(self, row: RunRow) -> RunRow:
        counts = {**row.counts, self.status: row.counts.get(self.status, 0) + 1}
        if self.workflow_id and not row.detail.get("workflowId"):
            row = _know(row, "workflowId", self.workflow_id)
        return _owe(msgspec.structs.replace(row, counts=counts), int(self.report))


class ToolReported(Event, frozen=True, kw_only=True, tag="TOOL_REPORTED"):
    """The backend was told how a call ended (mark-complete), or could not be (``error``)."""

    durable: ClassVar[bool] = False

    tool_call_id: str
    status: int
    """As of HTTP: 200, 202, 400, 408, 499 or 500."""
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return _owe(row, -1)


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
        return _know(row, "conversationId", self.conversation_id)


class TitleUpdated(Event, frozen=True, kw_only=True, tag="TITLE_UPDATED"):
    """The conversation has a title; empty with ``error``: none could be made. ``made``: it is the one that was asked
    for, and not one the backend told of itself."""

    title: str = ""
    error: str = ""
    made: bool = False

    def project(self, row: RunRow) -> RunRow:
        return _owe(_know(row, "title", self.title), -int(self.made))


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
        return _owe(row, 1)


class BackendAborted(Event, frozen=True, kw_only=True, tag="BACKEND_ABORTED"):
    """The backend was told of a stop, or could not be (``error``)."""

    durable: ClassVar[bool] = False

    leg: int = 0
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return _owe(row, -1)


class BackendAnswered(Event, frozen=True, kw_only=True, tag="BACKEND_ANSWERED"):
    """The answer to what an agent asked reached it, or cannot any more (``error``)."""

    durable: ClassVar[bool] = False

    wait_id: str
    error: str = ""


class TurnTimedOut(Event, frozen=True, kw_only=True, tag="TURN_TIMED_OUT"):
    """It took longer than it may: what runs is being ended, RUN_FAILED follows."""

    timeout_ms: int


def _know(row: RunRow, name: str, value: str) -> RunRow:
    """What lists of conversations show of their last turn."""
    return msgspec.structs.replace(row, detail={**row.detail, name: value}) if value else row


def _owe(row: RunRow, step: int) -> RunRow:
    if not step:
        return row
    return msgspec.structs.replace(row, detail={**row.detail, "owed": row.detail.get("owed", 0) + step})


CHAT_EVENTS: tuple[type[Event], ...] = (
    TurnReceived,
    BackendCalled,
    BackendEnded,
    TextDelta,
    ReasoningDelta,
    ToolCallGenerating,
    ToolCallArgs,
    ToolCalled,
    ToolApproved,
    PermitRemembered,
    ToolStarted,
    ToolBackgrounded,
    ToolEnded,
    ToolReported,
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
