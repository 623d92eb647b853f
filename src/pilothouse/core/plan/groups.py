"""What a group shows: the sum of its direct children, nodes and groups alike, kept up to date move by move.

Groups are for the eye and never affect execution. This file knows the document's order of precedence and
nothing of why nodes move. One move of a node costs one step per group around it.

``GroupStates`` is owned by whoever folds events and changes in place; the values it hands out are frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pilothouse.core.plan.build import Plan
from pilothouse.core.plan.states import TERMINAL, NodeStatus


class GroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many stand where. A scheduled child counts as running, a ready one as pending: what a
    group can be is less fine than what a node can be."""

    running: int = 0
    failed: int = 0
    blocked: int = 0
    succeeded: int = 0
    canceled: int = 0
    pending: int = 0

    @property
    def total(self) -> int:
        return self.running + self.failed + self.blocked + self.succeeded + self.canceled + self.pending

    def added(self, status: NodeStatus) -> GroupCounts:
        """With one more child in ``status``."""
        return self._shifted({_COLUMN[status]: 1})

    def moved(self, old: NodeStatus, new: NodeStatus) -> GroupCounts:
        """With one child gone from ``old`` to ``new``."""
        if _COLUMN[old] == _COLUMN[new]:
            return self
        return self._shifted({_COLUMN[old]: -1, _COLUMN[new]: 1})

    def _shifted(self, by: Mapping[str, int]) -> GroupCounts:
        return msgspec.structs.replace(self, **{name: getattr(self, name) + step for name, step in by.items()})


_COLUMN = {
    NodeStatus.PENDING: "pending",
    NodeStatus.READY: "pending",
    NodeStatus.SCHEDULED: "running",
    NodeStatus.RUNNING: "running",
    NodeStatus.SUCCEEDED: "succeeded",
    NodeStatus.FAILED: "failed",
    NodeStatus.BLOCKED: "blocked",
    NodeStatus.CANCELED: "canceled",
}


def aggregate(counts: GroupCounts) -> NodeStatus:
    """The document's order: running, failed, blocked, succeeded when all did, canceled, else pending."""
    if counts.running:
        return NodeStatus.RUNNING
    if counts.failed:
        return NodeStatus.FAILED
    if counts.blocked:
        return NodeStatus.BLOCKED
    if counts.succeeded and counts.succeeded == counts.total:
        return NodeStatus.SUCCEEDED
    if counts.canceled:
        return NodeStatus.CANCELED
    return NodeStatus.PENDING


class GroupState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group. ``children`` are its direct children, ``nodes`` all nodes below it, at any depth."""

    status: NodeStatus = NodeStatus.PENDING
    children: GroupCounts = GroupCounts()
    nodes: GroupCounts = GroupCounts()
    started_at: int | None = None
    """The earliest start of any node below, also of one that was retried later."""
    last_ended_at: int | None = None
    """The latest end so far, whether or not the group is complete."""

    @property
    def complete(self) -> bool:
        """No node below it can move without a retry."""
        return not (self.nodes.running or self.nodes.pending)

    @property
    def ended_at(self) -> int | None:
        """The latest end of any node below once all have ended, else None."""
        return self.last_ended_at if self.complete else None


class GroupStates:
    """The states of all groups of one plan, by group id."""

    def __init__(self, plan: Plan, statuses: Mapping[str, NodeStatus]) -> None:
        """``statuses`` holds every node's present status by id. Linear in groups and nodes."""
        self._plan = plan
        self._states: dict[str, GroupState] = {}
        self._recount(statuses)

    def __getitem__(self, group: str) -> GroupState:
        return self._states[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def items(self) -> Iterable[tuple[str, GroupState]]:
        """Group ids with their states, parents before their children."""
        return self._states.items()

    def move(self, node: str, old: NodeStatus, new: NodeStatus, at: int) -> list[str]:
        """Take in that ``node`` went from ``old`` to ``new`` at ``at`` (milliseconds since the epoch).

        Answers the groups whose own status changed by it, innermost first.
        """
        changed: list[str] = []
        child_old, child_new = old, new
        for group in self._plan.ancestry(self._plan.nodes[node].group):
            state = self._states[group]
            children = state.children.moved(child_old, child_new)
            status = state.status if children is state.children else aggregate(children)
            self._states[group] = GroupState(
                status=status,
                children=children,
                nodes=state.nodes.moved(old, new),
                started_at=_least(state.started_at, at) if new is NodeStatus.RUNNING else state.started_at,
                last_ended_at=_most(state.last_ended_at, at) if new in TERMINAL else state.last_ended_at,
            )
            if status is not state.status:
                changed.append(group)
            child_old, child_new = state.status, status
        return changed

    def _recount(self, statuses: Mapping[str, NodeStatus]) -> None:
        children = dict.fromkeys(self._plan.groups, GroupCounts())
        nodes = dict.fromkeys(self._plan.groups, GroupCounts())
        for node_id, node in self._plan.nodes.items():
            if node.group is not None:
                children[node.group] = children[node.group].added(statuses[node_id])
            for group in self._plan.ancestry(node.group):
                nodes[group] = nodes[group].added(statuses[node_id])
        # A plan lists parents before children, so backwards every child is complete before its parent.
        for group, value in reversed(self._plan.groups.items()):
            if value.parent is not None:
                children[value.parent] = children[value.parent].added(aggregate(children[group]))
        for group in self._plan.groups:
            self._states[group] = GroupState(
                status=aggregate(children[group]), children=children[group], nodes=nodes[group]
            )


def _least(known: int | None, at: int) -> int:
    return at if known is None else min(known, at)


def _most(known: int | None, at: int) -> int:
    return at if known is None else max(known, at)
