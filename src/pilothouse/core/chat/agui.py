"""A turn as AG-UI 1.0 has it: its events in, those of the protocol out.

One turn may be several of the protocol's runs: where a person has to allow a tool the run ends with an interrupt, and
the run that brings the answer goes on with the turn's events after it. So a projection is given every event from the
first on, and shows only those after the one where the run before ended. Within a run everything that is opened is
closed. Knows neither streams nor who looks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from pilothouse.core.chat.agui_messages import answer_of
from pilothouse.core.chat.calls import RunBy
from pilothouse.core.chat.events import LaneClosed, LaneOpened, ReasoningDelta, TextDelta, TitleUpdated, UsageRecorded
from pilothouse.core.chat.shown import ASKED_AGAIN, asked_again
from pilothouse.core.chat.tool_events import ToolCalled, ToolCallGenerating, ToolEnded
from pilothouse.core.run.events import (
    Event,
    NeedsApproval,
    Recorded,
    RunCanceled,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Stopped,
    WaitClosed,
    WaitOpened,
)

Json: TypeAlias = dict[str, Any]

PROTOCOL = "1.0"
_NAMELESS = "subagent"


class Projection:
    """The events of one of the protocol's runs. ``ended`` once it has said its last."""

    def __init__(self, thread_id: str, run_id: str, turn_id: str, after: int = 0) -> None:
        """``after``: the number of the last event of the turn that an earlier run has shown."""
        self._run = {"threadId": thread_id, "runId": run_id}
        self._turn_id = turn_id
        self._after = after
        self._seq = 0
        self._out: list[Json] = []
        self._text: dict[str, str] = {}
        """Open messages, by lane."""
        self._thought: dict[str, str] = {}
        self._lanes: dict[str, LaneOpened] = {}
        """Subagents, by the call that they work for."""
        self._open_lanes: dict[str, str] = {}
        """What the protocol calls those that work, one name for each time that they do, by lane."""
        self._calls: dict[str, RunBy] = {}
        self._generating: dict[str, str] = {}
        """Calls that were begun to be told and are not whole, with their lanes."""
        self._pending: dict[str, None] = {}
        self._asked: dict[str, NeedsApproval] = {}
        self._usage: dict[str, Json] = {}
        self.ended = False

    @property
    def waits(self) -> bool:
        """Whether the turn waits for somebody to allow a tool."""
        return bool(self._asked)

    def begin(self) -> list[Json]:
        return [{"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL}]

    def show(self, recorded: Recorded) -> list[Json]:
        """What the run says of the turn's next event."""
        self._seq = recorded.seq
        handler = _HANDLERS.get(type(recorded.event))
        if handler is None or self.ended:
            return []
        handler(self, recorded.event)
        shown, self._out = self._out, []
        if recorded.seq > self._after:
            return shown
        # An earlier run has shown it, and has closed what was open.
        self._text.clear()
        self._thought.clear()
        self._generating.clear()
        self._open_lanes.clear()
        self._usage.clear()
        self.ended = False
        return []

    def interrupt(self) -> list[Json]:
        """End the run because somebody has to decide. Each interrupt's id says where the next run goes on."""
        interrupts = [_interrupt(wait_id, self._seq, asked) for wait_id, asked in self._asked.items()]
        self._close({"type": "suspended"})
        self._finish({"type": "interrupt", "interrupts": interrupts})
        return self._taken()

    def complete(self) -> list[Json]:
        """End the run although the turn said nothing more."""
        if not self.ended:
            self._close()
            self._finish({"type": "success"})
        return self._taken()

    def _taken(self) -> list[Json]:
        shown, self._out = self._out, []
        return shown

    # --- what it says ---

    def text(self, event: TextDelta) -> None:
        if not event.text:
            return
        self._close_thought(event.lane)
        if event.lane not in self._text:
            self._text[event.lane] = self._fresh()
            self._say("TEXT_MESSAGE_START", event.lane, messageId=self._text[event.lane], role="assistant")
        self._say("TEXT_MESSAGE_CONTENT", event.lane, messageId=self._text[event.lane], delta=event.text)

    def reasoning(self, event: ReasoningDelta) -> None:
        if event.begins:
            self._close_thought(event.lane)
        if event.text:
            self._close_text(event.lane)
            if event.lane not in self._thought:
                message_id = self._thought[event.lane] = self._fresh()
                self._say("REASONING_START", event.lane, messageId=message_id)
                self._say("REASONING_MESSAGE_START", event.lane, messageId=message_id, role="reasoning")
            self._say("REASONING_MESSAGE_CONTENT", event.lane, messageId=self._thought[event.lane], delta=event.text)
        if event.ends:
            self._close_thought(event.lane)

    def titled(self, event: TitleUpdated) -> None:
        if event.title:
            self._say("CUSTOM", "", name="title", value=event.title)

    def pauses(self, event: WaitOpened) -> None:
        self._say("CUSTOM", "", name=ASKED_AGAIN, value=asked_again(event.wait))

    def used(self, event: UsageRecorded) -> None:
        counted = self._usage.setdefault(event.model, {"model": event.model} if event.model else {})
        for name, more in (
            ("inputTokens", event.input_tokens),
            ("outputTokens", event.output_tokens),
            ("totalTokens", event.input_tokens + event.output_tokens),
            ("cachedInputTokens", event.cached_tokens),
        ):
            counted[name] = counted.get(name, 0) + more

    # --- subagents ---

    def lane_opened(self, event: LaneOpened) -> None:
        self._lanes[event.tool_call_id] = event
        self._within(event.tool_call_id)

    def lane_closed(self, event: LaneClosed) -> None:
        if event.tool_call_id in self._open_lanes:
            self._close_lane(event.tool_call_id)

    # --- tools ---

    def generating(self, event: ToolCallGenerating) -> None:
        if event.tool_name and event.tool_call_id not in self._generating and event.tool_call_id not in self._calls:
            self._begin_call(event.tool_call_id, event.tool_name, event.lane)

    def called(self, event: ToolCalled) -> None:
        if event.tool_call_id not in self._generating:
            self._begin_call(event.tool_call_id, event.tool_name, event.lane)
        lane = self._generating.pop(event.tool_call_id)
        arguments = json.dumps(event.arguments, ensure_ascii=False)
        self._say("TOOL_CALL_ARGS", lane, toolCallId=event.tool_call_id, delta=arguments)
        self._say("TOOL_CALL_END", lane, toolCallId=event.tool_call_id)
        self._calls[event.tool_call_id] = event.run_by
        if event.run_by is not RunBy.BACKEND:
            self._pending[event.tool_call_id] = None

    def ended_call(self, event: ToolEnded) -> None:
        run_by = self._calls.get(event.tool_call_id)
        self._pending.pop(event.tool_call_id, None)
        if run_by is None:
            return
        self._say(
            "TOOL_CALL_RESULT",
            "",
            messageId=self._fresh(),
            toolCallId=event.tool_call_id,
            content=answer_of(event),
            role="tool",
        )

    def asked(self, event: NeedsApproval) -> None:
        self._asked[event.wait.id] = event

    def answered(self, event: WaitClosed) -> None:
        self._asked.pop(event.wait_id, None)

    # --- its end ---

    def began(self, _: RunStarted | RunResumed) -> None:
        self.ended = False

    def finished(self, _: RunFinished) -> None:
        self._close()
        pending = {"pendingToolCallIds": list(self._pending)} if self._pending else {}
        self._finish({"type": "success", **pending})

    def stopped(self, _: Stopped | RunCanceled) -> None:
        self._close()
        self._finish({"type": "cancelled"})

    def failed(self, event: RunFailed) -> None:
        self._close()
        code = {"code": event.summary["code"]} if event.summary.get("code") else {}
        self._say("RUN_ERROR", "", message=event.error, **code, **self._used())
        self.ended = True

    def _finish(self, outcome: Json) -> None:
        self._say("RUN_FINISHED", "", **self._run, outcome=outcome, **self._used())
        self.ended = True

    def _used(self) -> Json:
        return {"usage": list(self._usage.values())} if self._usage else {}

    # --- opening and closing ---

    def _begin_call(self, call_id: str, name: str, lane: str) -> None:
        self._close_text(lane)
        self._close_thought(lane)
        self._generating[call_id] = lane
        self._say("TOOL_CALL_START", lane, toolCallId=call_id, toolCallName=name)

    def _close(self, suspended: Json | None = None) -> None:
        for lane in list(self._text):
            self._close_text(lane)
        for lane in list(self._thought):
            self._close_thought(lane)
        for call_id, lane in self._generating.items():
            self._say("TOOL_CALL_END", lane, toolCallId=call_id)
        self._generating.clear()
        for lane in reversed(list(self._open_lanes)):
            self._close_lane(lane, suspended)

    def _close_text(self, lane: str) -> None:
        if (message_id := self._text.pop(lane, None)) is not None:
            self._say("TEXT_MESSAGE_END", lane, messageId=message_id)

    def _close_thought(self, lane: str) -> None:
        if (message_id := self._thought.pop(lane, None)) is not None:
            self._say("REASONING_MESSAGE_END", lane, messageId=message_id)
            self._say("REASONING_END", lane, messageId=message_id)

    def _close_lane(self, lane: str, outcome: Json | None = None) -> None:
        self._close_text(lane)
        self._close_thought(lane)
        more = {"outcome": outcome} if outcome is not None else {}
        self._out.append({"type": "SUBAGENT_FINISHED", "subagentRunId": self._open_lanes.pop(lane), **more})

    def _within(self, lane: str) -> Json:
        """How an event says that it is a subagent's, which is begun where it was not in this run."""
        if not lane:
            return {}
        if lane not in self._open_lanes:
            known = self._lanes.get(lane)
            within = self._within(known.lane if known else "")
            begun = {
                "type": "SUBAGENT_STARTED",
                "subagentRunId": f"{self._fresh()}.{lane}",
                "name": (known.agent if known else "") or _NAMELESS,
                "parentToolCallId": lane,
                **({"parentSubagentRunId": within["subagentRunId"]} if within else {}),
            }
            self._open_lanes[lane] = begun["subagentRunId"]
            self._out.append(begun)
        return {"subagentRunId": self._open_lanes[lane]}

    def _say(self, kind: str, lane: str, **fields: Any) -> None:
        within = self._within(lane)
        self._out.append({"type": kind, **fields, **within})

    def _fresh(self) -> str:
        """The id of a message that begins with the event at hand: one thing at most does."""
        return f"{self._turn_id}.{self._seq}"


def _interrupt(wait_id: str, seq: int, asked: NeedsApproval) -> Json:
    wait = asked.wait
    arguments = {"type": "object", "description": "What the tool is to be called with instead."}
    return {
        "id": interrupt_id(wait_id, seq),
        "reason": "tool_call",
        "message": wait.question,
        "toolCallId": str(wait.detail.get("toolCallId") or wait.scope),
        "responseSchema": {
            "type": "object",
            "properties": {"answer": {"enum": list(wait.options)}, "arguments": arguments},
            "required": ["answer"],
        },
        "metadata": {"tool": asked.action, "arguments": wait.detail.get("arguments", {}), "approvalId": wait_id},
    }


def interrupt_id(wait_id: str, seq: int) -> str:
    return f"{wait_id}~{seq}"


def read_interrupt_id(name: str) -> tuple[str, str, int] | None:
    """(turn, wait, the event after which its turn goes on) of an interrupt; None: it is none of ours."""
    wait_id, _, seq = name.rpartition("~")
    turn_id, dot, _ = wait_id.partition(".")
    return (turn_id, wait_id, int(seq)) if dot and seq.isdecimal() and len(seq) < 19 else None


_HANDLERS: dict[type[Event], Callable[[Projection, Any], None]] = {
    RunStarted: Projection.began,
    RunResumed: Projection.began,
    RunFinished: Projection.finished,
    Stopped: Projection.stopped,
    RunCanceled: Projection.stopped,
    RunFailed: Projection.failed,
    TextDelta: Projection.text,
    ReasoningDelta: Projection.reasoning,
    TitleUpdated: Projection.titled,
    UsageRecorded: Projection.used,
    LaneOpened: Projection.lane_opened,
    LaneClosed: Projection.lane_closed,
    ToolCallGenerating: Projection.generating,
    ToolCalled: Projection.called,
    ToolEnded: Projection.ended_call,
    NeedsApproval: Projection.asked,
    WaitOpened: Projection.pauses,
    WaitClosed: Projection.answered,
}
