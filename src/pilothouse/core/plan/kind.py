"""The plan as a kind of run: ``decide``, ``evolve``, ``todo``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.core.plan.agent_flow import next_try, work_ended
from pilothouse.core.plan.approvals import expired, handed_over, heard
from pilothouse.core.plan.budgets import end_spenders
from pilothouse.core.plan.effects import (
    AnswerAgent,
    CleanedUp,
    OpenTarget,
    PhaseEffect,
    RemoveWorktree,
    Rescue,
    RunWork,
    TargetReady,
)
from pilothouse.core.plan.events import PlanBuilt, TargetFailed, TargetOpened, WorkRescued, WorktreeRemoved
from pilothouse.core.plan.evolve import evolve
from pilothouse.core.plan.flow import advance, begin, outcome
from pilothouse.core.plan.propagate import propagate
from pilothouse.core.plan.recover import recover
from pilothouse.core.plan.state import PlanState, timer_key
from pilothouse.core.plan.states import ACTIVE, TERMINAL
from pilothouse.core.plan.verbs import abandon, answer, cancel_all, cancel_part, end_waits, retry
from pilothouse.core.plan.verdict import summary, verdict
from pilothouse.core.run import control
from pilothouse.core.run.contract import Effect, Ended, Failed, NotStarted, Timer
from pilothouse.core.run.events import Event, Recorded, RunCreated, RunFailed, RunStarted
from pilothouse.core.run.inputs import (
    Answer,
    Cancel,
    CancelPart,
    Grant,
    Input,
    Outcome,
    Pause,
    Progress,
    Recover,
    Resume,
    Retry,
    Settle,
    Start,
    Stop,
)
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.state import Common
from pilothouse.core.run.waits import WaitKind
from pilothouse.errors import Refused


class Submit(Input, frozen=True, kw_only=True):
    """A plan was accepted: everything in it has been checked against the world."""

    created: RunCreated
    built: PlanBuilt


class PlanKind:
    """See ``core.run.contract.Kind``."""

    name = "plan"

    def initial(self, run_id: str) -> PlanState:
        return PlanState(common=Common(run_id))

    def common(self, state: PlanState) -> Common:
        return state.common

    def evolve(self, state: PlanState, recorded: Recorded) -> PlanState:
        return evolve(state, recorded)

    def unfinished(self, state: PlanState) -> Mapping[str, Effect]:
        return state.open

    def todo(self, state: PlanState) -> Mapping[str, Effect]:
        if state.common.lifecycle is Lifecycle.STOPPING:
            return {}  # rescues begin when everything is still
        wanted = {key: effect for key, effect in state.open.items() if self._wanted(state, effect)}
        return {**wanted, **state.timers, **state.housekeeping}

    @staticmethod
    def _wanted(state: PlanState, effect: Effect) -> bool:
        if not isinstance(effect, PhaseEffect):
            return True
        node = state.nodes[effect.node_id]
        return not (node.canceling or node.attempt.over_budget)

    def slots(self, state: PlanState) -> int:
        return state.slots

    def demand(self, state: PlanState) -> int:
        cap = state.plan.max_parallel
        room = cap - state.slots if cap else len(state.nodes)
        wanted = max(0, min(room, state.ready.working))
        return wanted if wanted and self._may_start(state) else 0

    @staticmethod
    def _may_start(state: PlanState) -> bool:
        """Nothing starts before there is a target to merge into, nor while a worktree it may need is being saved."""
        return (
            state.common.lifecycle is Lifecycle.RUNNING
            and state.target is not None
            and not state.opening_target
            and not any(isinstance(effect, Rescue) for effect in state.housekeeping.values())
        )

    def decide(self, state: PlanState, given: Input) -> Sequence[Event]:
        run = state.common
        match given:
            case Settle():
                return self._settle(state)
            case Outcome():
                return self._outcome(state, given)
            case Progress():
                return heard(state, given)
            case Grant():
                return [e for node_id in state.ready.first(given.slots) for e in begin(state, state.nodes[node_id])]
            case Submit():
                return (given.created, given.built)
            case Start():
                if run.lifecycle is not Lifecycle.CREATED:
                    raise Refused(f"it is {run.lifecycle.lower()} already")
                return (RunStarted(task=run.name, config={"maxParallel": state.plan.max_parallel}),)
            case Recover():
                return recover(state, given)
            case Stop():
                events = control.stop(run, given.source, state.open)
                return [*events, *end_waits(state)] if events else ()
            case Cancel():
                return self._cancel(state, given)
            case Pause():
                return control.pause(run)
            case Resume():
                if run.lifecycle is Lifecycle.CREATED:
                    return self.decide(state, Start())
                return control.resume(run)
            case CancelPart():
                return cancel_part(state, given)
            case Retry():
                return retry(state, given)
            case Answer():
                return answer(state, given)
        raise Refused(f"a plan does not understand {type(given).__name__.lower()}")

    def _settle(self, state: PlanState) -> Sequence[Event]:
        run = state.common
        if run.lifecycle is Lifecycle.CREATED:
            return () if state.plan.start_paused else self.decide(state, Start())
        if run.terminal:
            return abandon(state) if run.lifecycle is Lifecycle.CANCELED else ()
        if events := end_spenders(state) or propagate(state) or advance(state):
            return events
        if (joins := state.ready.first(0)) and self._may_start(state):
            return [e for node_id in joins for e in begin(state, state.nodes[node_id])]
        if run.lifecycle in (Lifecycle.RUNNING, Lifecycle.PAUSING) and (end := verdict(state)):
            return (end,)
        return control.settle(run, draining=bool(state.open), working=self._working(state))

    @staticmethod
    def _working(state: PlanState) -> bool:
        """Whether a pause still has to wait: for anything but nodes that wait for a person or a time. Where every node
        has ended, nothing is left to pause: it waits for the end of the plan."""
        return state.common.lifecycle is Lifecycle.PAUSING and (
            bool(state.open)
            or state.count(*TERMINAL) == len(state.nodes)
            or not all(node.parked for node in state.in_status(*ACTIVE))
        )

    @staticmethod
    def _cancel(state: PlanState, given: Cancel) -> Sequence[Event]:
        events = list(control.cancel(state.common, given.source, given.reason, state.open))
        if not events:
            return ()
        if state.common.terminal:  # discarded: final at once, so its nodes end first
            return [*cancel_all(state), *events]
        return [*events, *cancel_all(state)]

    def _outcome(self, state: PlanState, given: Outcome) -> Sequence[Event]:
        effect = state.open.get(given.key) or state.timers.get(given.key) or state.housekeeping.get(given.key)
        result = given.result
        match effect:
            case None:
                return ()  # its run decided otherwise meanwhile
            case OpenTarget():
                return self._target(state, result)
            case Rescue():
                return (_rescued(effect, result),)
            case RemoveWorktree():
                error = result.error if isinstance(result, Failed) else ""
                return (WorktreeRemoved(node_id=effect.node_id, attempt=effect.attempt, error=error),)
            case AnswerAgent():
                return handed_over(effect, result)
            case Timer():
                return self._time_up(state, effect, result)
            case RunWork():
                return work_ended(state, effect, result)
            case PhaseEffect():
                return outcome(state, effect, result)
        raise TypeError(f"unknown effect {effect}")

    @staticmethod
    def _time_up(state: PlanState, effect: Timer, result: msgspec.Struct) -> Sequence[Event]:
        """A timer that was broken off is set again while it is wanted; one that cannot be kept is up."""
        wait = state.common.waits[effect.key.removesuffix(timer_key(""))]
        if isinstance(result, Ended | NotStarted):
            return ()
        return next_try(state, wait) if wait.kind is WaitKind.BACKOFF else expired(wait)

    def _target(self, state: PlanState, result: msgspec.Struct) -> Sequence[Event]:
        if isinstance(result, TargetReady):
            return (TargetOpened(branch=result.branch, commit=result.commit, note=result.note),)
        if isinstance(result, Failed) and state.common.lifecycle is not Lifecycle.STOPPING:
            if state.target is None:
                failed = RunFailed(error=f"the target branch: {result.error}", summary=summary(state))
                return (TargetFailed(error=result.error), failed)
            return (TargetFailed(error=result.error),)  # what runs goes on; what would be merged fails
        return (TargetFailed(),)


def _rescued(effect: Rescue, result: msgspec.Struct) -> Event:
    spot: dict[str, Any] = {"node_id": effect.node_id, "attempt": effect.attempt}
    if isinstance(result, CleanedUp):
        return WorkRescued(**spot, ref=result.ref, commit=result.commit, removed=result.removed)
    return WorkRescued(**spot, error=result.error if isinstance(result, Failed) else "interrupted")
