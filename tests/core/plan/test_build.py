from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from tests.core.plan.plans import acyclic_edges, any_edges, build, from_edges, job, plans, spec

from pilothouse.core.plan.build import Plan, build_plan
from pilothouse.core.plan.graph import check_graph
from pilothouse.core.plan.integration import Strategy
from pilothouse.core.plan.spec import PlanSpec, ProcessSpec
from pilothouse.errors import BadInput


@given(plans())
def test_edges_are_known_from_both_ends(plan: Plan) -> None:
    for node in plan.nodes.values():
        assert all(node.id in plan.nodes[other].dependents for other in node.dependencies)
        assert all(node.id in plan.nodes[other].dependencies for other in node.dependents)
        assert len(set(node.dependents)) == len(node.dependents)


@given(plans())
def test_roots_and_leaves_are_the_nodes_without_edges_on_that_side(plan: Plan) -> None:
    assert plan.roots == tuple(node.id for node in plan.nodes.values() if node.is_root)
    assert plan.leaves == tuple(node.id for node in plan.nodes.values() if node.is_leaf)
    assert plan.roots
    assert plan.leaves


@given(plans())
def test_every_node_can_be_reached_in_an_order_that_respects_dependencies(plan: Plan) -> None:
    done: set[str] = set()
    wave = list(plan.roots)
    while wave:
        done.update(wave)
        reached = {other for name in wave for other in plan.nodes[name].dependents} - done
        wave = [name for name in reached if set(plan.nodes[name].dependencies) <= done]
    assert done == set(plan.nodes)


@given(plans())
def test_a_plan_survives_json(plan: Plan) -> None:
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@given(acyclic_edges())
def test_declared_order_is_kept_in_nodes_and_in_dependencies(edges: list[list[int]]) -> None:
    numbers = itertools.count()
    plan = build_plan(from_edges(edges), lambda: str(next(numbers)))
    assert [node.order for node in plan.nodes.values()] == list(range(len(edges)))
    for index, node in enumerate(plan.nodes.values()):
        assert [plan.nodes[other].order for other in node.dependencies] == edges[index]


@given(any_edges())
def test_any_graph_is_either_built_or_refused(edges: list[list[int]]) -> None:
    numbers = itertools.count()
    written = from_edges(edges)
    if check_graph(written.jobs):
        with pytest.raises(BadInput, match="cycle"):
            build_plan(written, lambda: str(next(numbers)))
    else:
        assert len(build_plan(written, lambda: str(next(numbers))).nodes) == len(edges)


def test_groups_and_the_groups_around_them_come_into_being_once() -> None:
    plan = build(job("x", group="a/b/c"), job("y", group="a/b"), job("z"))
    assert [(group.path, group.name) for group in plan.groups.values()] == [("a", "a"), ("a/b", "b"), ("a/b/c", "c")]
    paths = [plan.groups[group].path for group in plan.ancestry(plan.nodes["n1"].group)]
    assert paths == ["a/b/c", "a/b", "a"]
    assert list(plan.ancestry(plan.nodes["n3"].group)) == []


def test_a_node_is_found_by_id_and_by_producer_id_and_a_group_by_path() -> None:
    plan = build(job("x", group="a/b"))
    assert plan.find_node("n1") is plan.find_node("x") is plan.nodes["n1"]
    group = plan.find_group("a/b")
    assert group is not None
    assert plan.find_group(group.id) is group
    assert plan.find_node("y") is None
    assert plan.find_group("b") is None


def test_what_the_plan_says_arrives_unchanged() -> None:
    written = PlanSpec(
        name="p",
        jobs=(msgspec.structs.replace(job("a"), work=ProcessSpec(executable="ls"), env={"A": "1"}),),
        target_branch="feature/x",
        max_parallel=0,
        merge_strategy=Strategy.MERGE,
        inherit_env=("TOKEN",),
    )
    plan = build_plan(written, lambda: "n")
    assert (plan.name, plan.target_branch, plan.max_parallel) == ("p", "feature/x", 0)
    assert (plan.merge_strategy, plan.inherit_env) == (Strategy.MERGE, ("TOKEN",))
    assert plan.nodes["n"].work == ProcessSpec(executable="ls")
    assert plan.nodes["n"].env == {"A": "1"}


def test_a_node_that_runs_nothing_is_a_coordination_node() -> None:
    checks_only = msgspec.structs.replace(job("c", work=False), postchecks=ProcessSpec(executable="true"))
    plan = build(job("a"), job("b", work=False), checks_only)
    assert [node.is_coordination for node in plan.nodes.values()] == [False, True, False]


def test_a_plan_without_jobs_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        build_plan(spec(), lambda: "n")
    assert caught.value.field == "jobs"


def test_a_chain_of_ten_thousand_jobs_is_no_special_case() -> None:
    numbers = itertools.count()
    plan = build_plan(from_edges([[index - 1] if index else [] for index in range(10_000)]), lambda: str(next(numbers)))
    assert (plan.roots, plan.leaves) == (("0",), ("9999",))
