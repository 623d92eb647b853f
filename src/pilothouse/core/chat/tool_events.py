"""Events of the tool calls of a turn: told, asked about, begun, over, reported. See ``events``."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.row_notes import know, owe
from pilothouse.core.run.events import Event
from pilothouse.core.run.rows import RunRow
from pilothouse.core.tools.spec import Permit

ONCE = "once"
"""The scope of an answer that holds for one call alone."""


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
        return owe(row, int(self.report))


class ToolApproved(Event, frozen=True, kw_only=True, tag="TOOL_APPROVED"):
    """A person allowed a call, with other arguments where those are told. ``scope``: ``once``, ``chat`` or
    ``always``."""

    tool_call_id: str
    arguments: dict[str, Any] | None = None
    scope: str = "once"
    by: str = ""
    message: str = ""

    def project(self, row: RunRow) -> RunRow:
        return owe(row, int(self.scope != ONCE))


class PermitRemembered(Event, frozen=True, kw_only=True, tag="PERMIT_REMEMBERED"):
    """What was answered for longer than once is kept; or could not be (``error``)."""

    tool_call_id: str
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return owe(row, -1)


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
        return owe(row, int(self.report))


class ToolEnded(Event, frozen=True, kw_only=True, tag="TOOL_ENDED"):
    """A call is over. ``reason`` is a word for programs where the status alone does not say it: ``user_rejected``,
    ``timeout``, ``not_permitted``, ``needs_approval``, ``no_client``, ``stopped``, ``lost``, ``not_found``,
    ``bad_arguments``, ``watchdog``, ``turn_failed``, ``incomplete``, ``agent_ended``. ``known``: the backend
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
            row = know(row, "workflowId", self.workflow_id)
        return owe(msgspec.structs.replace(row, counts=counts), int(self.report))


class ToolReported(Event, frozen=True, kw_only=True, tag="TOOL_REPORTED"):
    """The backend was told how a call ended (mark-complete), or could not be (``error``)."""

    durable: ClassVar[bool] = False

    tool_call_id: str
    status: int
    """As of HTTP: 200, 202, 400, 408, 499 or 500."""
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return owe(row, -1)


TOOL_EVENTS: tuple[type[Event], ...] = (
    ToolCallGenerating,
    ToolCallArgs,
    ToolCalled,
    ToolApproved,
    PermitRemembered,
    ToolStarted,
    ToolBackgrounded,
    ToolEnded,
    ToolReported,
)
