"""Trying again what failed or was canceled."""

from __future__ import annotations

import pytest
from tests.core.plan.execution import BAD, Execution, task

from pilothouse.core.plan.events import AttemptStarted, NodeRetried
from pilothouse.core.plan.integration import Conflict, NoEvidence
from pilothouse.core.plan.phases import Phase, Trigger
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.contract import Failed
from pilothouse.core.run.events import RunResumed
from pilothouse.core.run.inputs import Cancel, CancelPart, Pause, Retry, Stop
from pilothouse.errors import NotFound, Refused


def failed_diamond() -> Execution:
    """a failed; x and y depend on it, and end on both; b succeeded."""
    run = Execution(task("a"), task("x", "a"), task("y", "a"), task("end", "x", "y"), task("b"))
    run.finish("b")
    run.fail("a")
    run.clean_up()
    assert run.lifecycle == "PARTIAL"
    return run


def test_a_failed_node_runs_again_and_what_it_had_blocked_waits_again() -> None:
    run = failed_diamond()
    run.give(Retry(scopes=("a",)))
    assert run.statuses == {"a": "running", "x": "pending", "y": "pending", "end": "pending", "b": "succeeded"}
    assert run.moves("a")[-4:] == [NodeStatus.PENDING, NodeStatus.READY, NodeStatus.SCHEDULED, NodeStatus.RUNNING]
    run.finish("a", "x", "y", "end")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


def test_a_retry_of_a_plan_that_had_ended_opens_its_next_leg() -> None:
    run = failed_diamond()
    run.give(Retry())
    (resumed,) = run.all(RunResumed)
    assert (resumed.leg, resumed.reason, run.lifecycle) == (2, "retry", "RUNNING")


def test_a_node_can_be_retried_while_the_rest_goes_on() -> None:
    run = Execution(task("a"), task("b"))
    run.fail("a")
    run.give(Retry(scopes=("a",)))
    assert run.all(RunResumed) == []
    assert set(run.performing) == {"a", "b"}


def test_every_attempt_is_kept_and_says_why_it_was_made() -> None:
    run = Execution(task("a"))
    run.fail("a")
    run.give(Retry())
    run.do("a", BAD)
    run.give(Retry(fresh=True))
    assert [(a.number, a.trigger) for a in run.node("a").attempts] == [
        (1, Trigger.INITIAL),
        (2, Trigger.RETRY),
        (3, Trigger.RETRY),
    ]
    assert [a.error for a in run.node("a").attempts] == ["Exit code 7", "Exit code 7", ""]


@pytest.mark.parametrize(
    ("failed", "begins"),
    [
        (Phase.MERGE_FI, None),
        (Phase.SETUP, None),
        (Phase.PRECHECKS, Phase.PRECHECKS),
        (Phase.WORK, Phase.WORK),
        (Phase.COMMIT, Phase.WORK),
        (Phase.POSTCHECKS, Phase.POSTCHECKS),
        (Phase.MERGE_RI, Phase.MERGE_RI),
    ],
)
def test_a_retry_begins_with_what_failed_in_the_worktree_as_it_was_left(failed: Phase, begins: Phase | None) -> None:
    run = Execution(task("a"), task("b"), task("end", "a", "b", checks=True))
    run.finish("a", "b")
    run.until("end", failed)
    result = {
        Phase.MERGE_FI: Conflict(files=("x",)),
        Phase.SETUP: Failed(error="full"),
        Phase.COMMIT: NoEvidence(),
        Phase.MERGE_RI: Conflict(files=("x",)),
    }.get(failed, BAD)
    run.do("end", result)
    run.give(Retry(scopes=("end",)))
    attempt = run.node("end").attempt
    assert run.performing == {"end": begins or Phase.MERGE_FI}
    assert (attempt.resume_from, attempt.worktree_path) == (begins, f"/trees/run-1/end/{1 if begins else 2}")
    if begins:
        assert attempt.worktree_exists and not run.node("end").attempts[0].worktree_exists
        assert attempt.base_commit == "end-base"
    run.finish("end")
    assert run.status("end") is NodeStatus.SUCCEEDED


def test_a_retry_from_the_merge_hands_on_the_commit_of_the_attempt_before() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.MERGE_RI)
    run.do("a", Conflict(files=("x",)))
    run.give(Retry())
    run.finish("a")
    assert run.node("a").completed_commit == "a-commit-1"


def test_a_fresh_retry_begins_anew_in_another_worktree() -> None:
    run = Execution(task("a", checks=True))
    run.until("a", Phase.POSTCHECKS)
    run.do("a", BAD)
    run.give(Retry(scopes=("a",), fresh=True))
    assert run.performing == {"a": Phase.SETUP}
    started = run.all(AttemptStarted)[-1]
    assert (started.resume_from, started.worktree_path) == (None, "/trees/run-1/a/2")
    assert run.all(NodeRetried)[-1].fresh


