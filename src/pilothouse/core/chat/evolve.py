"""The fold of a turn: one function per event type, in a table. Tool calls have theirs in ``call_fold``, what the run
model shares has its own part of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.core.chat import intents
from pilothouse.core.chat.answers import ALLOWING, APPROVE_ALWAYS
from pilothouse.core.chat.call_fold import CALL_FOLDS
from pilothouse.core.chat.calls import CallReason
from pilothouse.core.chat.effects import AnswerBackend, CallBackend, RunTool
from pilothouse.core.chat.events import (
    FAULT,
    STEERING_FAILED,
    BackendAborted,
    BackendAborting,
    BackendAnswered,
    BackendCalled,
    BackendEnded,
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
    TurnTimedOut,
    UsageRecorded,
)
from pilothouse.core.chat.state import (
    TITLE_KEY,
    Fault,
    Request,
    SteeringPart,
    TextPart,
    TurnState,
    abort_key,
    answer_key,
    backoff_key,
    expire_key,
    steer_key,
)
from pilothouse.core.run.contract import Timer
from pilothouse.core.run.events import (
    Event,
    NeedsApproval,
    Recorded,
    RunCanceled,
    RunCreated,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunResumed,
    RunStarted,
    Source,
    Stopped,
    WaitClosed,
    WaitOpened,
)
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.usage import Usage
from pilothouse.core.run.waits import WaitKind


def evolve(state: TurnState, recorded: Recorded) -> TurnState:
    event = recorded.event
    state.common.evolve(recorded)
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(state, event, recorded.at)
    return state


# --- the run ---


def _created(state: TurnState, event: RunCreated, at: int) -> None:
    state.chat_id, state.owner = event.session_id or "", event.owner


def _received(state: TurnState, event: TurnReceived, at: int) -> None:
    state.received = event
    state.offered = {tool.name: tool for tool in event.tools}
    state.workflow_id, state.conversation_id = event.workflow_id, event.conversation_id
    if event.title:
        state.housekeeping[TITLE_KEY] = intents.make_title(state)


def _leg_opened(state: TurnState, event: RunStarted | RunResumed, at: int) -> None:
    state.new_leg, state.timed_out = True, False
    state.leg_began_with = state.last.number + 1 if state.last is not None else 1
    state.error = state.code = ""
    state.clocks, state.left_ms = 0, None
    _set_clock(state, at + state.facts.timeout_ms)


def _failed(state: TurnState, event: RunFailed, at: int) -> None:
    state.error, state.code = event.error, str(event.summary.get("code", ""))
    _stop_clock(state)


def _stopped(state: TurnState, event: Stopped, at: int) -> None:
    by = "Stopped by user" if event.source is Source.USER else "Stopped by the server"
    state.error, state.code = by, "stopped"
    _stop_clock(state)


def _canceled(state: TurnState, event: RunCanceled, at: int) -> None:
    state.error, state.code = event.reason or "Canceled", "canceled"
    _stop_clock(state)


def _finished(state: TurnState, event: RunFinished, at: int) -> None:
    _stop_clock(state)


def _recovered(state: TurnState, event: RunRecovered, at: int) -> None:
    for key in event.adopted:
        effect = state.open.get(key)
        if isinstance(effect, CallBackend | RunTool):
            state.open[key] = msgspec.structs.replace(effect, adopted=True)


# --- time ---


def _set_clock(state: TurnState, until: int) -> None:
    leg = state.common.leg
    state.clock = f"timeout/{leg}" if not state.clocks else f"timeout/{leg}/{state.clocks}"
    state.timers[state.clock] = Timer(key=state.clock, until=until)


def _stop_clock(state: TurnState) -> Timer | None:
    return state.timers.pop(state.clock, None)


def _hold_clock(state: TurnState, at: int) -> None:
    """The time a person takes to decide is not the turn's, unless a program waits for the whole of it."""
    if state.facts.headless or state.timed_out:
        return
    if (timer := _stop_clock(state)) is not None:
        state.left_ms = max(0, timer.until - at)


def _release_clock(state: TurnState, at: int) -> None:
    if state.left_ms is None or state.common.lifecycle is not Lifecycle.RUNNING:
        return
    if not any(wait.kind is WaitKind.APPROVAL for wait in state.common.waits.values()):
        state.clocks += 1
        left, state.left_ms = state.left_ms, None
        _set_clock(state, at + left)


def _timed_out(state: TurnState, event: TurnTimedOut, at: int) -> None:
    state.timed_out = True
    _stop_clock(state)


# --- waits ---


def _asked(state: TurnState, event: NeedsApproval, at: int) -> None:
    wait = state.common.waits[event.wait.id]
    if wait.ends_at:
        key = expire_key(wait.id)
        state.timers[key] = Timer(key=key, until=wait.ends_at)
    if event.request_id and not wait.scope:
        state.asked.add(wait.id)
        state.questions[wait.id] = AnswerBackend(
            key=answer_key(wait.id),
            backend=state.facts.backend,
            turn_id=state.common.run_id,
            call=state.last.number if state.last else 0,
            request_id=event.request_id,
            allowed=False,
            remember=False,
        )
    else:
        CALL_FOLDS[NeedsApproval](state, event, at)
    _hold_clock(state, at)


def _wait_opened(state: TurnState, event: WaitOpened, at: int) -> None:
    wait = state.common.waits[event.wait.id]
    assert state.last is not None
    state.last.backoff = wait.id
    key = backoff_key(state.last.number)
    state.timers[key] = Timer(key=key, until=wait.ends_at)


