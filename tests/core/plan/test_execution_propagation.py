"""What the end of one node means for the others and for the plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plan.execution import BAD, Execution, task
from tests.core.plan.plans import acyclic_edges

from pilothouse.core.plan.events import NodeMoved
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import JobSpec
from pilothouse.core.plan.states import TERMINAL, NodeStatus
from pilothouse.core.run.events import RunCanceled, RunFailed, RunFinished
from pilothouse.core.run.inputs import CancelPart


def test_a_node_becomes_ready_with_the_last_of_its_dependencies_and_not_before() -> None:
    run = Execution(task("a"), task("b"), task("end", "a", "b"))
    run.finish("a")
    assert run.status("end") is NodeStatus.PENDING
    run.finish("b")
    assert run.moves("end")[:2] == [NodeStatus.READY, NodeStatus.SCHEDULED]


def test_every_dependent_of_a_success_becomes_ready_at_once() -> None:
    run = Execution(task("a"), task("x", "a"), task("y", "a"), max_parallel=1)
    run.finish("a")
    assert {str(run.status("x")), str(run.status("y"))} == {"scheduled", "ready"}


def test_a_failure_blocks_all_that_depends_on_it_near_ones_first_and_says_why() -> None:
    run = Execution(task("a"), task("x", "a"), task("y", "a"), task("xx", "x"), task("end", "xx", "y"))
    run.fail("a")
    assert run.statuses == {"a": "failed", "x": "blocked", "y": "blocked", "xx": "blocked", "end": "blocked"}
    blocked = [run.state.nodes[e.node_id].node.producer_id for e in run.all(NodeMoved) if e.new is NodeStatus.BLOCKED]
    assert blocked[:2] == ["x", "y"] and set(blocked[2:]) == {"xx", "end"}
    assert run.node("x").error == "Blocked: dependency 'a' failed"
    assert run.node("xx").error == "Blocked: dependency 'x' is blocked"


def test_nodes_that_do_not_depend_on_a_failure_go_on() -> None:
    run = Execution(task("a"), task("below", "a"), task("b"), task("c", "b"))
    run.fail("a")
    assert "b" in run.performing
    run.finish("b", "c")
    assert run.statuses == {"a": "failed", "below": "blocked", "b": "succeeded", "c": "succeeded"}


def test_a_node_that_is_blocked_already_is_not_blocked_again() -> None:
    run = Execution(task("a"), task("b"), task("end", "a", "b"))
    run.fail("a")
    run.fail("b")
    assert run.moves("end") == [NodeStatus.BLOCKED]
    assert run.node("end").error == "Blocked: dependency 'a' failed"


def test_a_cancel_blocks_what_depends_on_the_node() -> None:
    run = Execution(task("a"), task("x", "a"), task("y", "x"), max_parallel=1)
    run.give(CancelPart(scope="x"))
    assert run.statuses == {"a": "scheduled", "x": "canceled", "y": "blocked"}
    assert run.node("y").error == "Blocked: dependency 'x' was canceled"


def test_a_blocked_node_stays_so_when_its_other_dependencies_succeed() -> None:
    run = Execution(task("a"), task("b"), task("end", "a", "b"))
    run.fail("a")
    run.finish("b")
    assert run.status("end") is NodeStatus.BLOCKED


@given(acyclic_edges(12), st.data())
def test_whatever_fails_only_what_lies_below_it_is_blocked(edges: list[list[int]], data: st.DataObject) -> None:
    jobs: list[JobSpec] = [task(f"j{i}", *(f"j{target}" for target in targets)) for i, targets in enumerate(edges)]
    run = Execution(*jobs, max_parallel=0)
    victims = data.draw(st.sets(st.sampled_from([job.producer_id for job in jobs]), max_size=3))
    while run.performing:
        name = data.draw(st.sampled_from(sorted(run.performing)))
        run.do(name, BAD if name in victims and run.performing[name] is Phase.WORK else None)
    below: set[str] = set()
    while True:  # what is blocked, counted in the simplest way
        more = {job.producer_id for job in jobs if set(job.dependencies) & (below | victims)} - below
        if not more:
            break
        below |= more
    expected = {
        job.producer_id: "blocked"
        if job.producer_id in below
        else "failed"
        if job.producer_id in victims
        else "succeeded"
        for job in jobs
    }
    assert run.statuses == expected
    run.clean_up()
    succeeded = list(expected.values()).count("succeeded")
    assert run.lifecycle == ("SUCCEEDED" if succeeded == len(jobs) else "PARTIAL" if succeeded else "FAILED")


# How a plan ends


def test_a_plan_has_succeeded_when_all_its_nodes_have() -> None:
    run = Execution(task("a"), task("b", "a"))
    run.finish("a", "b")
    run.clean_up()
    (end,) = run.all(RunFinished)
    assert run.log[-1] is end and run.lifecycle == "SUCCEEDED"
    assert end.summary == {
        "counts": {"succeeded": 2},
        "targetBranch": "result",
        "targetCommit": "target+b",
        "note": "",
    }


def test_a_plan_some_of_whose_nodes_succeeded_is_partial() -> None:
    run = Execution(task("a"), task("b"), task("below", "b"))
    run.finish("a")
    run.fail("b")
    run.clean_up()
    (end,) = run.all(RunFinished)
    assert (end.status, run.lifecycle) == ("PARTIAL", "PARTIAL")
    assert end.summary["counts"] == {"succeeded": 1, "failed": 1, "blocked": 1}


@pytest.mark.parametrize(
    ("failing", "error"),
    [(["a"], "a: Exit code 7"), (["a", "b"], "a: Exit code 7 (and 1 more)")],
)
def test_a_plan_none_of_whose_nodes_succeeded_has_failed_and_names_the_first(failing: list[str], error: str) -> None:
    run = Execution(task("a"), task("b"), task("c", "a"))
    for name in failing:
        run.fail(name)
    if "b" not in failing:
        run.give(CancelPart(scope="b"))
        run.end_dispatched()
        run.clean_up()
    (end,) = run.all(RunFailed)
    assert (end.error, end.recoverable, run.lifecycle) == (error, True, "FAILED")


def test_a_plan_all_of_whose_nodes_were_canceled_is_canceled() -> None:
    run = Execution(task("a"), task("below", "a"))
    run.give(CancelPart(scope="a"))
    run.end_dispatched()
    run.clean_up()
    (end,) = run.all(RunCanceled)
    assert (end.reason, run.lifecycle) == ("every node was canceled", "CANCELED")
    assert end.summary["counts"] == {"canceled": 1, "blocked": 1}


def test_a_plan_is_not_over_while_one_of_its_nodes_can_move() -> None:
    run = Execution(task("a"), task("b"))
    run.fail("a")
    run.clean_up()
    assert run.lifecycle == "RUNNING"
    run.finish("b")
    assert run.lifecycle == "RUNNING", "the worktree is still to be removed"
    run.clean_up()
    assert run.lifecycle == "PARTIAL"
    assert {node.status for node in run.state.nodes.values()} <= TERMINAL
