"""The fold of a turn: one function per event type, in a table. Here are the run, its waits and the requests to the
backend; ``speech_fold`` has what is said, ``call_fold`` the tool calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.core.chat import intents
from pilothouse.core.chat.answers import ALLOWING, APPROVE_ALWAYS
from pilothouse.core.chat.call_fold import CALL_FOLDS
from pilothouse.core.chat.calls import BackendEnd, CallReason, RunBy
from pilothouse.core.chat.effects import AnswerBackend, CallBackend, RunTool
from pilothouse.core.chat.events import (
    BackendAborted,
    BackendAborting,
    BackendAnswered,
    BackendCalled,
    BackendEnded,
    TurnReceived,
    TurnTimedOut,
)
from pilothouse.core.chat.routing import for_others
from pilothouse.core.chat.speech_fold import SPEECH_FOLDS, close_tails
from pilothouse.core.chat.state import (
    TITLE_KEY,
    Request,
    ToolCall,
    TurnState,
    abort_key,
    answer_key,
    backoff_key,
    expire_key,
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
    asked, tries = event.reason, 1
    if event.reason is CallReason.AGAIN and state.last is not None:
        asked, tries = state.last.asked, state.last.tries + 1
    elif event.reason is CallReason.RESUMED and event.checkpoint_id and event.results:
        asked = CallReason.RESULTS  # the backend still waits for them there
    state.last = Request(event.call, event.reason, asked, event.checkpoint_id, event.results, tries)
    state.new_leg = False
    close_tails(state)
    for call_id in event.results:
        if (call := state.calls.get(call_id)) is not None:
            call.brought = event.call
    effect = intents.call_backend(state, event, asked)
    state.open[effect.key] = effect


def _ended(state: TurnState, event: BackendEnded, at: int) -> None:
    last = state.last
    assert last is not None
    last.end, last.ended_at = event.end, at
    last.error, last.shown, last.code = event.error, event.shown, event.code
    last.transient, last.retry_after_ms = event.transient, event.retry_after_ms
    last.paused_at, last.pending = event.checkpoint_id, event.pending
    state.open.pop(last.key, None)
    state.leftover = {call.id: call for call in state.live.values() if _left_over(state, call, event.end)}
    close_tails(state)
    state.open_lanes.clear()


def _left_over(state: TurnState, call: ToolCall, end: BackendEnd) -> bool:
    """That it ends does not depend on anybody here, or nobody would hear of it."""
    if end is not BackendEnd.COMPLETE:
        return end is BackendEnd.PAUSED and not call.told
    agents = state.facts.features.own_tools and not for_others(state, call.run_by, call.name)
    return not call.told or call.run_by is RunBy.BACKEND or (agents and call.run_by is RunBy.SERVER)


def _aborting(state: TurnState, event: BackendAborting, at: int) -> None:
    state.aborted = event.leg
    effect = intents.abort_backend(state, event.leg)
    state.housekeeping[effect.key] = effect


def _aborted(state: TurnState, event: BackendAborted, at: int) -> None:
    state.housekeeping.pop(abort_key(event.leg), None)


_FOLDS: dict[type[Event], Callable[[TurnState, Any, int], None]] = {
    **CALL_FOLDS,
    **SPEECH_FOLDS,
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
}
