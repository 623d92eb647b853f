"""Ways to make a plan in a test: from edges by hand, or any plan at all by hypothesis."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from pilothouse.core.plan.build import Plan, build_plan
from pilothouse.core.plan.spec import JobSpec, PlanSpec, ShellSpec

GROUPS = [None, "a", "a/b", "a/b/c", "a/d", "e"]


def job(name: str, *dependencies: str, group: str | None = None, work: bool = True) -> JobSpec:
    return JobSpec(
        producer_id=name,
        name=name,
        task="do it",
        work=ShellSpec(command="true") if work else None,
        dependencies=dependencies,
        group=group,
    )


def spec(*jobs: JobSpec) -> PlanSpec:
    return PlanSpec(name="test", jobs=jobs)


def build(*jobs: JobSpec) -> Plan:
    """Nodes are n1, n2 … in declared order, groups follow on."""
    numbers = itertools.count(1)
    return build_plan(spec(*jobs), lambda: f"n{next(numbers)}")


def from_edges(edges: Sequence[Sequence[int]], groups: Mapping[int, str | None] | None = None) -> PlanSpec:
    """``edges[i]`` are what job ``j<i>`` depends on."""
    return spec(
        *(
            job(f"j{index}", *(f"j{target}" for target in targets), group=(groups or {}).get(index))
            for index, targets in enumerate(edges)
        )
    )


@st.composite
def acyclic_edges(draw: st.DrawFn, most: int = 20) -> list[list[int]]:
    """Edges of a random DAG whose declared order says nothing about its direction."""
    size = draw(st.integers(1, most))
    place = draw(st.permutations(range(size)))
    edges: list[list[int]] = [[] for _ in range(size)]
    for vertex in range(1, size):
        targets = draw(st.lists(st.integers(0, vertex - 1), unique=True, max_size=4))
        edges[place[vertex]] = [place[target] for target in targets]
    return edges


@st.composite
def any_edges(draw: st.DrawFn, most: int = 20) -> list[list[int]]:
    """Edges of any graph, without loops at one vertex."""
    size = draw(st.integers(1, most))
    targets = st.lists(st.integers(0, size - 1), unique=True, max_size=3)
    return [[target for target in draw(targets) if target != vertex] for vertex in range(size)]


@st.composite
def plans(draw: st.DrawFn, most: int = 12) -> Plan:
    edges = draw(acyclic_edges(most))
    groups = {index: draw(st.sampled_from(GROUPS)) for index in range(len(edges))}
    numbers = itertools.count(1)
    return build_plan(from_edges(edges, groups), lambda: f"n{next(numbers)}")
