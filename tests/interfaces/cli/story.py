"""A plan whose events a test tells one by one: what a real owner would have recorded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pilothouse.core.plan.build import build_plan
from pilothouse.core.plan.events import (
    AttemptEnded,
    AttemptStarted,
    LogAppended,
    NodeMoved,
    PhaseEnded,
    PhaseStarted,
    PlanBuilt,
    TargetOpened,
    WorkRescued,
)
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.spec import JobSpec, PlanSpec, ShellSpec
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.plan.view import plan_view
from pilothouse.core.run.events import (
    Event,
    Recorded,
    RunCreated,
    RunFailed,
    RunFinished,
    RunStarted,
    StopAcknowledged,
    Stopped,
    StopRequested,
    WaitOpened,
)
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.engine.kinds import REGISTRY

BEGAN = 1_700_000_000_000
"""When every story begins, in milliseconds since the epoch."""
PLAN_ID = "0193b2c4-5d6e-7000-8000-000000000001"


class Story:
    """Events told so far. Each happens 100 ms after the one before; node ids are n1, n2 … in declared order."""

    def __init__(self, jobs: Sequence[JobSpec], *, plan_id: str = PLAN_ID, name: str = "add-search") -> None:
        self.id = plan_id
        self.recorded: list[Recorded] = []
        self.row: RunRow | None = None
        self.kind = PlanKind()
        self.state = self.kind.initial(plan_id)
        numbers = itertools.count(1)
        plan = build_plan(PlanSpec(name=name, jobs=tuple(jobs)), lambda: f"n{next(numbers)}")
        self.tell(
            RunCreated(kind="plan", name=name, owner="local", root_run_id=plan_id, cause="cli"),
            PlanBuilt(
                plan=plan, repo_path="/repo", base_branch="main", base_commit="b" * 40, worktree_root="/worktrees"
            ),
        )

    def tell(self, *events: Event) -> Story:
        for event in events:
            seq = len(self.recorded) + 1
            recorded = Recorded(self.id, seq, BEGAN + 100 * (seq - 1), event)
            self.state = self.kind.evolve(self.state, recorded)
            self.row = project(self.row, recorded)
            self.recorded.append(recorded)
        return self

    def start(self) -> Story:
        return self.tell(RunStarted(task="add-search"), TargetOpened(branch="feature/search", commit="c" * 40))

    def begin(self, name: str) -> Story:
        node = self.node(name)
        moves: list[Event] = []
        if self.state.nodes[node].status is NodeStatus.PENDING:
            moves.append(NodeMoved(node_id=node, old=NodeStatus.PENDING, new=NodeStatus.READY))
        attempt = len(self.state.nodes[node].attempts) + 1
        return self.tell(
            *moves,
            NodeMoved(node_id=node, old=NodeStatus.READY, new=NodeStatus.SCHEDULED),
            AttemptStarted(node_id=node, attempt=attempt, trigger=Trigger.INITIAL, worktree_path=f"/worktrees/{name}"),
            NodeMoved(node_id=node, old=NodeStatus.SCHEDULED, new=NodeStatus.RUNNING),
            PhaseStarted(node_id=node, attempt=attempt, phase=Phase.WORK, key=f"{node}/{attempt}/work"),
        )

    def print(self, name: str, end: int) -> Story:
        return self.tell(LogAppended(node_id=self.node(name), attempt=1, phase=Phase.WORK, start=0, end=end))

    def succeed(self, name: str) -> Story:
        return self._end(name, PhaseStatus.SUCCEEDED, NodeStatus.SUCCEEDED, "")

    def fail(self, name: str, error: str = "work exited with 1") -> Story:
        return self._end(name, PhaseStatus.FAILED, NodeStatus.FAILED, error)

    def _end(self, name: str, phase: PhaseStatus, status: NodeStatus, error: str) -> Story:
        node = self.node(name)
        attempt = len(self.state.nodes[node].attempts)
        return self.tell(
            PhaseEnded(node_id=node, attempt=attempt, phase=Phase.WORK, status=phase, error=error),
            AttemptEnded(node_id=node, attempt=attempt, status=phase, error=error),
            NodeMoved(node_id=node, old=NodeStatus.RUNNING, new=status, reason=error),
        )

    def block(self, name: str, reason: str) -> Story:
        old = self.state.nodes[self.node(name)].status
        return self.tell(NodeMoved(node_id=self.node(name), old=old, new=NodeStatus.BLOCKED, reason=reason))

    def ask(self, name: str, question: str) -> Story:
        wait = Wait(
            id="w1", kind=WaitKind.REVIEW, scope=self.node(name), question=question, options=("rerun", "accept")
        )
        return self.tell(WaitOpened(wait=wait))

    def finish(self, status: str = "SUCCEEDED") -> Story:
        return self.tell(RunFailed(error="no node succeeded") if status == "FAILED" else RunFinished(status=status))

    def stop(self) -> Story:
        self.tell(StopRequested(), StopAcknowledged())
        for node in self.state.nodes.values():
            if node.active:
                at: dict[str, Any] = {"node_id": node.node.id, "attempt": len(node.attempts)}
                self.tell(
                    PhaseEnded(**at, phase=Phase.WORK, status=PhaseStatus.INTERRUPTED),
                    AttemptEnded(**at, status=PhaseStatus.INTERRUPTED, rescue=True, discard=True),
                    NodeMoved(node_id=node.node.id, old=node.status, new=NodeStatus.READY, reason="interrupted"),
                )
        return self.tell(Stopped())

    def save(self, name: str) -> Story:
        """The edits a stopped node made are saved."""
        return self.tell(WorkRescued(node_id=self.node(name), attempt=1, ref=f"refs/rescue/{name}", removed=True))

    def node(self, name: str) -> str:
        found = self.state.find(name)
        assert found is not None
        return found.node.id

    def view(self) -> dict[str, Any]:
        assert self.row is not None
        return plan_view(self.state, self.row)

    def wire(self, after: int) -> list[tuple[int, bytes]]:
        return [(one.seq, REGISTRY.wire(one)) for one in self.recorded[after:]]


def job(name: str, *dependencies: str, group: str | None = None, called: str = "") -> JobSpec:
    return JobSpec(
        producer_id=name,
        name=called or name,
        task="do it",
        work=ShellSpec(command="true"),
        dependencies=dependencies,
        group=group,
    )
