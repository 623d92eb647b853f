"""From a plan's text to its graph: nodes with ids, groups with their hierarchy, edges in both directions.

Owns the topology, which never changes while a plan runs. Knows nothing of states, times or how work is done;
ids come from the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pilothouse.core.plan.graph import check_graph
from pilothouse.core.plan.problems import Problem, refuse
from pilothouse.core.plan.spec import JobBody, JobSpec, PlanOptions, PlanSpec


class Node(JobBody, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One job of a running plan. ``dependencies`` and ``dependents`` are node ids, the former in declared
    order (the order of forward merges); ``group`` is a group id; ``order`` is the place in the plan file."""

    id: str
    order: int
    dependencies: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    group: str | None = None

    @property
    def is_root(self) -> bool:
        return not self.dependencies

    @property
    def is_leaf(self) -> bool:
        return not self.dependents

    @property
    def is_coordination(self) -> bool:
        """True when it runs no command at all, only joins its dependencies; it takes no slot."""
        return self.work is None and self.prechecks is None and self.postchecks is None


class Group(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A group of nodes, for the eye only. ``path`` is ``a/b``, ``name`` its last part, ``parent`` an id."""

    id: str
    path: str
    name: str
    parent: str | None = None


class Plan(PlanOptions, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A plan that can be run. ``nodes`` and ``groups`` are by id, nodes in declared order, a parent group
    always before its children."""

    nodes: dict[str, Node]
    groups: dict[str, Group] = msgspec.field(default_factory=dict)
    roots: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()

    def ancestry(self, group: str | None) -> Iterator[str]:
        """The ids of ``group`` and the groups around it, innermost first; nothing for None."""
        while group is not None:
            yield group
            group = self.groups[group].parent

    def find_node(self, name: str) -> Node | None:
        """By id, else by producer id. Linear: meant for what people type."""
        return self.nodes.get(name) or next((n for n in self.nodes.values() if n.producer_id == name), None)

    def find_group(self, name: str) -> Group | None:
        """By id, else by path. Linear: meant for what people type."""
        return self.groups.get(name) or next((g for g in self.groups.values() if g.path == name), None)


def build_plan(spec: PlanSpec, new_id: Callable[[], str]) -> Plan:
    """The plan document's three passes, linear in jobs and dependencies.

    Raises ``BadInput`` for no job, a duplicate producer id, an unknown, repeated or own dependency, and a cycle.
    """
    problems = check_graph(spec.jobs) if spec.jobs else [Problem("jobs", "is empty", "add at least one job")]
    if problems:
        raise refuse(problems)

    # 1. Nodes get their ids, groups and the groups around them come into being.
    ids = {job.producer_id: new_id() for job in spec.jobs}
    groups: dict[str, Group] = {}
    group_ids: dict[str, str] = {}
    for job in spec.jobs:
        if job.group is not None:
            _ensure_group(job.group, groups, group_ids, new_id)

    # 2. Producer ids become node ids. 3. Every edge is known from its other end too.
    dependents: dict[str, list[str]] = {node_id: [] for node_id in ids.values()}
    for job in spec.jobs:
        for name in job.dependencies:
            dependents[ids[name]].append(ids[job.producer_id])

    nodes = {
        (node_id := ids[job.producer_id]): Node(
            id=node_id,
            order=order,
            dependencies=tuple(ids[name] for name in job.dependencies),
            dependents=tuple(dependents[node_id]),
            group=None if job.group is None else group_ids[job.group],
            **_fields(job, JobBody),
        )
        for order, job in enumerate(spec.jobs)
    }
    return Plan(
        nodes=nodes,
        groups=groups,
        roots=tuple(node_id for node_id, node in nodes.items() if node.is_root),
        leaves=tuple(node_id for node_id, node in nodes.items() if node.is_leaf),
        **_fields(spec, PlanOptions),
    )


def _ensure_group(path: str, groups: dict[str, Group], ids: dict[str, str], new_id: Callable[[], str]) -> None:
    if path in ids:
        return
    parent: str | None = None
    reached = ""
    for name in path.split("/"):
        reached = f"{reached}/{name}" if reached else name
        if reached not in ids:
            ids[reached] = new_id()
            groups[ids[reached]] = Group(id=ids[reached], path=reached, name=name, parent=parent)
        parent = ids[reached]


def _fields(value: JobSpec | PlanSpec, shared: type[JobBody] | type[PlanOptions]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in shared.__struct_fields__}
