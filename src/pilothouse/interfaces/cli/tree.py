"""A plan as the lines of a tree: which of them are shown when there is not room for all.

Values in, values out; knows nothing of terminals. Groups and nodes stand in the order of the plan file. Where the
tree is too tall, what needs eyes stays (what runs, waits or failed) with the groups around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pilothouse.core.plan.phases import Phase, PhaseStatus
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.states import ACTIVE, NodeStatus
from pilothouse.interfaces.cli.words import duration, one_line, title

_NEEDS_EYES = {NodeStatus.RUNNING: 0, NodeStatus.SCHEDULED: 0, NodeStatus.FAILED: 1, NodeStatus.READY: 2}
_REST = 3
_PHASE_WORDS = {
    Phase.MERGE_FI: "joining",
    Phase.SETUP: "setup",
    Phase.PRECHECKS: "prechecks",
    Phase.WORK: "work",
    Phase.COMMIT: "commit",
    Phase.POSTCHECKS: "postchecks",
    Phase.MERGE_RI: "merge",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``status`` chooses glyph and colour, ``word`` says it; ``detail`` may be cut or left out."""

    depth: int
    name: str
    status: str
    word: str
    elapsed: str = ""
    detail: str = ""
    title: str = ""
    """What it is called beside its name."""


@dataclass(slots=True)
class _Branch:
    """A group, or the plan itself (no id), with what is directly in it: groups and nodes, in order."""

    group: str | None = None
    parts: list[_Branch | str] = field(default_factory=list)


class Tree:
    """The shape of one plan, made once, and its lines at any moment."""

    def __init__(self, state: PlanState) -> None:
        plan = state.plan
        self._root = _Branch()
        branches: dict[str | None, _Branch] = {None: self._root}
        self._around: dict[str, tuple[str, ...]] = {}
        for node in plan.nodes.values():
            inside = tuple(plan.ancestry(node.group))
            for group in reversed(inside):
                if group not in branches:
                    branches[group] = _Branch(group)
                    branches[plan.groups[group].parent].parts.append(branches[group])
            branches[node.group].parts.append(node.id)
            self._around[node.id] = inside
        self.size = len(plan.nodes) + len(plan.groups)

    def lines(self, state: PlanState, height: int, now: int, output: dict[str, str]) -> list[Line]:
        """At most ``height`` lines. ``now`` in milliseconds since the epoch; ``output``: last lines by node id."""
        if self.size <= height:
            return list(self._walk(state, self._root, 0, now, output, None))
        chosen = self.choose(state, height - 1)
        lines = list(self._walk(state, self._root, 0, now, output, chosen))
        hidden = len(state.nodes) - sum(node_id in chosen for node_id in state.nodes)
        return [*lines, Line(0, f"… and {hidden:,} more", "", "")]

    def choose(self, state: PlanState, height: int) -> set[str]:
        """The nodes and groups to show in ``height`` lines, what needs eyes first."""
        chosen: set[str] = set()
        for node in sorted(state.nodes.values(), key=_urgency):
            wanted = {node.node.id, *self._around[node.node.id]} - chosen
            if len(chosen) + len(wanted) > height:
                break
            chosen |= wanted
        return chosen

    def _walk(
        self,
        state: PlanState,
        branch: _Branch,
        depth: int,
        now: int,
        output: dict[str, str],
        chosen: set[str] | None,
    ) -> Iterator[Line]:
        for part in branch.parts:
            if isinstance(part, str):
                if chosen is None or part in chosen:
                    yield node_line(state, state.nodes[part], depth, now, output.get(part, ""))
            elif part.group is not None and (chosen is None or part.group in chosen):
                yield _group_line(state, part.group, depth, now)
                yield from self._walk(state, part, depth + 1, now, output, chosen)


def _urgency(node: NodeState) -> tuple[int, int]:
    return (0 if node.wait_id else _NEEDS_EYES.get(node.status, _REST)), node.node.order


def node_line(state: PlanState, node: NodeState, depth: int, now: int, output: str) -> Line:
    group = state.plan.groups[node.node.group].path if node.node.group else ""
    name = one_line(node.node.producer_id.removeprefix(f"{group}/"))
    called = title(node.node.producer_id, node.node.name)
    wait = state.common.waits.get(node.wait_id) if node.wait_id else None
    if wait is not None:
        question = one_line(wait.question)
        return Line(depth, name, "waiting", f"waits: {wait.kind}", _elapsed(node, now), question, called)
    detail = _error(node) if node.error else output if node.status in ACTIVE else ""
    return Line(depth, name, node.status, _word(node), _elapsed(node, now), detail, called)


def _error(node: NodeState) -> str:
    """Without the state it begins with, which stands before it."""
    error = one_line(node.error)
    state = f"{node.status}: "
    return error[len(state) :] if error.lower().startswith(state) else error


def _word(node: NodeState) -> str:
    if node.canceling:
        return "canceling"
    if node.status not in ACTIVE or not node.attempts:
        return str(node.status)
    at = running_phase(node)
    return f"{node.status}: {_PHASE_WORDS[at]}" if at else str(node.status)


def running_phase(node: NodeState) -> Phase | None:
    """The phase a node is in."""
    if not node.attempts:
        return None
    return next((at for at, phase in node.attempt.phases.items() if phase.status is PhaseStatus.RUNNING), None)


def _elapsed(node: NodeState, now: int) -> str:
    if node.status in ACTIVE and node.attempts:
        return duration(now - node.attempt.started_at)
    if node.attempts and node.attempt.ended_at is not None:
        return duration(node.attempt.ended_at - node.attempt.started_at)
    return ""


def _group_line(state: PlanState, group_id: str, depth: int, now: int) -> Line:
    assert state.groups is not None, "a plan with groups keeps their states"
    group, value = state.plan.groups[group_id], state.groups[group_id]
    elapsed = duration((value.ended_at or now) - value.started_at) if value.started_at is not None else ""
    done = f"{value.nodes.succeeded}/{value.nodes.total}"
    return Line(depth, f"{one_line(group.name)}/", value.status, f"{value.status} {done}", elapsed)


def totals(state: PlanState) -> Sequence[tuple[str, int]]:
    """(state, how many nodes), those that are not empty."""
    order = (
        NodeStatus.SUCCEEDED,
        NodeStatus.RUNNING,
        NodeStatus.SCHEDULED,
        NodeStatus.READY,
        NodeStatus.PENDING,
        NodeStatus.FAILED,
        NodeStatus.BLOCKED,
        NodeStatus.CANCELED,
    )
    return [(status, count) for status in order if (count := state.count(status))]
