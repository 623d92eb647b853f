"""A new owner: what is adopted, what was never started, what is lost; and what a person says of the lost."""

from __future__ import annotations

import pytest
from tests.core.plan.execution import (
    ENDED,
    FIRST_LIFE,
    GOOD,
    LOST,
    SECOND_LIFE,
    Execution,
    task,
)

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.events import PhaseStarted
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.recover import LOST_OFTEN
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.events import RunRecovered, WaitClosed
from pilothouse.core.run.inputs import Answer, Cancel, CancelPart, Resume, Stop
from pilothouse.core.run.waits import WaitKind
from pilothouse.errors import BadInput, NotFound, Refused


def at(phase: Phase, *, rerun: bool = False) -> Execution:
    run = Execution(task("a"), task("b"), task("end", "a", "b", checks=True, rerun=rerun))
    run.finish("a", "b")
    run.clean_up()
    run.until("end", phase)
    return run


def reviewed(*others: str) -> Execution:
    """Node a was lost in its work and a person is asked; ``others`` wait for a slot."""
    run = Execution(task("a"), *(task(name) for name in others), max_parallel=1)
    run.until("a", Phase.WORK)
    run.restart(instance=SECOND_LIFE)
    return run


def sorted_as(run: Execution) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    (recovered,) = run.all(RunRecovered)
    return recovered.epoch, recovered.adopted, recovered.lost


@pytest.mark.parametrize("phase", [Phase.MERGE_FI, Phase.SETUP, Phase.COMMIT, Phase.MERGE_RI])
def test_a_phase_of_git_is_simply_performed_again(phase: Phase) -> None:
    run = at(phase)
    before = run.effect("end")
    run.restart(instance=SECOND_LIFE)
    assert run.effect("end") == before, "under its own key, so that it finds out what has been done"
    assert sorted_as(run) == (2, (), ())
    run.finish("end")
    assert run.status("end") is NodeStatus.SUCCEEDED


@pytest.mark.parametrize("phase", [Phase.PRECHECKS, Phase.WORK, Phase.POSTCHECKS])
@pytest.mark.parametrize("instance", [FIRST_LIFE, SECOND_LIFE])
def test_a_command_the_executor_knows_is_followed_and_never_started_again(phase: Phase, instance: str) -> None:
    run = at(phase)
    key = run.effect("end").key
    run.restart("end", instance=instance)
    effect = run.effect("end")
    assert isinstance(effect, RunWork) and effect.adopted and effect.key == key
    assert sorted_as(run) == (2, (key,), ())
    run.finish("end")
    assert run.status("end") is NodeStatus.SUCCEEDED


@pytest.mark.parametrize("phase", [Phase.PRECHECKS, Phase.WORK, Phase.POSTCHECKS])
def test_a_command_that_the_same_life_of_the_executor_does_not_know_was_never_started(phase: Phase) -> None:
    run = at(phase)
    before = run.effect("end")
    run.restart(instance=FIRST_LIFE)
    assert run.effect("end") == before and isinstance(before, RunWork) and not before.adopted
    assert sorted_as(run) == (2, (), ())


@pytest.mark.parametrize("phase", [Phase.PRECHECKS, Phase.POSTCHECKS])
def test_checks_that_were_lost_run_again_in_the_same_attempt_under_another_key(phase: Phase) -> None:
    run = at(phase)
    key = run.effect("end").key
    run.restart(instance=SECOND_LIFE)
    assert sorted_as(run) == (2, (), (key,))
    assert run.performing == {"end": phase}
    assert run.effect("end").key == f"{key}.2"
    assert run.node("end").attempt.phases[phase].tries == 2
    run.do("end", LOST)
    assert run.effect("end").key == f"{key}.3"
    run.finish("end")
    assert len(run.node("end").attempts) == 1 and run.status("end") is NodeStatus.SUCCEEDED


def test_work_that_may_rerun_does_so_in_a_clean_worktree_after_its_edits_were_saved() -> None:
    run = at(Phase.WORK, rerun=True)
    run.restart(instance=SECOND_LIFE)
    assert run.node("end").attempt.status is PhaseStatus.UNKNOWN
    assert run.performing == {} and run.owed == [("end", 1, "save and remove")]
    run.clean_up()
    attempt = run.node("end").attempt
    assert (attempt.number, attempt.trigger, attempt.worktree_path) == (2, Trigger.RERUN, "/trees/run-1/end/2")
    assert run.performing == {"end": Phase.MERGE_FI}
    assert run.node("end").attempts[0].rescue_ref == f"refs/pilothouse/rescue/run-1/{run.node('end').node.id}/1"