def _wait_closed(state: TurnState, event: WaitClosed, at: int) -> None:
    state.timers.pop(expire_key(event.wait_id), None)
    if state.last is not None and state.last.backoff == event.wait_id:
        state.timers.pop(backoff_key(state.last.number), None)
        state.last.again = True
    question = state.questions.pop(event.wait_id, None)
    if question is not None and event.answer:
        allowed = event.answer in ALLOWING
        state.open[question.key] = msgspec.structs.replace(
            question, allowed=allowed, remember=event.answer == APPROVE_ALWAYS
        )
    _release_clock(state, at)


def _handed_over(state: TurnState, event: BackendAnswered, at: int) -> None:
    state.open.pop(answer_key(event.wait_id), None)


# --- the backend ---


def _called(state: TurnState, event: BackendCalled, at: int) -> None:
    tries = state.last.tries + 1 if state.last is not None and event.reason is CallReason.AGAIN else 1
    state.last = Request(event.call, event.reason, event.checkpoint_id, event.results, tries)
    state.new_leg = False
    _close_tails(state)
    for call_id in event.results:
        if (call := state.calls.get(call_id)) is not None:
            call.brought = event.call
    effect = intents.call_backend(state, event)
    state.open[effect.key] = effect


def _ended(state: TurnState, event: BackendEnded, at: int) -> None:
    last = state.last
    assert last is not None
    last.end, last.ended_at = event.end, at
    last.error, last.shown, last.code = event.error, event.shown, event.code
    last.transient, last.retry_after_ms = event.transient, event.retry_after_ms
    last.paused_at, last.pending = event.checkpoint_id, event.pending
    state.open.pop(last.key, None)
    _close_tails(state)
    state.open_lanes.clear()


def _aborting(state: TurnState, event: BackendAborting, at: int) -> None:
    state.aborted = event.leg
    effect = intents.abort_backend(state, event.leg)
    state.housekeeping[effect.key] = effect


def _aborted(state: TurnState, event: BackendAborted, at: int) -> None:
    state.housekeeping.pop(abort_key(event.leg), None)


def _noticed(state: TurnState, event: TurnNoticed, at: int) -> None:
    state.notices += 1
    data = event.data
    if event.kind == STEERING_FAILED:
        state.open.pop(steer_key(str(data.get("steeringId", ""))), None)
    if event.kind == FAULT and state.last is not None:
        state.last.fault = Fault(
            str(data.get("error", "")), str(data.get("shown", "")), str(data.get("code", "")) or FAULT
        )
    elif event.kind.startswith("compaction") and isinstance(summary := data.get("summary"), str):
        state.compaction = summary


# --- what it says ---


def _text(state: TurnState, event: TextDelta, at: int) -> None:
    tail = state.tails.get(event.lane)
    if tail is None or tail.thinking:
        tail = _new_part(state, event.lane, thinking=False)
    tail.pieces.append(event.text)


def _thought(state: TurnState, event: ReasoningDelta, at: int) -> None:
    tail = state.tails.get(event.lane)
    if event.begins or tail is None or not tail.thinking:
        tail = _new_part(state, event.lane, thinking=True)
    if event.text:
        tail.pieces.append(event.text)
    if event.ends:
        tail.ended = True
        del state.tails[event.lane]


def _new_part(state: TurnState, lane: str, *, thinking: bool) -> TextPart:
    number = 1
    if state.last is not None:
        state.last.heard = True
        number = state.last.number
    before = state.tails.get(lane)
    if before is not None and before.thinking:
        before.ended = True
    part = state.tails[lane] = TextPart(number, lane, thinking)
    state.parts.append(part)
    return part


def _close_tails(state: TurnState) -> None:
    for part in state.tails.values():
        part.ended = True
    state.tails.clear()


def _lane_opened(state: TurnState, event: LaneOpened, at: int) -> None:
    state.lanes[event.tool_call_id] = event.agent
    state.open_lanes[event.tool_call_id] = None
    _heard(state)


def _lane_closed(state: TurnState, event: LaneClosed, at: int) -> None:
    state.open_lanes.pop(event.tool_call_id, None)
    state.tails.pop(event.tool_call_id, None)


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
    _close_tails(state)  # what is said from here on is said after it
    if event.at_once:
        effect = intents.steer_backend(state, event)
        state.open[effect.key] = effect


def _steering_applied(state: TurnState, event: SteeringApplied, at: int) -> None:
    for steering_id in event.steering_ids:
        state.open.pop(steer_key(steering_id), None)
        if event.call and (part := state.steering.get(steering_id)) is not None:
            part.call = event.call


_FOLDS: dict[type[Event], Callable[[TurnState, Any, int], None]] = {
    **CALL_FOLDS,
    RunCreated: _created,
    TurnReceived: _received,
    RunStarted: _leg_opened,
    RunResumed: _leg_opened,
    RunFinished: _finished,
    RunFailed: _failed,
    Stopped: _stopped,
    RunCanceled: _canceled,
    RunRecovered: _recovered,
    TurnTimedOut: _timed_out,
    WaitOpened: _wait_opened,
    NeedsApproval: _asked,
    WaitClosed: _wait_closed,
    BackendAnswered: _handed_over,
    BackendCalled: _called,
    BackendEnded: _ended,
    BackendAborting: _aborting,
    BackendAborted: _aborted,
    TurnNoticed: _noticed,
    TextDelta: _text,
    ReasoningDelta: _thought,
    LaneOpened: _lane_opened,
    LaneClosed: _lane_closed,
    StructuredResult: _structured,
    ConversationKnown: _conversation,
    TitleUpdated: _titled,
    UsageRecorded: _used,
    TurnSteered: _steered,
    SteeringApplied: _steering_applied,
}
