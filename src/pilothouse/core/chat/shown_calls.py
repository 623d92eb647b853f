"""What clients are shown of tool calls and of the subagents that work for them: the part of ``shown`` that is about
these, and remembers their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.events import LaneClosed, LaneOpened
from pilothouse.core.chat.tool_events import (
    ToolApproved,
    ToolBackgrounded,
    ToolCallArgs,
    ToolCalled,
    ToolCallGenerating,
    ToolEnded,
    ToolStarted,
)
from pilothouse.core.run.events import Event, NeedsApproval, WaitClosed

Json: TypeAlias = dict[str, Any]

_LANE = "subagent"
"""What a subagent is called whose name nobody told."""


@dataclass(slots=True)
class _Call:
    name: str = ""
    lane: str = ""
    open: bool = False
    """It is for us, or for the client, to execute, and is not over."""


class ShownCalls:
    """The calls of a turn, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._agents: dict[str, str] = {}
        """By the call that each subagent works for."""
        self._asked: dict[str, str] = {}
        """Open approvals, by wait: which call they are about."""

    @property
    def open(self) -> list[str]:
        """Calls that somebody has yet to execute."""
        return [identity for identity, call in self._calls.items() if call.open]

    def within(self, lane: str, shown: Json) -> Json:
        """The same, as what a subagent does, where there is one."""
        if lane:
            shown["subagent"] = self._agents.get(lane, _LANE)
            shown["parentToolCallId"] = lane
        return shown

    # --- subagents ---

    def lane_opened(self, event: LaneOpened) -> Json:
        self._agents[event.tool_call_id] = event.agent or _LANE
        data = {"tool_call_id": event.tool_call_id, "agent": event.agent, "parent": event.lane or None}
        return self.within(event.tool_call_id, {"type": "subagent_start", "data": data})

    def lane_closed(self, event: LaneClosed) -> Json:
        data = {"tool_call_id": event.tool_call_id}
        return self.within(event.tool_call_id, {"type": "subagent_end", "data": data})

    # --- calls ---

    def generating(self, event: ToolCallGenerating) -> Json:
        self._know(event.tool_call_id, event.tool_name, event.lane)
        more = {"arguments": event.arguments, "partial": True} if event.arguments is not None else {}
        return self._of_call("tool_generating", event.tool_call_id, status=CallStatus.GENERATING, **more)

    def arguments(self, event: ToolCallArgs) -> Json:
        return self._of_call("tool_call_delta", event.tool_call_id, argumentsDelta=event.delta)

    def called(self, event: ToolCalled) -> Json:
        call = self._know(event.tool_call_id, event.tool_name, event.lane)
        call.open = event.run_by is not RunBy.BACKEND
        return self._of_call(
            "tool_call",
            event.tool_call_id,
            arguments=event.arguments,
            status=CallStatus.PENDING,
            runBy=event.run_by,
            permit=event.permit,
            ui=event.ui,
        )

    def asked(self, event: NeedsApproval) -> Json:
        wait = event.wait
        call_id = str(wait.detail.get("toolCallId") or wait.scope)
        self._asked[wait.id] = call_id
        return self._of_call(
            "approval_required",
            call_id,
            approvalId=wait.id,
            status=CallStatus.AWAITING_APPROVAL,
            arguments=wait.detail.get("arguments", {}),
            question=wait.question,
            options=wait.options,
            action=event.action,
            preview=event.preview,
            timeout=event.timeout,
        )

    def answered(self, event: WaitClosed) -> Json | None:
        call_id = self._asked.pop(event.wait_id, None)
        if call_id is None:
            return None  # a pause that time ended
        return self._of_call(
            "approval_resolved",
            call_id,
            approvalId=event.wait_id,
            answer=event.answer,
            by=event.by,
            scope=event.scope,
        )

    def approved(self, event: ToolApproved) -> Json:
        more = {"arguments": event.arguments} if event.arguments is not None else {}
        return self._of_call("tool_approved", event.tool_call_id, scope=event.scope, by=event.by, **more)

    def executing(self, event: ToolStarted) -> Json:
        return self._of_call("tool_executing", event.tool_call_id, status=CallStatus.EXECUTING, attempt=event.attempt)

    def backgrounded(self, event: ToolBackgrounded) -> Json:
        return self._of_call("tool_background", event.tool_call_id, status=CallStatus.BACKGROUND, by=event.by)

    def ended(self, event: ToolEnded) -> Json:
        self._know(event.tool_call_id).open = False
        success = event.status is CallStatus.SUCCESS
        shown = self._of_call(
            "tool_result" if success else "tool_error",
            event.tool_call_id,
            success=success,
            status=event.status,
            result=event.result,
        )
        shown["success"] = success
        shown["result"] = event.result
        data = shown["data"]
        if not success:
            shown["error"] = data["error"] = event.error or event.reason or event.status.value
        if event.reason:
            data["reason"] = event.reason
        if event.runs:
            data["runs"] = event.runs
        if event.workflow_id:
            data["workflowId"] = event.workflow_id
        return shown

    def _know(self, call_id: str, name: str = "", lane: str = "") -> _Call:
        call = self._calls.setdefault(call_id, _Call())
        call.name = name or call.name
        call.lane = lane or call.lane
        return call

    def _of_call(self, kind: str, call_id: str, **data: Any) -> Json:
        call = self._know(call_id)
        shown: Json = {
            "type": kind,
            "toolCallId": call_id,
            "toolName": call.name,
            "data": {"id": call_id, "name": call.name, **data},
        }
        return self.within(call.lane, shown)


OF_CALLS: Mapping[type[Event], Callable[[ShownCalls, Any], Json | None]] = {
    LaneOpened: ShownCalls.lane_opened,
    LaneClosed: ShownCalls.lane_closed,
    ToolCallGenerating: ShownCalls.generating,
    ToolCallArgs: ShownCalls.arguments,
    ToolCalled: ShownCalls.called,
    NeedsApproval: ShownCalls.asked,
    WaitClosed: ShownCalls.answered,
    ToolApproved: ShownCalls.approved,
    ToolStarted: ShownCalls.executing,
    ToolBackgrounded: ShownCalls.backgrounded,
    ToolEnded: ShownCalls.ended,
}
