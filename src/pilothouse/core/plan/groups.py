"""What a group shows: the sum of its direct children, nodes and groups alike, kept up to date move by move.

Groups are for the eye and never affect execution. This file knows the document's order of precedence and
nothing of why nodes move. One move of a node costs one step per group around it.

``GroupStates`` is owned by whoever folds events and changes in place; the values it hands out are frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from pilothouse.core.plan.build import Plan
from pilothouse.core.plan.states import TERMINAL, NodeStatus

_COLUMNS = ("running", "failed", "blocked", "succeeded", "canceled", "pending")
_RUNNING, _FAILED, _BLOCKED, _SUCCEEDED, _CANCELED, _PENDING = range(len(_COLUMNS))
# What a group can be is less fine than what a node can be: a scheduled child counts as running, a ready one
# as pending.
_COLUMN = {
    NodeStatus.PENDING: _PENDING,
    NodeStatus.READY: _PENDING,
    NodeStatus.SCHEDULED: _RUNNING,
    NodeStatus.RUNNING: _RUNNING,
    NodeStatus.SUCCEEDED: _SUCCEEDED,
    NodeStatus.FAILED: _FAILED,
    NodeStatus.BLOCKED: _BLOCKED,
    NodeStatus.CANCELED: _CANCELED,
}


class GroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many stand where. Scheduled counts as running, ready as pending."""

    running: int = 0
    failed: int = 0
    blocked: int = 0
    succeeded: int = 0
    canceled: int = 0
    pending: int = 0

    @property
    def total(self) -> int:
        return self.running + self.failed + self.blocked + self.succeeded + self.canceled + self.pending


class GroupState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group. ``children`` are its direct children, ``nodes`` all nodes below it, at any depth. Instants are
    milliseconds since the epoch."""

    status: NodeStatus
    children: GroupCounts
    nodes: GroupCounts
    started_at: int | None = None
    """The earliest start of any node below, also of one that was retried later."""
    ended_at: int | None = None
    """The latest end of any node below once all have ended, else None."""

    @property
    def complete(self) -> bool:
        """No node below it can move without a retry."""
        return not (self.nodes.running or self.nodes.pending)


def aggregate(counts: GroupCounts) -> NodeStatus:
    """The document's order: running, failed, blocked, succeeded when all did, canceled, else pending."""
    return _aggregate([getattr(counts, name) for name in _COLUMNS])


def _aggregate(counts: list[int]) -> NodeStatus:
    if counts[_RUNNING]:
        return NodeStatus.RUNNING
    if counts[_FAILED]:
        return NodeStatus.FAILED
    if counts[_BLOCKED]:
        return NodeStatus.BLOCKED
    if counts[_SUCCEEDED] and counts[_SUCCEEDED] == sum(counts):
        return NodeStatus.SUCCEEDED
    if counts[_CANCELED]:
        return NodeStatus.CANCELED
    return NodeStatus.PENDING


@dataclass(slots=True)
class _Tally:
    """What is kept per group, by column. ``last_end`` is the latest end so far, complete or not."""

    group: str
    status: NodeStatus = NodeStatus.PENDING
    children: list[int] = field(default_factory=lambda: [0] * len(_COLUMNS))
    nodes: list[int] = field(default_factory=lambda: [0] * len(_COLUMNS))
    started_at: int | None = None
    last_end: int | None = None


class GroupStates:
    """The states of all groups of one plan, by group id."""

    def __init__(self, plan: Plan, statuses: Mapping[str, NodeStatus]) -> None:
        """``statuses`` holds every node's present status by id. Linear in groups and nodes."""
        self._tallies = {group: _Tally(group) for group in plan.groups}
        around = {group: [self._tallies[outer] for outer in plan.ancestry(group)] for group in plan.groups}
        # By node: the groups around it, innermost first.
        self._around = {node.id: around[node.group] for node in plan.nodes.values() if node.group is not None}
        for node, tallies in self._around.items():
            column = _COLUMN[statuses[node]]
            tallies[0].children[column] += 1
            for tally in tallies:
                tally.nodes[column] += 1
        # A plan lists parents before children, so backwards every child is complete before its parent.
        for group in reversed(plan.groups.values()):
            tally = self._tallies[group.id]
            tally.status = _aggregate(tally.children)
            if group.parent is not None:
                self._tallies[group.parent].children[_COLUMN[tally.status]] += 1

    def __getitem__(self, group: str) -> GroupState:
        tally = self._tallies[group]
        complete = not (tally.nodes[_RUNNING] or tally.nodes[_PENDING])
        return GroupState(
            status=tally.status,
            children=_counts(tally.children),
            nodes=_counts(tally.nodes),
            started_at=tally.started_at,
            ended_at=tally.last_end if complete else None,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._tallies)

    def items(self) -> Iterator[tuple[str, GroupState]]:
        """Group ids with their states, parents before their children."""
        return ((group, self[group]) for group in self._tallies)

    def move(self, node: str, old: NodeStatus, new: NodeStatus, at: int) -> list[str]:
        """Take in that ``node`` went from ``old`` to ``new`` at ``at`` (milliseconds since the epoch).

        Answers the groups whose own status changed by it, innermost first.
        """
        if node not in self._around:
            return []
        changed: list[str] = []
        before, after = _COLUMN[old], _COLUMN[new]
        child_before, child_after = before, after
        for tally in self._around[node]:
            if new is NodeStatus.RUNNING and (tally.started_at is None or at < tally.started_at):
                tally.started_at = at
            if new in TERMINAL and (tally.last_end is None or at > tally.last_end):
                tally.last_end = at
            tally.nodes[before] -= 1
            tally.nodes[after] += 1
            if child_before != child_after:
                tally.children[child_before] -= 1
                tally.children[child_after] += 1
                status, tally.status = tally.status, _aggregate(tally.children)
                child_before, child_after = _COLUMN[status], _COLUMN[tally.status]
                if child_before != child_after:
                    changed.append(tally.group)
        return changed


def _counts(counts: list[int]) -> GroupCounts:
    return GroupCounts(**dict(zip(_COLUMNS, counts, strict=True)))
