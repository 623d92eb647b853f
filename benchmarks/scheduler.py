"""Building and scheduling a large plan to its end, beside ``graphlib`` over the same edges.

Ours drives the real ``PlanKind`` as a run's actor does (decide, evolve, compare what is wanted with what is in flight),
with outcomes that come at once and nothing stored: every node gets its slot, its attempt and its phases, and its result
is handed to those that depend on it. The floor only says which node may be next, so that part of ours is shown by
itself too: the build, the node table, the starting order and the groups, without a run around them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from itertools import count

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import AtMost, Figure, in_turns
from pilothouse.core.plan.build import build_plan
from pilothouse.core.plan.effects import (
    AddWorktree,
    CleanedUp,
    CommitWork,
    MergeForward,
    MergeIntoTarget,
    OpenTarget,
    RemoveWorktree,
    RunWork,
    TargetReady,
    WorktreeReady,
)
from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.groups import GroupStates
from pilothouse.core.plan.integration import Committed, Merged
from pilothouse.core.plan.kind import PlanKind, Submit
from pilothouse.core.plan.ready import ReadyQueue
from pilothouse.core.plan.spec import JobSpec, PlanSpec, ShellSpec
from pilothouse.core.plan.state import PlanState
from pilothouse.core.plan.states import NodeStatus, check_move, initial_status
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import Effect
from pilothouse.core.run.events import Event, Recorded, RunCreated
from pilothouse.core.run.inputs import Grant, Input, Outcome, Settle
from pilothouse.core.run.lifecycle import Lifecycle

SLOTS = 16
DEPENDENCIES = 3
WIDTH = 100
COMMIT = "c" * 40

_SIZES: dict[Size, tuple[tuple[int, ...], int]] = {
    "full": ((10_000, 20_000), 5),
    "quick": ((2_000, 4_000), 3),
    "tiny": ((60, 120), 1),
}


def measure(size: Size) -> Iterator[Shown]:
    nodes, rounds = _SIZES[size]
    per_node: list[list[float]] = []
    beside = "graphlib over the same edges"
    for number in nodes:
        spec = layered(number)
        edges = {job.producer_id: job.dependencies for job in spec.jobs}
        ours, floor = in_turns(rounds, lambda spec=spec: _ours(spec), lambda edges=edges: _floor(edges))  # type: ignore[misc]
        yield Figure(f"build and run {number} nodes to their end", ours, floor, beside, AtMost(10))
        order, floor = in_turns(rounds, lambda spec=spec: _order(spec), lambda edges=edges: _floor(edges))  # type: ignore[misc]
        yield Figure(f"build and order {number} nodes", order, floor, beside, AtMost(10))
        per_node.append([taken / number for taken in ours])
    yield Figure(
        f"time per node, {nodes[1]} nodes", per_node[1], per_node[0], f"ours with {nodes[0]} nodes", AtMost(1.2)
    )


def layered(nodes: int) -> PlanSpec:
    """Layers of a hundred, each node with three dependencies in the layer before its own. The same every time."""
    chance = random.Random(nodes)
    jobs: list[JobSpec] = []
    for number in range(nodes):
        first = number - number % WIDTH - WIDTH
        before = range(max(first, 0), max(first + WIDTH, 0))
        chosen = chance.sample(before, min(DEPENDENCIES, len(before)))
        jobs.append(
            JobSpec(
                producer_id=f"n{number}",
                name=f"n{number}",
                task="Do it",
                work=ShellSpec(command="true"),
                dependencies=tuple(f"n{dependency}" for dependency in chosen),
            )
        )
    return PlanSpec(name="large", jobs=tuple(jobs), max_parallel=0)


def _floor(edges: dict[str, tuple[str, ...]]) -> float:
    began = time.perf_counter()
    sorter = TopologicalSorter(edges)
    sorter.prepare()
    while sorter.is_active():
        sorter.done(*sorter.get_ready())
    return time.perf_counter() - began


def _order(spec: PlanSpec) -> float:
    began = time.perf_counter()
    ids = count()
    plan = build_plan(spec, lambda: f"node-{next(ids)}")
    status = {node.id: initial_status(is_root=node.is_root) for node in plan.nodes.values()}
    missing = {node.id: len(node.dependencies) for node in plan.nodes.values()}
    groups, ready = GroupStates(plan, status), ReadyQueue()

    def move(node: str, new: NodeStatus) -> None:
        check_move(status[node], new)
        groups.move(node, status[node], new, 0)
        status[node] = new

    for root in plan.roots:
        ready.add(plan.nodes[root])
    while started := ready.first(SLOTS):
        for node in started:
            ready.discard(node)
            for step in (NodeStatus.SCHEDULED, NodeStatus.RUNNING, NodeStatus.SUCCEEDED):
                move(node, step)
            for dependent in plan.nodes[node].dependents:
                missing[dependent] -= 1
                if not missing[dependent]:
                    move(dependent, NodeStatus.READY)
                    ready.add(plan.nodes[dependent])
    took = time.perf_counter() - began
    assert set(status.values()) == {NodeStatus.SUCCEEDED}
    return took


def _ours(spec: PlanSpec) -> float:
    began = time.perf_counter()
    ids = count()
    plan = build_plan(spec, lambda: f"node-{next(ids)}")
    created = RunCreated(kind=PlanKind.name, name=spec.name, owner="benchmark", root_run_id="run")
    built = PlanBuilt(
        plan=plan,
        repo_path="/repository",
        base_branch="main",
        base_commit=COMMIT,
        target_branch="result",
        worktree_root="/worktrees",
    )
    driver = _Driver()
    driver.take(Submit(created=created, built=built))
    while not driver.state.common.terminal:
        driver.turn()
    took = time.perf_counter() - began
    assert driver.state.common.lifecycle is Lifecycle.SUCCEEDED
    return took


class _Driver:
    """What an actor does with a run, without its log, its tasks and its gate."""

    def __init__(self) -> None:
        self.kind = PlanKind()
        self.state: PlanState = self.kind.initial("run")
        self.seq = 0

    def turn(self) -> None:
        """Answer everything that should be in flight."""
        for key, effect in list(self.kind.todo(self.state).items()):
            self.take(Outcome(key=key, result=_answer(effect)))

    def take(self, given: Input) -> None:
        kind = self.kind
        self._fold(kind.decide(self.state, given))
        while True:
            while events := kind.decide(self.state, Settle()):
                self._fold(events)
            slots = min(SLOTS - kind.slots(self.state), kind.demand(self.state))
            if not slots:
                return
            self._fold(kind.decide(self.state, Grant(slots=slots)))

    def _fold(self, events: Iterable[Event]) -> None:
        for event in events:
            self.seq += 1
            self.state = self.kind.evolve(self.state, Recorded("run", self.seq, self.seq, event))


def _answer(effect: Effect) -> msgspec.Struct:
    match effect:
        case OpenTarget():
            return TargetReady(branch="result", commit=COMMIT)
        case MergeForward() | MergeIntoTarget():
            return Merged(commit=COMMIT)
        case AddWorktree():
            return WorktreeReady(place="here")
        case RunWork():
            return Exit(reason=ExitReason.EXITED, code=0)
        case CommitWork():
            return Committed(commit=f"{effect.node_id:c<40}")
        case RemoveWorktree():
            return CleanedUp(removed=True)
    raise AssertionError(f"nobody asked for {effect}")
