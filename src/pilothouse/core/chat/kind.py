"""The turn as a kind of run: ``decide``, ``evolve``, ``todo``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilothouse.core.chat.approvals import answer, confirm
from pilothouse.core.chat.events import BackendAborting, TurnNoticed, TurnSteered, TurnTimedOut
from pilothouse.core.chat.evolve import evolve
from pilothouse.core.chat.flow import passing, settle
from pilothouse.core.chat.hear import hear
from pilothouse.core.chat.inputs import Confirm, Heard, Say, Steer
from pilothouse.core.chat.outcomes import outcome
from pilothouse.core.chat.plain import clean
from pilothouse.core.chat.recover import recover
from pilothouse.core.chat.state import TurnState
from pilothouse.core.run import control
from pilothouse.core.run.contract import Effect
from pilothouse.core.run.events import Event, Recorded, RunResumed, RunStarted, StopAcknowledged, StopDelayed
from pilothouse.core.run.inputs import (
    Answer,
    Cancel,
    Input,
    Outcome,
    Pause,
    Progress,
    Recover,
    Resume,
    Retry,
    Settle,
    Stop,
)
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.state import Common
from pilothouse.errors import Refused


class TurnKind:
    """See ``core.run.contract.Kind``. A turn holds no capacity."""

    name = "turn"

    def initial(self, run_id: str) -> TurnState:
        return TurnState(common=Common(run_id))

    def common(self, state: TurnState) -> Common:
        return state.common

    def evolve(self, state: TurnState, recorded: Recorded) -> TurnState:
        return evolve(state, recorded)

    def unfinished(self, state: TurnState) -> Mapping[str, Effect]:
        return state.open

    def todo(self, state: TurnState) -> Mapping[str, Effect]:
        if state.common.lifecycle is not Lifecycle.RUNNING or state.timed_out:
            return state.housekeeping
        return {**state.open, **state.timers, **state.housekeeping}

    def slots(self, state: TurnState) -> int:
        return 0

    def demand(self, state: TurnState) -> int:
        return 0

    def decide(self, state: TurnState, given: Input) -> Sequence[Event]:
        run = state.common
        match given:
            case Settle():
                return settle(state)
            case Heard():
                return hear(state, given)
            case Outcome():
                return _with_abort(state, outcome(state, given))
            case Progress():
                return _progress(state, given)
            case Say():
                return _say(state, given)
            case Recover():
                return recover(state, given)
            case Steer():
                return _steer(state, given)
            case Confirm():
                return confirm(state, given)
            case Answer():
                return answer(state, given)
            case Stop():
                return _with_abort(state, control.stop(run, given.source, state.open))
            case Cancel():
                return _with_abort(state, control.cancel(run, given.source, given.reason, state.open))
            case Resume():
                return control.resume(run)
            case Retry():
                return _retry(state)
            case Pause():
                raise Refused("an answer cannot be paused; stop it, and resume it later")
        raise Refused(f"a turn does not understand {type(given).__name__.lower()}")


def _say(state: TurnState, given: Say) -> Sequence[Event]:
    if state.received is not None:
        raise Refused("the turn has begun already")
    config = {"mode": given.received.mode, "model": given.received.model, "timeoutMs": given.received.timeout_ms}
    return (given.created, given.received, RunStarted(task=given.created.name, config=config))


def _with_abort(state: TurnState, events: Sequence[Event]) -> Sequence[Event]:
    """Whatever ends a leg from outside is told to the backend, once, before anything else of it is ended."""
    leg = state.common.leg
    ends = state.common.lifecycle is Lifecycle.RUNNING and any(
        isinstance(event, TurnTimedOut | StopAcknowledged) for event in events
    )
    if not ends or not state.facts.features.aborts or state.aborted == leg:
        return events
    return (*events, BackendAborting(leg=leg))


def _progress(state: TurnState, given: Progress) -> Sequence[Event]:
    """What an effect notes while it goes on; nothing else is an effect's to say."""
    stopping = state.common.lifecycle is Lifecycle.STOPPING
    return [
        event
        for event in given.events
        if (isinstance(event, StopDelayed) and stopping) or (isinstance(event, TurnNoticed) and given.key in state.open)
    ]


def _steer(state: TurnState, given: Steer) -> Sequence[Event]:
    if given.steering_id in state.steering:
        return ()
    last = state.last
    ending = last is not None and last.failed and not passing(state, last)
    if state.common.lifecycle is not Lifecycle.RUNNING or state.timed_out or ending:
        raise Refused("the answer has ended; send it as a message of its own")
    at_once = state.facts.features.steers and state.request is not None
    return (TurnSteered(steering_id=given.steering_id, content=clean(given.content), by=given.by, at_once=at_once),)


def _retry(state: TurnState) -> Sequence[Event]:
    run = state.common
    if run.lifecycle is not Lifecycle.FAILED:
        raise Refused(f"only a turn that failed can be tried again; this one is {run.lifecycle.lower()}")
    return (RunResumed(leg=run.leg + 1, reason="retry"),)
