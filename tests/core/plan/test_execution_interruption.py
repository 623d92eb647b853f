"""A node whose plan is stopped, or that is canceled itself, in each of its phases."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.plan.execution import BAD, ENDED, GOOD, Execution, task, with_every_phase

from pilothouse.core.plan.events import (
    AttemptStarted,
)
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.contract import Ended, NotStarted
from pilothouse.core.run.inputs import CancelPart, Resume, Stop


@pytest.mark.parametrize(
    ("phase", "result", "resumed_in"),
    [
        (Phase.MERGE_FI, Ended(), None),
        (Phase.SETUP, Ended(), None),
        (Phase.SETUP, NotStarted(), None),
        (Phase.PRECHECKS, ENDED, Phase.PRECHECKS),
        (Phase.WORK, ENDED, None),
        (Phase.WORK, NotStarted(), None),
        (Phase.COMMIT, Ended(), Phase.COMMIT),
        (Phase.POSTCHECKS, ENDED, Phase.POSTCHECKS),
        (Phase.MERGE_RI, Ended(), Phase.MERGE_RI),
    ],
)
def test_an_interrupted_node_goes_on_where_that_is_safe_and_starts_anew_where_it_is_not(
    phase: Phase, result: msgspec.Struct, resumed_in: Phase | None
) -> None:
    run = with_every_phase()
    run.clean_up()
    run.until("end", phase)
    run.give(Stop())
    run.do("end", result)
    attempt = run.node("end").attempt
    assert (attempt.status, attempt.phases[phase].status) == (PhaseStatus.INTERRUPTED, PhaseStatus.INTERRUPTED)
    assert run.status("end") is NodeStatus.READY
    had_worktree = phase is not Phase.MERGE_FI
    assert run.owed == ([("end", 1, "save" if resumed_in else "save and remove")] if had_worktree else [])
    run.clean_up()
    assert run.lifecycle == "STOPPED"

    run.give(Resume())
    assert run.performing == {"end": resumed_in or Phase.MERGE_FI}
    again = run.node("end").attempt
    assert (again.number, again.trigger, again.resume_from) == (2, Trigger.RESUMED, resumed_in)
    assert again.worktree_path == f"/trees/run-1/end/{1 if resumed_in else 2}"
    run.finish("end")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


def test_work_that_was_finished_before_a_stop_is_done_and_what_follows_is_left_for_later() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.WORK)
    run.give(Stop())
    run.do("a", GOOD)
    attempt = run.node("a").attempt
    assert attempt.phases[Phase.WORK].status is PhaseStatus.SUCCEEDED
    assert run.node("a").resume_from is Phase.COMMIT
    run.clean_up()
    run.give(Resume())
    assert run.performing == {"a": Phase.COMMIT}
    assert run.all(AttemptStarted)[-1].worktree_path == attempt.worktree_path


def test_a_worktree_that_was_made_before_a_stop_is_made_again_afterwards() -> None:
    run = Execution(task("a"))
    run.give(Stop())
    run.do("a")
    assert run.owed == [("a", 1, "save")]
    assert run.node("a").resume_from is Phase.PRECHECKS


def test_a_node_that_is_through_has_succeeded_although_a_stop_came_first() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.MERGE_RI)
    run.give(Stop())
    run.do("a")
    assert run.status("a") is NodeStatus.SUCCEEDED
    assert run.lifecycle == "STOPPED"


def test_a_merge_that_waits_its_turn_is_interrupted_without_having_begun() -> None:
    run = Execution(task("a"), task("b"))
    run.until("a", Phase.MERGE_RI)
    run.until("b", Phase.COMMIT)
    run.do("b")
    assert list(run.state.merge_queue) == [run.node("b").node.id]
    run.give(Stop())
    assert run.status("b") is NodeStatus.READY and run.node("b").resume_from is Phase.MERGE_RI
    run.do("a")
    run.clean_up()
    assert run.lifecycle == "STOPPED"
    run.give(Resume())
    assert run.performing == {"b": Phase.MERGE_RI}


def test_a_failure_after_a_stop_is_still_a_failure() -> None:
    run = Execution(task("a"), task("b"))
    run.until("a", Phase.WORK)
    run.give(Stop())
    run.do("a", BAD)
    run.do("b", Ended())
    assert run.statuses == {"a": "failed", "b": "ready"}


@pytest.mark.parametrize("phase", [Phase.MERGE_FI, Phase.SETUP, Phase.PRECHECKS, Phase.WORK, Phase.COMMIT])
def test_a_canceled_node_is_not_wanted_any_more_and_ends_once_nothing_of_it_is_left(phase: Phase) -> None:
    run = with_every_phase()
    run.until("end", phase)
    run.give(CancelPart(scope="end"))
    assert run.performing == {}, "whoever performs it is to end it"
    assert run.effect("end").phase is phase, "and its end is waited for"
    run.do("end", ENDED if phase in (Phase.PRECHECKS, Phase.WORK) else Ended())
    assert run.status("end") is NodeStatus.CANCELED
    assert run.node("end").resume_from is None
    if phase is not Phase.MERGE_FI:
        assert ("end", 1, "save and remove") in run.owed


def test_a_node_that_is_canceled_between_two_phases_ends_there() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.WORK)
    run.give(CancelPart(scope="a"))
    run.do("a", GOOD)
    assert run.status("a") is NodeStatus.CANCELED
    assert Phase.COMMIT not in run.node("a").attempt.phases


def test_a_node_that_is_merged_when_its_cancel_is_heard_has_succeeded() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.MERGE_RI)
    run.give(CancelPart(scope="a"))
    run.do("a")
    assert run.status("a") is NodeStatus.SUCCEEDED


def test_a_merge_that_waits_its_turn_can_be_canceled() -> None:
    run = Execution(task("a"), task("b"))
    run.until("a", Phase.MERGE_RI)
    run.until("b", Phase.COMMIT)
    run.do("b")
    run.give(CancelPart(scope="b"))
    assert run.status("b") is NodeStatus.CANCELED
    assert list(run.state.merge_queue) == []
