"""Canceling and discarding a plan, and canceling a part of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.plan.execution import ENDED, Execution, task, waiting_for_a_review

from pilothouse.core.plan.events import WorktreeAbandoned
from pilothouse.core.plan.phases import Phase, PhaseStatus
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.core.run.events import (
    RunCanceled,
    Stopped,
)
from pilothouse.core.run.inputs import (
    Cancel,
    CancelPart,
    Pause,
    Resume,
    Retry,
    Settle,
    Start,
    Stop,
)
from pilothouse.errors import NotFound, Refused


def test_a_canceled_plan_ends_its_idle_nodes_at_once_and_the_others_with_their_work() -> None:
    run = Execution(task("a"), task("b", "a"), task("c"), max_parallel=1)
    run.until("a", Phase.WORK)
    run.give(Cancel())
    assert run.statuses == {"a": "running", "b": "canceled", "c": "canceled"}
    run.do("a", ENDED)
    assert run.statuses == {"a": "canceled", "b": "canceled", "c": "canceled"}
    assert run.lifecycle == "CANCELED"
    assert run.owed == [("a", 1, "save and remove")], "its edits are saved all the same"


def test_a_cancel_while_it_stops_makes_the_stop_final() -> None:
    run = Execution(task("a"))
    run.give(Stop())
    run.give(Cancel())
    assert run.give(Cancel()) == []
    run.end_dispatched()
    assert run.lifecycle == "CANCELED" and run.all(Stopped) == []


def test_a_cancel_before_the_start_is_done_at_once() -> None:
    run = Execution(task("a"), start_paused=True)
    run.give(Cancel())
    assert (run.lifecycle, run.statuses) == ("CANCELED", {"a": "canceled"})


def stopped() -> Execution:
    run = Execution(task("a"), task("b"), task("c", "a"))
    run.until("a", Phase.COMMIT)
    run.until("b", Phase.WORK)
    run.give(Stop())
    run.end_dispatched()
    return run


def failed() -> Execution:
    run = Execution(task("a"), task("b", "a"))
    run.fail("a")
    return run


def partial() -> Execution:
    run = Execution(task("a"), task("b"), task("c", "a"))
    run.finish("b")
    run.fail("a")
    run.clean_up()
    return run


@pytest.mark.parametrize(
    ("make", "was", "left"),
    [
        (stopped, "STOPPED", {"a": "canceled", "b": "canceled", "c": "canceled"}),
        (failed, "FAILED", {"a": "failed", "b": "blocked"}),
        (partial, "PARTIAL", {"a": "failed", "b": "succeeded", "c": "blocked"}),
    ],
)
def test_a_discarded_plan_is_canceled_at_once_and_cleans_up(
    make: Callable[[], Execution], was: str, left: dict[str, str]
) -> None:
    run = make()
    assert run.lifecycle == was
    run.give(Cancel(reason="discarded"))
    assert (run.lifecycle, run.statuses) == ("CANCELED", left)
    assert run.all(RunCanceled)[-1].reason == "discarded"
    run.clean_up()  # what was being saved when it came
    run.clean_up()  # and what is removed now that it is over for good
    assert run.owed == []
    assert not any(a.worktree_exists for node in run.state.nodes.values() for a in node.attempts)
    assert run.give(Settle()) == [] and run.give(Cancel()) == []


def test_a_worktree_that_could_not_be_saved_is_kept_and_tried_once_more_when_all_is_over() -> None:
    run = stopped()
    run.clean_up(Failed(error="disk full"))
    assert run.lifecycle == "STOPPED" and run.owed == []
    run.give(Cancel())
    assert run.owed == [("a", 1, "save and remove"), ("b", 1, "save and remove")]
    run.clean_up(Failed(error="disk full"))
    assert run.owed == [] and len(run.all(WorktreeAbandoned)) == 2
    assert all(run.node(name).attempt.worktree_exists for name in ("a", "b")), "never removed unsaved"


def test_a_rescue_that_was_broken_off_leaves_the_worktree() -> None:
    run = stopped()
    run.clean_up(Ended())
    assert run.node("b").attempt.worktree_exists


def test_a_plan_that_has_succeeded_cannot_be_canceled_and_nothing_that_has_ended_be_resumed() -> None:
    run = Execution(task("a"))
    run.finish("a")
    run.clean_up()
    with pytest.raises(Refused, match="succeeded already"):
        run.give(Cancel())
    with pytest.raises(Refused, match="only a paused or stopped run can be resumed"):
        run.give(Resume())
    with pytest.raises(Refused, match="only a running run can be paused"):
        run.give(Pause())
    with pytest.raises(Refused, match="retry tries again what failed"):
        failed().give(Resume())
    assert failed().give(Stop()) == []


def test_a_canceled_plan_is_final() -> None:
    run = stopped()
    run.give(Cancel())
    run.clean_up()
    for verb in (Resume(), Pause(), Retry(), Start()):
        with pytest.raises(Refused):
            run.give(verb)
    assert run.give(Stop()) == []


# Canceling a part


def test_a_group_is_canceled_with_all_below_it_and_nothing_beside_it() -> None:
    run = Execution(
        task("a", group="g"),
        task("b", "a", group="g/deep"),
        task("c", group="g2"),
        task("below", "b"),
        task("d"),
        task("done", group="g"),
    )
    run.finish("done")
    run.until("a", Phase.WORK)
    run.give(CancelPart(scope="g"))
    assert run.statuses["b"] == "canceled" and run.statuses["below"] == "blocked"
    assert run.status("a") is NodeStatus.RUNNING
    run.do("a", ENDED)
    assert run.statuses == {
        "a": "canceled",
        "b": "canceled",
        "c": "scheduled",
        "below": "blocked",
        "d": "scheduled",
        "done": "succeeded",
    }


def test_a_part_that_is_being_canceled_is_canceled_once() -> None:
    run = Execution(task("a"))
    run.give(CancelPart(scope="a"))
    assert run.give(CancelPart(scope="a")) == []


def test_a_node_that_waits_is_canceled_at_once_and_its_question_with_it() -> None:
    run = waiting_for_a_review()
    run.give(CancelPart(scope="a"))
    assert run.statuses == {"a": "canceled", "b": "blocked"}
    assert run.state.common.waits == {}
    assert run.owed == [("a", 1, "save and remove")]
    assert run.node("a").attempt.status is PhaseStatus.INTERRUPTED


def test_a_canceled_plan_ends_its_questions_too() -> None:
    run = waiting_for_a_review()
    run.give(Cancel())
    assert (run.lifecycle, run.statuses) == ("CANCELED", {"a": "canceled", "b": "canceled"})
    assert run.state.common.waits == {}


def test_a_part_that_cannot_be_canceled_is_refused() -> None:
    run = Execution(task("a", group="g"), task("b"))
    with pytest.raises(NotFound, match="no node or group 'zz'"):
        run.give(CancelPart(scope="zz"))
    run.finish("a")
    node = run.node("a").node
    for scope, called in (("a", "a"), (node.id, "a"), ("g", "g"), (node.group, "g")):
        with pytest.raises(Refused, match=rf"^{called} has ended already"):
            run.give(CancelPart(scope=scope or ""))
    run.give(Stop())
    run.end_dispatched()
    with pytest.raises(Refused, match="cancel the plan as a whole"):
        run.give(CancelPart(scope="b"))
