from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plan.plans import build, job, plans

from pilothouse.core.plan.build import Node, Plan
from pilothouse.core.plan.ready import ReadyQueue, free_slots, select


def names(plan: Plan, ids: list[str]) -> list[str]:
    return [plan.nodes[node].producer_id for node in ids]


def test_what_unlocks_most_starts_first_then_retries_then_declared_order() -> None:
    plan = build(job("late"), job("again"), job("early"), job("hub"), job("x", "hub"), job("y", "hub"))
    queue = ReadyQueue()
    for node in plan.roots:
        queue.add(plan.nodes[node], retry=node == "n2")
    assert names(plan, queue.first(4)) == ["hub", "again", "late", "early"]
    assert names(plan, queue.first(2)) == ["hub", "again"]


def test_only_direct_dependents_count() -> None:
    plan = build(job("chain"), job("c1", "chain"), job("c2", "c1"), job("fan"), job("f1", "fan"), job("f2", "fan"))
    assert names(plan, [node.id for node in select([plan.nodes[root] for root in plan.roots], 2)]) == ["fan", "chain"]


def test_coordination_nodes_take_no_slot() -> None:
    plan = build(job("a"), job("join", work=False), job("b"))
    queue = ReadyQueue()
    for node in plan.nodes.values():
        queue.add(node)
    assert names(plan, queue.first(0)) == ["join"]
    assert names(plan, queue.first(1)) == ["join", "a"]
    assert len(queue) == 3
    assert queue.working == 2


def test_asking_removes_nothing_and_discarding_does() -> None:
    plan = build(job("a"), job("b"))
    queue = ReadyQueue()
    queue.add(plan.nodes["n1"])
    queue.add(plan.nodes["n2"])
    assert queue.first(9) == queue.first(9) == ["n1", "n2"]
    queue.discard("n1")
    queue.discard("n1")
    assert queue.first(9) == ["n2"]
    assert "n1" not in queue
    assert "n2" in queue


def test_a_node_that_is_added_again_is_ranked_anew() -> None:
    plan = build(job("a"), job("b"))
    queue = ReadyQueue()
    queue.add(plan.nodes["n1"])
    queue.add(plan.nodes["n2"])
    queue.add(plan.nodes["n2"], retry=True)
    assert queue.first(9) == ["n2", "n1"]
    assert len(queue) == 2


@given(plans(), st.data())
def test_the_queue_always_answers_what_sorting_would(plan: Plan, data: st.DataObject) -> None:
    nodes = {
        node.id: msgspec.structs.replace(node, work=None if data.draw(st.booleans()) else node.work)
        for node in plan.nodes.values()
    }
    queue = ReadyQueue()
    ready: dict[str, Node] = {}
    retries: set[str] = set()
    for _ in range(data.draw(st.integers(0, 60))):
        node = data.draw(st.sampled_from(sorted(nodes)))
        match data.draw(st.sampled_from(["add", "retry", "discard", "first"])):
            case "discard":
                ready.pop(node, None)
                queue.discard(node)
            case "first":
                slots = data.draw(st.integers(0, 5))
                expected = select(ready.values(), slots, frozenset(retries))
                assert queue.first(slots) == [found.id for found in expected]
            case again:
                ready[node] = nodes[node]
                retries.discard(node)
                if again == "retry":
                    retries.add(node)
                queue.add(nodes[node], retry=again == "retry")
        assert len(queue) == len(ready)
        assert all((name in queue) == (name in ready) for name in nodes)


@pytest.mark.parametrize(
    ("max_parallel", "running", "global_max", "global_running", "free"),
    [
        (4, 1, 16, 1, 3),
        (4, 1, 16, 14, 2),
        (4, 4, 16, 4, 0),
        (4, 6, 16, 6, 0),
        (0, 10, 16, 10, 6),
        (0, 16, 16, 20, 0),
    ],
)
def test_free_slots_are_the_least_of_both_limits(
    max_parallel: int, running: int, global_max: int, global_running: int, free: int
) -> None:
    assert free_slots(max_parallel, running, global_max, global_running) == free