def test_without_names_every_failed_node_is_retried_but_no_canceled_one() -> None:
    run = Execution(task("a"), task("b"), task("c"))
    run.fail("a")
    run.fail("b")
    run.give(CancelPart(scope="c"))
    run.end_dispatched()
    run.clean_up()
    run.give(Retry())
    assert run.statuses == {"a": "running", "b": "running", "c": "canceled"}


def test_a_canceled_node_can_be_retried_by_name_and_begins_anew() -> None:
    run = Execution(task("a"), task("b"))
    run.until("a", Phase.COMMIT)
    run.give(CancelPart(scope="a"))
    run.do("a")
    run.clean_up()
    run.give(Retry(scopes=("a",)))
    assert run.performing["a"] is Phase.SETUP
    assert run.node("a").attempt.worktree_path == "/trees/run-1/a/2"
    assert not run.node("a").canceling


def test_a_canceled_node_that_never_ran_can_be_retried() -> None:
    run = Execution(task("a"), task("b", "a"), task("c", "b"))
    run.give(CancelPart(scope="b"))
    run.give(Retry(scopes=("b",)))
    assert run.statuses == {"a": "scheduled", "b": "pending", "c": "pending"}
    run.finish("a", "b", "c")
    assert run.node("b").attempts[0].number == 1


def test_a_group_names_its_nodes_of_which_those_that_can_are_retried() -> None:
    run = Execution(task("a", group="g"), task("b", group="g/deep"), task("c", group="g"))
    run.fail("a")
    run.fail("b")
    run.finish("c")
    run.clean_up()
    run.give(Retry(scopes=("g",)))
    assert run.statuses == {"a": "running", "b": "running", "c": "succeeded"}


def test_what_something_else_still_blocks_stays_blocked() -> None:
    run = Execution(task("a"), task("b"), task("end", "a", "b"), task("only-a", "a"), task("last", "end"))
    run.fail("a")
    run.fail("b")
    run.give(Retry(scopes=("a",)))
    assert run.statuses == {"a": "running", "b": "failed", "end": "blocked", "only-a": "pending", "last": "blocked"}
    run.finish("a", "only-a")
    assert run.status("end") is NodeStatus.BLOCKED
    run.give(Retry(scopes=("b",)))
    assert run.statuses["end"] == "pending" and run.statuses["last"] == "pending"
    run.finish("b", "end", "last")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


def test_a_retry_of_two_that_block_the_same_node_unblocks_it() -> None:
    run = Execution(task("a"), task("b"), task("end", "a", "b"))
    run.fail("a")
    run.fail("b")
    run.give(Retry())
    assert run.statuses == {"a": "running", "b": "running", "end": "pending"}


def test_a_node_whose_dependency_failed_too_is_retried_only_together_with_it() -> None:
    run = Execution(task("a"), task("b", "a"), task("c"))
    run.give(CancelPart(scope="b"))
    run.fail("a")
    with pytest.raises(Refused, match="b depends on a; retry that first"):
        run.give(Retry(scopes=("b",)))
    run.give(Retry(scopes=("b", "a")))
    assert run.statuses == {"a": "running", "b": "pending", "c": "scheduled"}


def test_a_node_that_waits_is_blocked_again_when_the_retry_fails() -> None:
    run = failed_diamond()
    run.give(Retry())
    run.do("a", BAD)
    assert run.statuses == {"a": "failed", "x": "blocked", "y": "blocked", "end": "blocked", "b": "succeeded"}
    assert run.lifecycle == "PARTIAL"


def test_what_cannot_be_retried_is_refused_with_the_reason() -> None:
    run = Execution(task("a"), task("b", "a"), task("c"), task("d"), max_parallel=0)
    with pytest.raises(Refused, match="No failed nodes to retry"):
        run.give(Retry())
    run.finish("c")
    run.fail("a")
    before = list(run.log)
    for name, status in (("c", "succeeded"), ("b", "blocked"), ("d", "scheduled")):
        with pytest.raises(Refused, match=f"{name} is {status}; only failed and canceled nodes can be retried"):
            run.give(Retry(scopes=(name,)))
    with pytest.raises(NotFound, match="no node or group 'zz'"):
        run.give(Retry(scopes=("a", "zz")))
    assert run.log == before, "nothing is half done"


@pytest.mark.parametrize("verb", [Pause(), Stop(), Cancel()])
def test_only_a_plan_that_runs_or_has_failed_takes_a_retry(verb: Pause | Stop | Cancel) -> None:
    run = Execution(task("a"), task("b"))
    run.fail("a")
    run.give(verb)
    with pytest.raises(Refused, match="only a running, failed or partial plan can be retried"):
        run.give(Retry(scopes=("a",)))