def test_work_of_unknown_outcome_waits_for_a_person_and_holds_no_slot() -> None:
    run = reviewed("b")
    (wait,) = run.state.common.waits.values()
    assert (wait.kind, wait.scope, wait.options) == (
        WaitKind.REVIEW,
        run.node("a").node.id,
        ("rerun", "accept", "fail"),
    )
    assert wait.detail == {"phase": "work", "node": "a", "attempt": 1, "worktreePath": "/trees/run-1/a/1"}
    assert "/" not in wait.id
    assert run.node("a").attempt.phases[Phase.WORK].status is PhaseStatus.UNKNOWN
    assert run.status("a") is NodeStatus.RUNNING
    assert run.performing == {"b": Phase.SETUP}, "its slot is free for others"
    assert run.lifecycle == "RUNNING"


def test_a_run_without_anything_in_flight_is_recovered_too() -> None:
    run = Execution(task("a"), start_paused=True)
    run.restart(instance=SECOND_LIFE)
    assert sorted_as(run) == (2, (), ()) and run.lifecycle == "CREATED"


def test_an_open_target_is_opened_again() -> None:
    run = Execution(task("a"), target=False)
    run.restart(instance=SECOND_LIFE)
    run.open_target()
    assert run.performing == {"a": Phase.SETUP}


def test_an_adopted_command_may_still_turn_out_lost() -> None:
    run = at(Phase.WORK)
    run.restart("end", instance=SECOND_LIFE)
    run.do("end", LOST)
    assert run.node("end").wait_id == run.wait


def test_an_end_that_nobody_asked_for_is_as_good_as_lost() -> None:
    run = at(Phase.WORK)
    run.do("end", ENDED)
    assert run.node("end").wait_id == run.wait


@pytest.mark.parametrize(
    ("phase", "resumed_in"),
    [(Phase.PRECHECKS, Phase.PRECHECKS), (Phase.WORK, None), (Phase.POSTCHECKS, Phase.POSTCHECKS)],
)
@pytest.mark.parametrize("told", ["by the recovery", "by its outcome"])
def test_a_command_lost_while_the_plan_stops_was_to_end_and_has(
    phase: Phase, resumed_in: Phase | None, told: str
) -> None:
    run = at(phase)
    run.give(Stop())
    if told == "by its outcome":
        run.do("end", LOST)
    else:
        run.restart(instance=SECOND_LIFE)
    assert run.lifecycle == "STOPPED" and run.state.common.waits == {}
    assert run.node("end").attempt.phases[phase].status is PhaseStatus.INTERRUPTED
    run.clean_up()
    run.give(Resume())
    assert run.performing == {"end": resumed_in or Phase.MERGE_FI}


def test_a_command_lost_while_its_node_is_canceled_was_to_end_and_has() -> None:
    run = at(Phase.WORK)
    run.give(CancelPart(scope="end"))
    run.restart(instance=SECOND_LIFE)
    assert run.status("end") is NodeStatus.CANCELED


# What a person answers


def test_who_lets_it_rerun_gets_another_attempt_in_a_clean_worktree() -> None:
    run = reviewed()
    run.give(Answer(wait_id=run.wait, answer="rerun", by="ann"))
    assert run.state.common.waits == {} and run.owed == [("a", 1, "save and remove")]
    run.clean_up()
    attempt = run.node("a").attempt
    assert (attempt.number, attempt.trigger, attempt.resume_from) == (2, Trigger.RERUN, None)
    (closed,) = run.all(WaitClosed)
    assert (closed.answer, closed.by) == ("rerun", "ann")


def test_who_accepts_what_is_there_lets_it_go_on_behind_the_work() -> None:
    run = reviewed()
    run.give(Answer(wait_id=run.wait, answer="accept", by="ann"))
    work = run.node("a").attempt.phases[Phase.WORK]
    assert (work.status, work.note) == (PhaseStatus.SUCCEEDED, "accepted by ann")
    assert run.owed == [("a", 1, "save")], "its worktree stays"
    run.clean_up()
    assert run.performing == {"a": Phase.COMMIT}
    assert run.node("a").attempt.worktree_path == "/trees/run-1/a/1"
    started = [event.phase for event in run.all(PhaseStarted)]
    assert started.count(Phase.WORK) == 1, "accepted work does not run again"
    run.finish("a")
    assert run.node("a").completed_commit == "a-commit-2"


