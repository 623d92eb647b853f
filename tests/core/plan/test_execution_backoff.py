"""Failures that pass: the pause before the next try, and what may happen in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.plan.agents import Agents, agent, canceled, done, failing, passing
from tests.core.plan.execution import SECOND_LIFE, task

from pilothouse.core.plan.agent_flow import LONGEST_BACKOFF_MS, TRANSIENT_TRIES
from pilothouse.core.plan.events import AttemptEnded, PhaseEnded
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.spec import AgentSpec, OnInterrupted
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.core.run.events import WaitClosed
from pilothouse.core.run.inputs import Answer, Cancel, CancelPart, Outcome, Pause, Resume, Retry, Stop
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.errors import Refused


def backing_off(*others: str, **options: Any) -> Agents:
    """Node a failed for a reason that passes; ``others`` wait for a slot."""
    run = Agents(agent("a"), *(task(name) for name in others), max_parallel=1, **options)
    run.speaking("a")
    run.do("a", passing())
    assert run.node("a").backing_off
    return run


def the_wait(run: Agents) -> Wait:
    (wait,) = run.state.common.waits.values()
    return wait


def test_a_failure_that_passes_is_tried_again_after_a_pause_that_holds_no_slot() -> None:
    run = backing_off("b")
    wait = the_wait(run)
    assert (wait.kind, wait.scope, wait.options) == (WaitKind.BACKOFF, run.node("a").node.id, ())
    assert wait.detail == {
        "node": "a",
        "phase": "work",
        "attempt": 1,
        "try": 1,
        "error": "429 too many requests",
        "until": wait.opened_at + 30_000,
    }
    assert run.timers == {f"{wait.id}.timer": wait.opened_at + 30_000}
    assert run.all(PhaseEnded)[-1].error == "429 too many requests; next try in 30 s"
    assert run.performing == {"b": Phase.SETUP}
    run.finish("b")
    run.time_passes()
    run.clean_up()
    attempt = run.node("a").attempt
    assert (attempt.number, attempt.trigger, attempt.resume_from) == (2, Trigger.BACKOFF, Phase.WORK)
    work = run.work("a")
    assert (work.session_id, work.trouble) == ("s1", "work: 429 too many requests")
    assert work.path == "/trees/run-1/a/1"
    assert run.node("a").attempts[0].status is PhaseStatus.FAILED
    run.finish("a")
    assert run.status("a") is NodeStatus.SUCCEEDED


def test_every_pause_is_twice_as_long_and_the_third_try_more_is_the_last() -> None:
    run = backing_off()
    pauses = []
    for _ in range(TRANSIENT_TRIES):
        pauses.append(the_wait(run).lasts_ms)
        run.time_passes()
        run.do("a", passing())
    assert pauses == [30_000, 60_000, 120_000]
    assert run.status("a") is NodeStatus.FAILED and run.timers == {}
    assert run.node("a").error == "429 too many requests (4 tries)"
    run.give(Retry())
    assert run.work("a").session_id == "s1", "it failed before it spoke, but that passes"
    run.do("a", passing())
    assert the_wait(run).lasts_ms == 30_000, "who asks for a retry begins anew"


@pytest.mark.parametrize(
    ("told", "pause"), [(0, 100), (99, 100), (5_000, 5_000), (LONGEST_BACKOFF_MS * 9, LONGEST_BACKOFF_MS)]
)
def test_a_service_that_says_when_to_come_back_is_left_alone_until_then(told: int, pause: int) -> None:
    run = Agents(agent("a"), backoff_ms=100)
    run.reach("a")
    run.do("a", passing(retry_after_ms=told))
    assert the_wait(run).lasts_ms == pause


def test_a_check_of_an_agent_is_tried_again_where_it_failed() -> None:
    check = AgentSpec(agent="claude", on_interrupted=OnInterrupted.RERUN)
    run = Agents(msgspec.structs.replace(agent("a"), prechecks=check))
    run.until("a", Phase.PRECHECKS)
    run.do("a", passing())
    run.time_passes()
    assert run.performing == {"a": Phase.PRECHECKS}


def test_other_failures_are_not_tried_again() -> None:
    run = backing_off()
    run.time_passes()
    run.do("a", failing("wrong key"))
    assert run.node("a").error == "wrong key" and run.lifecycle == "FAILED"


# What people and crashes do in a pause


def test_a_stop_ends_the_pause_at_once_and_the_work_goes_on_when_it_is_resumed() -> None:
    run = backing_off()
    timer = next(iter(run.timers))
    run.give(Stop())
    assert run.lifecycle == "STOPPED" and run.timers == {} and run.state.common.waits == {}
    assert run.status("a") is NodeStatus.READY and run.owed == [("a", 1, "save")]
    assert run.give(Outcome(key=timer, result=Ended())) == [], "its timer is gone already"
    run.clean_up()
    run.give(Resume())
    assert run.performing == {"a": Phase.WORK} and run.work("a").session_id == "s1"
    assert run.node("a").attempt.trigger is Trigger.RESUMED


def test_a_failure_that_passes_while_the_plan_stops_is_an_interruption() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.give(Stop())
    run.do("a", passing())
    assert run.lifecycle == "STOPPED" and run.status("a") is NodeStatus.READY
    assert run.node("a").resume_from is Phase.WORK


def test_a_plan_that_is_canceled_in_a_pause_is_over_at_once() -> None:
    run = backing_off("b")
    run.finish("b")
    run.give(Cancel())
    assert run.lifecycle == "CANCELED" and run.timers == {} and run.state.common.waits == {}
    assert ("a", 1, "save and remove") in run.owed


def test_a_node_that_is_canceled_in_its_pause_ends_at_once() -> None:
    run = backing_off("b")
    run.give(CancelPart(scope="a"))
    assert run.status("a") is NodeStatus.CANCELED and run.timers == {}
    assert run.node("a").attempt.status is PhaseStatus.INTERRUPTED
    run.give(Retry(scopes=("a",)))
    assert run.status("a") is not NodeStatus.CANCELED


def test_a_plan_can_be_paused_in_a_pause_and_the_try_waits_for_the_plan() -> None:
    run = backing_off()
    run.give(Pause())
    assert run.lifecycle == "PAUSED"
    run.time_passes()
    assert run.status("a") is NodeStatus.READY and run.lifecycle == "PAUSED"
    run.give(Resume())
    assert run.performing == {"a": Phase.WORK}


def test_a_crash_in_the_pause_makes_it_no_longer() -> None:
    run = backing_off()
    before = run.timers
    run.restart(instance=SECOND_LIFE)
    assert run.timers == before and set(before) <= set(run.kind.todo(run.state))
    run.time_passes()
    assert run.performing == {"a": Phase.WORK}


def test_a_timer_that_was_broken_off_is_set_again_and_one_that_cannot_be_kept_is_up() -> None:
    run = backing_off()
    (key,) = run.timers
    assert run.give(Outcome(key=key, result=Ended())) == [] and list(run.timers) == [key]
    run.give(Outcome(key=key, result=Failed(error="a bug")))
    assert run.performing == {"a": Phase.WORK}


@pytest.mark.parametrize("scopes", [("a",), ()])
def test_a_retry_in_the_pause_is_one_now(scopes: tuple[str, ...]) -> None:
    run = backing_off()
    run.give(Retry(scopes=scopes))
    attempt = run.node("a").attempt
    assert (attempt.number, attempt.trigger, attempt.resume_from) == (2, Trigger.RETRY, Phase.WORK)
    assert run.work("a").session_id == "s1" and run.timers == {}
    assert run.all(WaitClosed)[-1].answer == "retry"
    run.do("a", passing())
    assert the_wait(run).lasts_ms == 30_000


def test_a_fresh_retry_in_the_pause_starts_in_a_clean_worktree() -> None:
    run = backing_off()
    run.give(Retry(scopes=("a",), fresh=True))
    run.reach("a")
    assert run.work("a").path == "/trees/run-1/a/2" and run.work("a").session_id == ""


def test_a_retry_of_one_that_works_is_refused_by_its_name() -> None:
    run = Agents(agent("a"))
    with pytest.raises(Refused, match=r"^a is scheduled; only failed"):
        run.give(Retry(scopes=(run.node("a").node.id,)))


def test_nobody_can_answer_a_pause() -> None:
    run = backing_off()
    with pytest.raises(Refused, match="retry the node to go on now"):
        run.give(Answer(wait_id=run.wait, answer="go", by="ann"))


def test_what_depends_on_it_waits_and_is_not_blocked() -> None:
    run = Agents(agent("a"), task("b", "a"))
    run.reach("a")
    run.do("a", passing())
    assert run.statuses == {"a": "running", "b": "pending"} and run.lifecycle == "RUNNING"
    run.time_passes()
    run.do("a", done())
    run.finish("a", "b")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


def test_an_agent_that_was_ended_for_nothing_in_a_later_try_is_lost_like_any() -> None:
    run = backing_off()
    run.time_passes()
    run.do("a", canceled())
    run.clean_up()
    assert run.node("a").attempt.trigger is Trigger.RERUN and run.all(AttemptEnded)[-1].resume_from is Phase.WORK


def test_the_moment_is_counted_from_when_the_failure_was_recorded() -> None:
    wait = Wait(id="w", kind=WaitKind.BACKOFF, lasts_ms=50)
    assert wait.ends_at == 50 and wait.opened(1000).ends_at == 1050
    assert wait.opened(1000).detail == {"until": 1050}
