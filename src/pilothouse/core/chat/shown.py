"""What clients are shown of a turn: its events, one for one, as the chat document's.

``{type, …, eventId, streamId}``: ``eventId`` is the sequence number in the log, so that whoever has seen one can go on
from there; events that clients have no use for are left out, and their numbers with them. A leg ends with exactly one
``done`` or ``error``. What belongs to a subagent carries ``subagent`` (its name) and ``parentToolCallId`` (the call it
works for). Knows neither streams nor who looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pilothouse.core.chat.events import (
    ConversationKnown,
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
from pilothouse.core.chat.shown_calls import OF_CALLS, ShownCalls
from pilothouse.core.chat.tool_events import (
    ToolCallArgs,
)
from pilothouse.core.run.events import (
    Event,
    Recorded,
    RunCanceled,
    RunCreated,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Stopped,
    WaitOpened,
)
from pilothouse.core.run.waits import Wait

Json: TypeAlias = dict[str, Any]

ASKED_AGAIN = "backend_retry"
"""What the notice is called that a request which failed is made again in a moment."""
ENDS = frozenset({"done", "error"})
"""The last event of a leg is one of these."""


class Shown:
    """The fold of one turn. It must be given every event, from the first on: later ones lean on earlier ones."""

    def __init__(self, turn_id: str) -> None:
        self._turn_id = turn_id
        self._chat_id = ""
        self._message_id = ""
        self._conversation_id = ""
        self._calls = ShownCalls()
        self._leg_open = False

    def show(self, recorded: Recorded) -> Json | None:
        """What clients are shown of the next event; None: nothing."""
        kind = type(recorded.event)
        shown: Json | None = None
        if (of_turn := _OF_TURNS.get(kind)) is not None:
            shown = of_turn(self, recorded.event)
        elif (of_call := OF_CALLS.get(kind)) is not None:
            shown = of_call(self._calls, recorded.event)
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
        pending = self._calls.open
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
        return self._calls.within(event.lane, {"type": "content", "data": event.text})

    def reasoning(self, event: ReasoningDelta) -> Json | None:
        if event.text:  # a chunk that also begins or ends a thought: clients open one by themselves
            return self._calls.within(event.lane, {"type": "reasoning", "data": event.text})
        phase = "start" if event.begins else "end" if event.ends else ""
        return self._calls.within(event.lane, {"type": "reasoning", "phase": phase, "data": ""}) if phase else None

    def structured(self, event: StructuredResult) -> Json:
        data = {"result_type": event.kind, "summary": event.summary, "data": event.data, "success": event.ok}
        return self._calls.within(event.lane, {"type": "structured_result", "success": event.ok, "data": data})

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

    def pauses(self, event: WaitOpened) -> Json:
        return {"type": "notice", "kind": ASKED_AGAIN, "data": asked_again(event.wait)}

    def steered(self, event: TurnSteered) -> Json:
        return {"type": "steered", "data": {"steeringId": event.steering_id, "content": event.content, "by": event.by}}

    def steering_applied(self, event: SteeringApplied) -> Json:
        return {"type": "steering_applied", "data": {"steeringIds": event.steering_ids}}


def asked_again(wait: Wait) -> Json:
    """Why a request is made again (``error``), after how many that brought nothing, and in how many milliseconds."""
    return {"error": "", "tries": 1, **wait.detail, "waitMs": wait.lasts_ms}


_OF_TURNS: Mapping[type[Event], Callable[[Shown, Any], Json | None]] = {
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
    WaitOpened: Shown.pauses,
    TurnSteered: Shown.steered,
    SteeringApplied: Shown.steering_applied,
}

_LEANT_ON_BY_NONE = frozenset({TextDelta, ReasoningDelta, ToolCallArgs})
"""Most of all events; what comes later is shown the same without them."""

SHOWN = frozenset({*_OF_TURNS, *OF_CALLS})
"""The types of events that clients are shown, or that what they are shown leans on."""
