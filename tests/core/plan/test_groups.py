from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plan.plans import build, job, plans

from pilothouse.core.plan.build import Plan
from pilothouse.core.plan.groups import GroupCounts, GroupStates, aggregate
from pilothouse.core.plan.states import MOVES, TERMINAL, NodeStatus, initial_status

PENDING, READY, SCHEDULED, RUNNING, SUCCEEDED, FAILED, BLOCKED, CANCELED = NodeStatus


def started(plan: Plan) -> dict[str, NodeStatus]:
    return {node.id: initial_status(is_root=node.is_root) for node in plan.nodes.values()}


def group(plan: Plan, path: str) -> str:
    found = plan.find_group(path)
    assert found is not None
    return found.id


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (GroupCounts(running=1, failed=1, blocked=1, succeeded=1, canceled=1, pending=1), RUNNING),
        (GroupCounts(failed=1, blocked=1, succeeded=1, canceled=1, pending=1), FAILED),
        (GroupCounts(blocked=1, succeeded=1, canceled=1, pending=1), BLOCKED),
        (GroupCounts(succeeded=2), SUCCEEDED),
        (GroupCounts(succeeded=1, canceled=1), CANCELED),
        (GroupCounts(succeeded=1, pending=1), PENDING),
        (GroupCounts(pending=1), PENDING),
        (GroupCounts(), PENDING),
    ],
)
def test_the_documents_order_of_precedence_decides(counts: GroupCounts, status: NodeStatus) -> None:
    assert aggregate(counts) is status


@given(plans(), st.data())
def test_groups_kept_up_to_date_equal_groups_counted_anew(plan: Plan, data: st.DataObject) -> None:
    statuses = started(plan)
    groups = GroupStates(plan, statuses)
    starts: dict[str, list[int]] = {name: [] for name in plan.groups}
    ends: dict[str, list[int]] = {name: [] for name in plan.groups}
    for _ in range(data.draw(st.integers(0, 30))):
        node = data.draw(st.sampled_from(sorted(plan.nodes)))
        old = statuses[node]
        if not MOVES[old]:
            continue
        new = data.draw(st.sampled_from(sorted(MOVES[old])))
        at = data.draw(st.integers(0, 1000))
        before = {name: state.status for name, state in groups.items()}
        statuses[node] = new
        changed = groups.move(node, old, new, at)
        assert set(changed) == {name for name, state in groups.items() if state.status is not before[name]}
        for name in plan.ancestry(plan.nodes[node].group):
            if new is RUNNING:
                starts[name].append(at)
            if new in TERMINAL:
                ends[name].append(at)
    counted = GroupStates(plan, statuses)
    for name, state in groups.items():
        assert (state.status, state.children, state.nodes) == (
            counted[name].status,
            counted[name].children,
            counted[name].nodes,
        )
        below = [statuses[node.id] for node in plan.nodes.values() if name in plan.ancestry(node.group)]
        assert state.nodes.total == len(below)
        assert state.complete == all(status in TERMINAL for status in below)
        assert state.started_at == min(starts[name], default=None)
        assert state.ended_at == (max(ends[name], default=None) if state.complete else None)


def test_a_child_group_counts_as_one() -> None:
    plan = build(job("x", group="a/b"), job("y", group="a/b"), job("z", group="a"))
    groups = GroupStates(plan, started(plan))
    assert groups[group(plan, "a")].children == GroupCounts(pending=2)
    assert groups[group(plan, "a")].nodes == GroupCounts(pending=3)


def test_a_change_goes_up_only_as_far_as_it_changes_something() -> None:
    plan = build(job("x", group="a/b"), job("y", group="a/b"), job("z", group="a"))
    groups = GroupStates(plan, started(plan))
    inner, outer = group(plan, "a/b"), group(plan, "a")
    assert groups.move("n1", READY, SCHEDULED, 1) == [inner, outer]
    assert groups.move("n1", SCHEDULED, RUNNING, 2) == []
    assert groups.move("n2", READY, SCHEDULED, 3) == []
    assert groups.move("n1", RUNNING, FAILED, 4) == []
    assert groups.move("n2", SCHEDULED, FAILED, 5) == [inner, outer]


def test_a_group_ends_when_its_last_node_does_and_opens_again_on_retry() -> None:
    plan = build(job("x", group="a"), job("y", group="a"))
    groups = GroupStates(plan, dict.fromkeys(plan.nodes, RUNNING))
    a = group(plan, "a")
    groups.move("n1", RUNNING, FAILED, 20)
    assert groups[a].ended_at is None
    groups.move("n2", RUNNING, SUCCEEDED, 10)
    assert (groups[a].status, groups[a].ended_at) == (FAILED, 20)
    groups.move("n1", FAILED, PENDING, 30)
    assert (groups[a].status, groups[a].ended_at) == (PENDING, None)


def test_parents_come_before_their_children() -> None:
    plan = build(job("x", group="a/b/c"))
    assert [plan.groups[name].path for name, _ in GroupStates(plan, started(plan)).items()] == ["a", "a/b", "a/b/c"]
