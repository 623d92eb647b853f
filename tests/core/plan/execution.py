"""Executes a plan in a test, without a world: what a supervisor does, with outcomes that the test gives.

Every event goes through the stored form before it is folded, so whatever a test sees would also be seen after a
restart. The id of a node is never its name: a test speaks of names only.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from pilothouse.core.plan.agent_events import AGENT_EVENTS
from pilothouse.core.plan.build import build_plan
from pilothouse.core.plan.effects import (
    TARGET_KEY,
    AddWorktree,
    CleanedUp,
    CommitWork,
    MergeForward,
    MergeIntoTarget,
    PhaseEffect,
    RemoveWorktree,
    Rescue,
    RunWork,
    TargetReady,
    WorktreeReady,
)
from pilothouse.core.plan.events import PLAN_EVENTS, NodeMoved, PlanBuilt
from pilothouse.core.plan.integration import Committed, Merged
from pilothouse.core.plan.kind import PlanKind, Submit
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import JobSpec, OnInterrupted, PlanSpec, ShellSpec
from pilothouse.core.plan.state import NodeState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import Ended
from pilothouse.core.run.events import RUN_EVENTS, Event, Recorded, RunCreated
from pilothouse.core.run.inputs import Grant, Input, Outcome, Recover, Settle
from pilothouse.core.run.registry import Registry

E = TypeVar("E", bound=Event)

BASE = "base0"
GOOD = Exit(reason=ExitReason.EXITED, code=0)
BAD = Exit(reason=ExitReason.EXITED, code=7)
LOST = Exit(reason=ExitReason.LOST)
ENDED = Exit(reason=ExitReason.CANCELED, signal=15)
FIRST_LIFE, SECOND_LIFE = "executor-1", "executor-2"
_STORED = Registry(RUN_EVENTS, PLAN_EVENTS, AGENT_EVENTS)


def task(
    name: str,
    *dependencies: str,
    work: str | None = "work",
    checks: bool = False,
    group: str | None = None,
    rerun: bool = False,
    expects_no_changes: bool = False,
    text: str = "Do it",
    env: dict[str, str] | None = None,
) -> JobSpec:
    """A job. ``checks`` gives it prechecks and postchecks; without ``work`` and checks it only joins."""
    on_interrupted = OnInterrupted.RERUN if rerun else OnInterrupted.REVIEW
    check = ShellSpec(command="check", on_interrupted=OnInterrupted.RERUN) if checks else None
    return JobSpec(
        producer_id=name,
        name=name,
        task=text,
        work=None if work is None else ShellSpec(command=work, on_interrupted=on_interrupted),
        prechecks=check,
        postchecks=check,
        dependencies=dependencies,
        group=group,
        expects_no_changes=expects_no_changes,
        env=env or {},
    )


class Execution:
    """One plan that runs. Everything that can be answered well is, by ``do`` and what is built on it; nothing is
    answered by itself."""

    def __init__(
        self,
        *jobs: JobSpec,
        capacity: int = 1000,
        target: bool = True,
        bases: dict[str, str] | None = None,
        target_branch: str | None = None,
        update_checkout: bool = False,
        backoff_ms: int = 30_000,
        **options: Any,
    ) -> None:
        """``capacity`` is what all runs together may use; ``target`` opens the target branch at once; ``bases`` are
        commits of roots by name."""
        self.kind = PlanKind()
        self.state = self.kind.initial("run-1")
        self.log: list[Event] = []
        self.capacity = capacity
        ids = iter(range(1, 1_000_000))
        plan = build_plan(PlanSpec(name="Test it!", jobs=jobs, **options), lambda: f"id{next(ids)}")
        self._ids = {node.producer_id: node.id for node in plan.nodes.values()}
        created = RunCreated(kind="plan", name="Test it!", owner="local", root_run_id="run-1")
        built = PlanBuilt(
            plan=plan,
            repo_path="/repo",
            base_branch="main",
            base_commit=BASE,
            bases={self._ids[name]: commit for name, commit in (bases or {}).items()},
            target_branch=target_branch,
            update_checkout=update_checkout,
            worktree_root="/trees",
            backoff_ms=backoff_ms,
        )
        self.give(Submit(created=created, built=built))
        if target and self.lifecycle == "RUNNING":
            self.open_target()

    # What the supervisor does

    def give(self, given: Input) -> list[Event]:
        """What followed from one input, to its very end."""
        before = len(self.log)
        self._fold(given)
        while self._fold(Settle()) or self._grant():
            assert len(self.log) - before < 10_000, "it never settles"
        return self.log[before:]

    def _grant(self) -> bool:
        free = min(self.kind.demand(self.state), self.capacity - self.kind.slots(self.state))
        return free > 0 and self._fold(Grant(slots=free))

    def _fold(self, given: Input) -> bool:
        events = self.kind.decide(self.state, given)
        for event in _STORED.decode(_STORED.encode(events)):
            self.log.append(event)
            seq = len(self.log)
            self.state = self.kind.evolve(self.state, Recorded("run-1", seq, 1000 + seq, event))
        return bool(events)

    def restart(self, *known: str, instance: str = FIRST_LIFE) -> list[Event]:
        """Another owner folds the log and reconciles: the executor, in its life ``instance``, knows the commands of
        the nodes ``known``."""
        state = self.kind.initial("run-1")
        for seq, event in enumerate(self.log, 1):
            state = self.kind.evolve(state, Recorded("run-1", seq, 1000 + seq, event))
        assert self.kind.todo(state) == self.kind.todo(self.state)
        assert self.kind.unfinished(state) == self.kind.unfinished(self.state)
        assert self.kind.slots(state) == self.kind.slots(self.state)
        assert self.kind.demand(state) == self.kind.demand(self.state)
        self.state = state
        keys = frozenset(f"run-1/{self.effect(name).key}" for name in known)
        return self.give(Recover(epoch=2, instance=instance, known=keys))

    # What a test asks

    @property
    def lifecycle(self) -> str:
        return str(self.kind.common(self.state).lifecycle)

    def node(self, name: str) -> NodeState:
        return self.state.nodes[self._ids[name]]

    def status(self, name: str) -> NodeStatus:
        return self.node(name).status

    @property
    def statuses(self) -> dict[str, str]:
        return {name: str(self.status(name)) for name in self._ids}

    def names(self, *statuses: NodeStatus) -> list[str]:
        return [node.node.producer_id for node in self.state.in_status(*statuses)]

    @property
    def performing(self) -> dict[str, Phase]:
        """Which phase of which node is in flight."""
        return {
            self.state.nodes[effect.node_id].node.producer_id: effect.phase
            for effect in self.kind.todo(self.state).values()
            if isinstance(effect, PhaseEffect)
        }

    def effect(self, name: str) -> PhaseEffect:
        effect = self.state.open_effect(self._ids[name])
        assert effect is not None, f"nothing of {name} is in flight: it is {self.status(name)}"
        return effect

    def all(self, of: type[E]) -> list[E]:
        return [event for event in self.log if isinstance(event, of)]

    def moves(self, name: str) -> list[NodeStatus]:
        return [event.new for event in self.all(NodeMoved) if event.node_id == self._ids[name]]

    @property
    def wait(self) -> str:
        """The id of the one open wait."""
        (wait,) = self.state.common.waits
        return wait

    # What a test does

    def open_target(self, result: msgspec.Struct | None = None) -> list[Event]:
        """The target that is wanted is there, or it ends with ``result``."""
        assert TARGET_KEY in self.kind.todo(self.state)
        return self.give_target(result or TargetReady(branch="result", commit=BASE))

    def give_target(self, result: msgspec.Struct) -> list[Event]:
        """The target's outcome, wanted any more or not."""
        assert TARGET_KEY in self.state.open
        return self.give(Outcome(key=TARGET_KEY, result=result))

    def do(self, name: str, result: msgspec.Struct | None = None) -> list[Event]:
        """The phase of a node that is in flight ends: well, or with ``result``."""
        effect = self.effect(name)
        return self.give(Outcome(key=effect.key, result=good_result(name, effect) if result is None else result))

    def until(self, name: str, phase: Phase) -> None:
        """All goes well until that phase is in flight."""
        while self.effect(name).phase is not phase:
            self.do(name)

    def finish(self, *names: str) -> None:
        """All of these nodes go well to their end, one after the other."""
        for name in names:
            while self.state.open_effect(self._ids[name]) is not None:
                self.do(name)

    def fail(self, name: str) -> None:
        """Its work exits with 7."""
        self.until(name, Phase.WORK)
        self.do(name, BAD)

    def end_dispatched(self) -> None:
        """Everything in flight is ended, as after a stop."""
        for key, effect in list(self.state.open.items()):
            self.give(Outcome(key=key, result=ENDED if isinstance(effect, RunWork) else Ended()))

    def clean_up(self, result: msgspec.Struct | None = None) -> list[Event]:
        """All that is owed to worktrees is done, well or with ``result``."""
        events = []
        for key, effect in list(self.state.housekeeping.items()):
            if not isinstance(effect, Rescue | RemoveWorktree):
                continue
            if result is None and isinstance(effect, Rescue):
                done: msgspec.Struct = CleanedUp(ref=effect.ref, commit="saved", removed=effect.discard)
            else:
                done = CleanedUp(removed=True) if result is None else result
            events += self.give(Outcome(key=key, result=done))
        return events

    @property
    def owed(self) -> list[tuple[str, int, str]]:
        """(node, attempt, what) of what is owed to worktrees."""
        found = []
        for effect in self.state.housekeeping.values():
            if not isinstance(effect, Rescue | RemoveWorktree):
                continue
            name = self.state.nodes[effect.node_id].node.producer_id
            if isinstance(effect, RemoveWorktree):
                found.append((name, effect.attempt, "remove"))
            else:
                found.append((name, effect.attempt, "save and remove" if effect.discard else "save"))
        return found


def good_result(name: str, effect: PhaseEffect) -> msgspec.Struct:
    match effect:
        case MergeForward():
            return Merged(commit=f"{name}-base")
        case AddWorktree():
            return WorktreeReady(place=FIRST_LIFE)
        case CommitWork():
            return Committed(commit=f"{name}-commit-{effect.attempt}")
        case MergeIntoTarget():
            return Merged(commit=f"target+{name}")
    return GOOD


def with_every_phase() -> Execution:
    """The node "end" has every phase there is and has just begun; the two it joins have succeeded."""
    run = Execution(task("a"), task("b"), task("end", "a", "b", checks=True))
    run.finish("a", "b")
    return run


def waiting_for_a_review() -> Execution:
    """The only node at work, "a", was lost with its executor and a person is asked; "b" depends on it."""
    run = Execution(task("a"), task("b", "a"))
    run.until("a", Phase.WORK)
    run.restart(instance=SECOND_LIFE)
    assert run.wait
    return run
