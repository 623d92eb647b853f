"""Starting, pausing and stopping a plan, wherever it stands."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.plan.execution import BAD, ENDED, GOOD, Execution, task, waiting_for_a_review

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.kind import Submit
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.contract import Ended
from pilothouse.core.run.events import (
    Paused,
    RunResumed,
    RunStarted,
    Source,
    StopAcknowledged,
    StopDelayed,
    Stopped,
    StopRequested,
)
from pilothouse.core.run.inputs import (
    Grant,
    Input,
    Outcome,
    Pause,
    Progress,
    Resume,
    Settle,
    Start,
    Stop,
)
from pilothouse.errors import Refused


def tags(events: list[Any]) -> list[str]:
    return [event.type_name() for event in events]


# Starting


def test_a_plan_starts_by_itself_and_says_what_it_runs_with() -> None:
    run = Execution(task("a"), max_parallel=3, target=False)
    assert tags(run.log) == ["RUN_CREATED", "PLAN_BUILT", "RUN_STARTED"]
    (started,) = run.all(RunStarted)
    assert (started.task, started.config, started.leg) == ("Test it!", {"maxParallel": 3}, 1)


def test_a_plan_that_is_to_start_paused_waits_for_a_person() -> None:
    run = Execution(task("a"), start_paused=True)
    assert run.lifecycle == "CREATED" and run.performing == {}
    run.give(Resume())
    run.open_target()
    assert run.performing == {"a": Phase.SETUP}


def test_a_plan_starts_once() -> None:
    run = Execution(task("a"))
    with pytest.raises(Refused, match="it is running already"):
        run.give(Start())


def test_what_a_plan_does_not_understand_it_refuses() -> None:
    class Dance(Input, frozen=True, kw_only=True):
        pass

    with pytest.raises(Refused, match="does not understand dance"):
        Execution(task("a")).give(Dance())


# Pausing


def test_a_pause_lets_what_runs_finish_and_starts_nothing_new() -> None:
    run = Execution(task("a"), task("b", "a"), task("c"), max_parallel=1)
    run.until("a", Phase.WORK)
    run.give(Pause())
    assert run.lifecycle == "PAUSING"
    run.finish("a")
    assert run.status("a") is NodeStatus.SUCCEEDED, "through all its phases, since it had begun"
    assert run.lifecycle == "PAUSED" and run.performing == {}
    assert {str(run.status("b")), str(run.status("c"))} == {"ready"}
    run.give(Resume())
    (resumed,) = run.all(RunResumed)
    assert resumed.leg == 1, "a pause ends no leg"
    assert len(run.performing) == 1


def test_a_pause_can_be_taken_back_before_it_has_come_about() -> None:
    run = Execution(task("a"), task("b"), max_parallel=1)
    run.give(Pause())
    run.give(Resume())
    assert run.lifecycle == "RUNNING" and run.all(Paused) == []


def test_a_pause_of_a_paused_plan_and_a_resume_of_a_running_one_change_nothing() -> None:
    run = Execution(task("a"), task("b", "a"))
    assert run.give(Resume()) == []
    run.give(Pause())
    assert run.give(Pause()) == []
    run.finish("a")
    assert run.lifecycle == "PAUSED"
    assert run.give(Pause()) == []


def test_a_plan_whose_last_node_ends_while_it_pauses_ends_as_soon_as_nothing_is_owed() -> None:
    run = Execution(task("a"))
    run.give(Pause())
    run.finish("a")
    assert run.lifecycle == "PAUSING" and run.owed
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED" and run.all(Paused) == []


def test_a_node_that_waits_for_a_person_does_not_hold_up_a_pause() -> None:
    run = waiting_for_a_review()
    run.give(Pause())
    assert run.lifecycle == "PAUSED"


# Stopping


def test_a_stop_is_requested_acknowledged_with_what_drains_and_done_when_nothing_is_left() -> None:
    run = Execution(task("a"), task("b"), task("c", "a"))
    run.until("a", Phase.WORK)
    events = run.give(Stop(source=Source.SYSTEM))
    assert tags(events) == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED"]
    (acknowledged,) = run.all(StopAcknowledged)
    assert set(acknowledged.draining) == {run.effect("a").key, run.effect("b").key}
    assert run.kind.todo(run.state) == {}, "nothing is wanted any more"
    run.do("a", ENDED)
    assert run.lifecycle == "STOPPING"
    run.do("b", Ended())
    assert run.lifecycle == "STOPPED"
    (stopped,) = run.all(Stopped)
    assert stopped.source is Source.SYSTEM and run.all(StopRequested)[0].source is Source.SYSTEM


def test_nothing_new_begins_after_a_stop() -> None:
    run = Execution(task("a"), task("b", "a"), task("c"), max_parallel=1)
    run.until("a", Phase.COMMIT)
    run.give(Stop())
    run.do("a")
    run.give(Settle())
    assert run.performing == {} and run.kind.demand(run.state) == 0
    assert "PHASE_STARTED" not in tags(run.log[run.log.index(run.all(StopAcknowledged)[0]) :])


def test_rescues_begin_when_everything_is_still() -> None:
    run = Execution(task("a"), task("b"))
    run.until("a", Phase.WORK)
    run.until("b", Phase.WORK)
    run.give(Stop())
    run.do("a", ENDED)
    assert run.kind.todo(run.state) == {} and run.owed == [("a", 1, "save and remove")]
    run.do("b", ENDED)
    assert set(run.kind.todo(run.state)) == set(run.state.housekeeping)


def test_a_resumed_plan_begins_nothing_while_a_worktree_is_being_saved() -> None:
    run = Execution(task("a"), task("b"))
    run.until("a", Phase.WORK)
    run.give(Stop())
    run.end_dispatched()
    run.give(Resume())
    assert run.performing == {} and run.owed
    run.clean_up()
    assert set(run.performing) == {"a", "b"}


def test_a_second_stop_changes_nothing_whatever_has_become_of_the_first() -> None:
    run = Execution(task("a"))
    run.give(Stop())
    assert run.give(Stop()) == []
    run.end_dispatched()
    assert run.give(Stop()) == []


def test_a_plan_is_stopped_before_it_has_started() -> None:
    run = Execution(task("a"), start_paused=True)
    assert tags(run.give(Stop())) == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STOPPED"]
    run.give(Resume())
    run.open_target()
    assert run.performing == {"a": Phase.SETUP}


def test_a_stop_of_a_paused_plan_is_done_at_once() -> None:
    run = waiting_for_a_review()
    run.give(Pause())
    run.give(Stop())
    assert run.lifecycle == "STOPPED"


def test_a_stopped_plan_goes_on_in_a_new_leg_with_what_was_left() -> None:
    run = Execution(task("a"), task("b", "a"))
    run.finish("a")
    run.until("b", Phase.WORK)
    run.give(Stop())
    run.end_dispatched()
    run.clean_up()
    run.give(Resume())
    assert run.all(RunResumed)[-1].leg == 2
    assert run.statuses == {"a": "succeeded", "b": "scheduled"}
    run.finish("b")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


def test_a_stop_that_takes_long_says_so_and_only_then() -> None:
    run = Execution(task("a"))
    late = Progress(key="x", events=(StopDelayed(waiting_for=("x",)),))
    assert run.give(late) == []
    run.give(Stop())
    assert tags(run.give(late)) == ["STOP_DELAYED"]


# Being idle


def test_a_grant_of_slots_is_used_as_far_as_there_is_work() -> None:
    run = Execution(task("a"), task("b"), capacity=0)
    assert run.performing == {}
    run.give(Grant(slots=5))
    assert set(run.performing) == {"a", "b"}


def test_an_outcome_nobody_waits_for_is_not_heard() -> None:
    run = Execution(task("a"))
    assert run.give(Outcome(key="nothing", result=GOOD)) == []


def test_a_plan_is_submitted_as_it_was_checked() -> None:
    run = Execution(task("a"), target=False)
    created, built = run.log[0], run.log[1]
    fresh = run.kind.initial("run-2")
    assert run.kind.name == "plan"
    assert list(run.kind.decide(fresh, Submit(created=created, built=built))) == [created, built]  # type: ignore[arg-type]  # the first two events of a log


def test_a_failing_node_ends_a_pause_too() -> None:
    run = Execution(task("a"), task("b"), max_parallel=1)
    run.until("a", Phase.WORK)
    run.give(Pause())
    assert isinstance(run.effect("a"), RunWork)
    run.do("a", BAD)
    assert run.lifecycle == "PAUSED"
