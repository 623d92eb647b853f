"""The fold of what is said: the answer, thoughts, subagents, the conversation, and what the user says meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.core.chat import intents
from pilothouse.core.chat.events import (
    FAULT,
    STEERING_FAILED,
    ConversationKnown,
    LaneClosed,
    LaneOpened,
    ReasoningDelta,
    SteeringApplied,
    StructuredResult,
    TextDelta,
    TitleUpdated,
    TurnNoticed,
    TurnSteered,
    UsageRecorded,
)
from pilothouse.core.chat.state import TITLE_KEY, Fault, SteeringPart, TextPart, TurnState, steer_key
from pilothouse.core.run.events import Event
from pilothouse.core.run.usage import Usage


def _text(state: TurnState, event: TextDelta, at: int) -> None:
    tail = state.tails.get(event.lane)
    if tail is None or tail.thinking:
        tail = _new_part(state, event.lane, thinking=False)
    tail.pieces.append(event.text)
    state.count(event.text)


def _thought(state: TurnState, event: ReasoningDelta, at: int) -> None:
    tail = state.tails.get(event.lane)
    if event.begins or tail is None or not tail.thinking:
        tail = _new_part(state, event.lane, thinking=True)
    if event.text:
        tail.pieces.append(event.text)
        state.count(event.text)
    if event.ends:
        tail.ended = True
        del state.tails[event.lane]


def _new_part(state: TurnState, lane: str, *, thinking: bool) -> TextPart:
    number = 1
    if state.last is not None:
        state.last.heard = True
        number = state.last.number
    if (before := state.tails.get(lane)) is not None:
        before.ended = True
    part = state.tails[lane] = TextPart(number, lane, thinking)
    state.parts.append(part)
    return part


def close_tails(state: TurnState) -> None:
    for part in state.tails.values():
        part.ended = True
    state.tails.clear()


def _lane_opened(state: TurnState, event: LaneOpened, at: int) -> None:
    state.lanes[event.tool_call_id] = event.agent
    state.open_lanes[event.tool_call_id] = None
    _heard(state)


def _lane_closed(state: TurnState, event: LaneClosed, at: int) -> None:
    state.open_lanes.pop(event.tool_call_id, None)
    if (tail := state.tails.pop(event.tool_call_id, None)) is not None:
        tail.ended = True


def _structured(state: TurnState, event: StructuredResult, at: int) -> None:
    _heard(state)


def _heard(state: TurnState) -> None:
    if state.last is not None:
        state.last.heard = True


def _conversation(state: TurnState, event: ConversationKnown, at: int) -> None:
    state.conversation_id = event.conversation_id


def _titled(state: TurnState, event: TitleUpdated, at: int) -> None:
    state.title = event.title or state.title
    if event.made:
        state.housekeeping.pop(TITLE_KEY, None)


def _used(state: TurnState, event: UsageRecorded, at: int) -> None:
    tokens = event.input_tokens + event.output_tokens
    usage = Usage(
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cached_tokens=event.cached_tokens,
        cost=event.cost or 0,
        unpriced_tokens=tokens if event.cost is None else 0,
    )
    state.usage.add(event.model, usage)


# --- steering ---


def _steered(state: TurnState, event: TurnSteered, at: int) -> None:
    part = SteeringPart(event.steering_id, event.content)
    state.steering[event.steering_id] = part
    state.parts.append(part)
    close_tails(state)  # what is said from here on is said after it
    if event.at_once:
        effect = intents.steer_backend(state, event)
        state.open[effect.key] = effect


def _steering_applied(state: TurnState, event: SteeringApplied, at: int) -> None:
    for steering_id in event.steering_ids:
        state.open.pop(steer_key(steering_id), None)
        if event.call and (part := state.steering.get(steering_id)) is not None:
            part.call = event.call


def _noticed(state: TurnState, event: TurnNoticed, at: int) -> None:
    state.notices += 1
    data = event.data
    if event.kind == STEERING_FAILED:
        steering_id = str(data.get("steeringId", ""))
        state.open.pop(steer_key(steering_id), None)
        if (part := state.steering.get(steering_id)) is not None:
            part.told = True
    if event.kind == FAULT and state.last is not None:
        state.last.fault = Fault(
            str(data.get("error", "")), str(data.get("shown", "")), str(data.get("code", "")) or FAULT
        )
    elif event.kind.startswith("compaction") and isinstance(summary := data.get("summary"), str):
        state.compaction = summary


SPEECH_FOLDS: dict[type[Event], Callable[[TurnState, Any, int], None]] = {
    TextDelta: _text,
    ReasoningDelta: _thought,
    LaneOpened: _lane_opened,
    LaneClosed: _lane_closed,
    StructuredResult: _structured,
    ConversationKnown: _conversation,
    TitleUpdated: _titled,
    UsageRecorded: _used,
    TurnNoticed: _noticed,
    TurnSteered: _steered,
    SteeringApplied: _steering_applied,
}
