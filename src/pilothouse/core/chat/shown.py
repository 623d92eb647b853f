"""What clients are shown of a turn: its events, one for one, as the chat document's.

``{type, …, eventId, streamId}``: ``eventId`` is the sequence number in the log, so that whoever has seen one can go on
from there; events that clients have no use for are left out, and their numbers with them. A leg ends with exactly one
``done`` or ``error``. What belongs to a subagent carries ``subagent`` (its name) and ``parentToolCallId`` (the call it
works for). Knows neither streams nor who looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.events import (
    ConversationKnown,
    LaneClosed,
    LaneOpened,
    ReasoningDelta,
    SteeringApplied,
    StructuredResult,
    TextDelta,
    TitleUpdated,
    TurnNoticed,
    TurnReceived,
    TurnSteered,
    UsageRecorded,
)
from pilothouse.core.chat.tool_events import (
    ToolApproved,
    ToolBackgrounded,
    ToolCallArgs,
    ToolCalled,
    ToolCallGenerating,
    ToolEnded,
    ToolStarted,
)
from pilothouse.core.run.events import (
    Event,
    NeedsApproval,
    Recorded,
    RunCanceled,
    RunCreated,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Stopped,
    WaitClosed,
)

Json: TypeAlias = dict[str, Any]

ENDS = frozenset({"done", "error"})
"""The last event of a leg is one of these."""

_LANE = "subagent"
"""What a subagent is called whose name nobody told."""


@dataclass(slots=True)
class _Call:
    name: str = ""
    lane: str = ""
    open: bool = False
    """It is for us, or for the client, to execute, and is not over."""


class Shown:
    """The fold of one turn. It must be given every event, from the first on: later ones lean on earlier ones."""

    def __init__(self, turn_id: str) -> None:
        self._turn_id = turn_id
        self._chat_id = ""
        self._message_id = ""
        self._conversation_id = ""
        self._calls: dict[str, _Call] = {}
        self._agents: dict[str, str] = {}
        """By the call that each subagent works for."""
        self._asked: dict[str, str] = {}
        """Open approvals, by wait: which call they are about."""
        self._leg_open = False

    @property
    def over(self) -> bool:
        """Whether no leg is open: the last event of one was shown, and none has begun since."""
        return not self._leg_open

    def show(self, recorded: Recorded) -> Json | None:
        """What clients are shown of the next event; None: nothing."""
        handler = _HANDLERS.get(type(recorded.event))
        shown = handler(self, recorded.event) if handler is not None else None
        if shown is not None:
            shown["eventId"] = recorded.seq
            shown["streamId"] = self._turn_id
        return shown

    def follow(self, recorded: Recorded) -> None:
        """Take note of the next event, of which is known already what clients are shown."""
        if type(recorded.event) not in _LEANT_ON_BY_NONE:
            self.show(recorded)

    # --- the turn ---

    def created(self, event: RunCreated) -> Json:
        self._chat_id = event.session_id or ""
        return {"type": "chat_id", "chatId": self._chat_id}

    def received(self, event: TurnReceived) -> None:
        self._message_id = event.message_id
        self._conversation_id = event.conversation_id

    def began(self, event: RunStarted | RunResumed) -> Json | None:
        if self._leg_open:
            return None
        self._leg_open = True
        return {
            "type": "start",
            "data": {"responseId": self._turn_id, "messageId": self._message_id, "leg": event.leg},
        }

    def conversation(self, event: ConversationKnown) -> None:
        self._conversation_id = event.conversation_id

    def finished(self, event: RunFinished) -> Json | None:
        pending = [identity for identity, call in self._calls.items() if call.open]
        more: Json = {"requiresAction": True, "pendingToolCallIds": pending} if pending else {}
        return self._done("complete", **more)

    def stopped(self, _: Stopped) -> Json | None:
        return self._done("stopped")

    def canceled(self, event: RunCanceled) -> Json | None:
        return self._done("cancelled", reason=event.reason)

    def failed(self, event: RunFailed) -> Json | None:
        if not self._closes():
            return None
        told = {"message": event.error, "displayMessage": event.error, "code": "", **event.summary}
        return {
            "type": "error",
            "error": event.error,
            "data": {**told, "recoverable": event.recoverable, **self._ids()},
        }

    def _done(self, status: str, **more: Any) -> Json | None:
        return {"type": "done", "data": {**self._ids(), "status": status, **more}} if self._closes() else None

    def _closes(self) -> bool:
        """Once a leg: a turn that is discarded when it has ended is not ended once more."""
        was_open, self._leg_open = self._leg_open, False
        return was_open

    def _ids(self) -> Json:
        return {"responseId": self._turn_id, "conversationId": self._conversation_id or None, "chatId": self._chat_id}

    # --- what it says ---

    def text(self, event: TextDelta) -> Json:
        return self._within(event.lane, {"type": "content", "data": event.text})

    def reasoning(self, event: ReasoningDelta) -> Json | None:
        if event.text:  # a chunk that also begins or ends a thought: clients open one by themselves
            return self._within(event.lane, {"type": "reasoning", "data": event.text})
        phase = "start" if event.begins else "end" if event.ends else ""
        return self._within(event.lane, {"type": "reasoning", "phase": phase, "data": ""}) if phase else None

    def structured(self, event: StructuredResult) -> Json:
        data = {"result_type": event.kind, "summary": event.summary, "data": event.data, "success": event.ok}
        return self._within(event.lane, {"type": "structured_result", "success": event.ok, "data": data})

    def titled(self, event: TitleUpdated) -> Json | None:
        return {"type": "title_updated", "title": event.title} if event.title else None

    def used(self, event: UsageRecorded) -> Json:
        data = {
            "model": event.model,
            "inputTokens": event.input_tokens,
            "outputTokens": event.output_tokens,
            "cachedTokens": event.cached_tokens,
            "cost": event.cost,
        }
        return {"type": "usage", "data": data}

    def noticed(self, event: TurnNoticed) -> Json:
        return {"type": "notice", "kind": event.kind, "data": event.data}

    def steered(self, event: TurnSteered) -> Json:
        return {"type": "steered", "data": {"steeringId": event.steering_id, "content": event.content, "by": event.by}}

    def steering_applied(self, event: SteeringApplied) -> Json:
        return {"type": "steering_applied", "data": {"steeringIds": event.steering_ids}}

    # --- subagents ---

    def lane_opened(self, event: LaneOpened) -> Json:
        self._agents[event.tool_call_id] = event.agent or _LANE
        data = {"tool_call_id": event.tool_call_id, "agent": event.agent, "parent": event.lane or None}
        return self._within(event.tool_call_id, {"type": "subagent_start", "data": data})

    def lane_closed(self, event: LaneClosed) -> Json:
        data = {"tool_call_id": event.tool_call_id}
        return self._within(event.tool_call_id, {"type": "subagent_end", "data": data})

    # --- tools ---

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
        call = self._know(event.tool_call_id)
        call.open = False
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

    # --- what they have in common ---

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
        return self._within(call.lane, shown)

    def _within(self, lane: str, shown: Json) -> Json:
        if lane:
            shown["subagent"] = self._agents.get(lane, _LANE)
            shown["parentToolCallId"] = lane
        return shown


_HANDLERS: Mapping[type[Event], Callable[[Shown, Any], Json | None]] = {
    RunCreated: Shown.created,
    TurnReceived: Shown.received,
    RunStarted: Shown.began,
    RunResumed: Shown.began,
    ConversationKnown: Shown.conversation,
    RunFinished: Shown.finished,
    Stopped: Shown.stopped,
    RunCanceled: Shown.canceled,
    RunFailed: Shown.failed,
    TextDelta: Shown.text,
    ReasoningDelta: Shown.reasoning,
    StructuredResult: Shown.structured,
    TitleUpdated: Shown.titled,
    UsageRecorded: Shown.used,
    TurnNoticed: Shown.noticed,
    TurnSteered: Shown.steered,
    SteeringApplied: Shown.steering_applied,
    LaneOpened: Shown.lane_opened,
    LaneClosed: Shown.lane_closed,
    ToolCallGenerating: Shown.generating,
    ToolCallArgs: Shown.arguments,
    ToolCalled: Shown.called,
    NeedsApproval: Shown.asked,
    WaitClosed: Shown.answered,
    ToolApproved: Shown.approved,
    ToolStarted: Shown.executing,
    ToolBackgrounded: Shown.backgrounded,
    ToolEnded: Shown.ended,
}

_LEANT_ON_BY_NONE = frozenset({TextDelta, ReasoningDelta, ToolCallArgs})
"""Most of all events; what comes later is shown the same without them."""

SHOWN = frozenset(_HANDLERS)
"""The types of events that clients are shown, or that what they are shown leans on."""