def test_who_calls_it_failed_fails_it() -> None:
    run = reviewed("b")
    run.finish("b")
    run.give(Answer(wait_id=run.wait, answer="fail", by="ann"))
    assert run.status("a") is NodeStatus.FAILED
    assert run.node("a").error == "Interrupted, and declared failed by ann"
    run.clean_up()
    assert run.lifecycle == "PARTIAL"
    assert run.node("a").resume_from is Phase.WORK


def test_what_goes_on_after_an_answer_waits_for_a_slot_like_any_other() -> None:
    run = reviewed("b")
    run.give(Answer(wait_id=run.wait, answer="accept", by="ann"))
    run.clean_up()
    assert run.performing == {"b": Phase.SETUP} and run.status("a") is NodeStatus.READY
    run.finish("b")
    run.clean_up()
    assert run.performing == {"a": Phase.COMMIT}


def test_an_answer_that_is_none_is_refused_with_those_there_are() -> None:
    run = reviewed()
    with pytest.raises(BadInput, match="'maybe' is no answer") as caught:
        run.give(Answer(wait_id=run.wait, answer="maybe", by="ann"))
    assert (caught.value.field, caught.value.fix) == ("answer", "one of rerun, accept, fail")
    assert run.wait


def test_one_answer_wins() -> None:
    run = reviewed()
    wait = run.wait
    run.give(Answer(wait_id=wait, answer="fail", by="ann"))
    with pytest.raises(NotFound):
        run.give(Answer(wait_id=wait, answer="rerun", by="bob"))
    with pytest.raises(NotFound):
        run.give(Answer(wait_id="never.was", answer="rerun", by="bob"))


def test_a_question_outlives_a_stop_and_a_stopped_plan_takes_only_the_answer_that_ends_it() -> None:
    run = reviewed()
    run.give(Stop())
    assert run.lifecycle == "STOPPED" and run.wait
    for word in ("rerun", "accept"):
        with pytest.raises(Refused, match="the plan is stopped; resume it first"):
            run.give(Answer(wait_id=run.wait, answer=word, by="ann"))
    run.give(Answer(wait_id=run.wait, answer="fail", by="ann"))
    assert run.status("a") is NodeStatus.FAILED
    run.give(Resume())
    assert run.lifecycle == "FAILED"


def test_a_question_outlives_another_restart() -> None:
    run = reviewed()
    wait = run.wait
    run.restart(instance="executor-3")
    assert run.wait == wait and run.performing == {}


def test_a_canceled_plan_asks_nothing_any_more() -> None:
    run = reviewed()
    wait = run.wait
    run.give(Stop())
    run.give(Cancel())
    assert run.lifecycle == "CANCELED" and run.state.common.waits == {}
    with pytest.raises(NotFound):
        run.give(Answer(wait_id=wait, answer="fail", by="ann"))
    run.clean_up()
    assert not run.node("a").attempt.worktree_exists


def test_where_it_is_uncertain_whether_a_check_was_begun_it_runs_again() -> None:
    run = at(Phase.WORK)
    run.restart("end", instance=SECOND_LIFE)
    run.do("end", GOOD)
    run.until("end", Phase.POSTCHECKS)
    run.restart(instance=SECOND_LIFE)  # the attempt was placed in the first life: that it is unknown now says nothing
    assert run.effect("end").key.endswith("/postchecks.2")


@pytest.mark.parametrize("phase", [Phase.PRECHECKS, Phase.POSTCHECKS])
def test_a_check_that_is_lost_again_and_again_fails_its_node(phase: Phase) -> None:
    run = at(phase)
    for _ in range(LOST_OFTEN):
        assert run.performing == {"end": phase}
        run.do("end", LOST)
    assert run.status("end") is NodeStatus.FAILED
    assert "Lost 3 times in a row" in run.node("end").error


def test_work_that_may_rerun_but_is_lost_again_and_again_waits_for_a_person() -> None:
    run = at(Phase.WORK, rerun=True)
    for number in range(1, LOST_OFTEN):
        run.do("end", LOST)
        run.clean_up()
        assert len(run.node("end").attempts) == number + 1
        run.until("end", Phase.WORK)
    run.do("end", LOST)
    assert run.performing == {} and len(run.node("end").attempts) == LOST_OFTEN
    assert run.node("end").wait_id == run.wait
