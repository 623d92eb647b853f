"""Turns that are ended from outside: by a person, by their time, by a restart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.turns import TURN, Turn, names

from pilothouse.core.chat.backend import Completed, Paused, Said, ToolCalled
from pilothouse.core.chat.calls import BackendEnd, CallReason, CallStatus, Features
from pilothouse.core.chat.effects import AbortBackend, CallBackend, CallEnded
from pilothouse.core.chat.events import BackendCalled, BackendEnded
from pilothouse.core.chat.inputs import Confirm, Steer
from pilothouse.core.chat.result import result_of
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.core.run.events import RunRecovered, StopDelayed
from pilothouse.core.run.inputs import Answer, Cancel, Pause, Progress, Resume, Retry, Stop
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.tools.spec import ToolAnswer
from pilothouse.engine.driving.effects import Done
from pilothouse.errors import Refused

ABORTS = Features(aborts=True)


def busy(**given: Any) -> Turn:
    """Text has come, a tool runs, another one waits for a person."""
    turn = Turn(**given)
    turn.hear(Said("So "), ToolCalled(id="w", name="write"), ToolCalled(id="q", name="ask"))
    return turn


# --- stop ---


def test_a_stop_ends_everything_and_keeps_what_had_come() -> None:
    turn = busy()
    events = names(turn.tell(Stop()))
    assert events == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED", "WAIT_CLOSED", "TOOL_ENDED"]
    assert sorted(turn.unwanted) == ["call/1", f"expire/{TURN}.q", "timeout/1", "tool/w/1"]
    turn.end_unwanted()
    assert turn.kinds()[-1] == "STOPPED"
    result = result_of(turn.state)
    assert (result.success, result.content, result.error, result.code) == (False, "So ", "Stopped by user", "stopped")
    assert [(call.status, call.error) for call in result.tool_calls] == [
        (CallStatus.CANCELLED, "Stopped by user"),
        (CallStatus.CANCELLED, "Stopped by user"),
    ]


def test_the_backend_is_told_of_a_stop_at_once_and_owed_it_afterwards() -> None:
    turn = busy(features=ABORTS)
    turn.tell(Stop())
    assert isinstance(turn.flying["abort/1"], AbortBackend)
    turn.end_unwanted()
    assert turn.row is not None
    assert (turn.row.lifecycle, turn.row.detail["owed"]) == (Lifecycle.STOPPED, 1)
    turn.land("abort/1", Failed(error="gone"))
    assert turn.row.detail["owed"] == 0


def test_what_is_said_and_done_while_stopping_is_kept() -> None:
    turn = busy()
    turn.tell(Stop())
    turn.hear(Said("far"), ToolCalled(id="late", name="look"))
    turn.land("tool/w/1", ToolAnswer(ok=True, result="written"))
    turn.end_unwanted()
    result = result_of(turn.state)
    assert result.content == "So far"
    assert [(call.id, call.status) for call in result.tool_calls] == [
        ("w", CallStatus.SUCCESS),
        ("q", CallStatus.CANCELLED),
        ("late", CallStatus.CANCELLED),
    ]
    assert "tool/late/1" not in [effect.key for effect in turn.begun]


def test_a_stop_is_idempotent_and_takes_no_more_answers() -> None:
    turn = busy(features=ABORTS)
    turn.tell(Stop())
    assert turn.tell(Stop()) == []
    with pytest.raises(Refused):
        turn.tell(Answer(wait_id=f"{TURN}.q", answer="approve", by="bob"))
    with pytest.raises(Refused):
        turn.tell(Confirm(tool_call_id="q", status="accepted", by="bob"))
    with pytest.raises(Refused):
        turn.tell(Steer(steering_id="s", content="x"))
    assert turn.kinds().count("BACKEND_ABORTING") == 1


def test_a_stopped_turn_goes_on_where_it_was() -> None:
    turn = busy()
    turn.tell(Stop())
    turn.end_unwanted()
    turn.now += 1_000_000
    turn.tell(Resume())
    effect = turn.flying["call/2"]
    assert isinstance(effect, CallBackend)
    assert (effect.reason, effect.answered) == (CallReason.RESUMED, ("w", "q"))
    assert turn.state.timers["timeout/2"].until == turn.now + 60_000
    turn.hear(Said("on"), Completed())
    assert result_of(turn.state).content == "So on"
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_a_cancel_is_final_also_of_a_stopped_turn() -> None:
    turn = busy()
    turn.tell(Cancel())
    turn.end_unwanted()
    assert turn.lifecycle() is Lifecycle.CANCELED
    stopped = busy()
    stopped.tell(Stop())
    stopped.end_unwanted()
    assert names(stopped.tell(Cancel())) == ["RUN_CANCELED"]
    with pytest.raises(Refused):
        stopped.tell(Resume())


def test_an_answer_cannot_be_paused() -> None:
    with pytest.raises(Refused):
        busy().tell(Pause())


def test_a_stop_that_takes_long_says_what_it_waits_for() -> None:
    turn = busy()
    assert turn.tell(Progress(key="", events=(StopDelayed(waiting_for=("x",)),))) == []
    turn.tell(Stop())
    assert names(turn.tell(Progress(key="", events=(StopDelayed(waiting_for=("x",)),)))) == ["STOP_DELAYED"]


# --- time ---


def test_a_turn_that_takes_too_long_fails_once_all_is_still() -> None:
    turn = Turn(features=ABORTS, headless=True)
    turn.hear(Said("So "), ToolCalled(id="w", name="write"), ToolCalled(id="q", name="ask"))
    turn.time_up("timeout/1")
    assert isinstance(turn.flying["abort/1"], AbortBackend)
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.hear(Said("late"))
    turn.end_unwanted()
    result = result_of(turn.state)
    assert (result.code, result.error, result.content) == ("timeout", "Request timed out after 60 s", "So late")
    assert {(call.status, call.reason) for call in result.tool_calls} == {(CallStatus.CANCELLED, "timeout")}


def test_the_time_is_that_of_a_leg() -> None:
    turn = Turn(timeout_ms=100)
    turn.time_up("timeout/1")
    turn.end_unwanted()
    turn.tell(Retry())
    assert turn.state.timers["timeout/2"].until == turn.now + 100
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_a_stop_while_time_is_up_is_one_end() -> None:
    turn = Turn(features=ABORTS)
    turn.time_up("timeout/1")
    turn.tell(Stop())
    turn.end_unwanted()
    assert turn.lifecycle() is Lifecycle.STOPPED
    assert turn.kinds().count("BACKEND_ABORTING") == 1


# --- restart ---


def test_half_an_answer_is_not_asked_for_again_behind_its_readers_back() -> None:
    turn = busy()
    events = names(turn.restart())
    assert events[0] == "RUN_RECOVERED"
    assert turn.lifecycle() is Lifecycle.FAILED
    result = result_of(turn.state)
    assert (result.code, result.content) == ("interrupted", "So ")
    write = result.tool_calls[0]
    assert (write.status, write.reason) == (CallStatus.ERROR, "lost")
    assert "not run again" in str(write.error)
    assert "call/2" not in turn.flying


def test_a_request_that_goes_on_elsewhere_is_followed() -> None:
    turn = Turn()
    turn.hear(Said("So "))
    turn.restart("call/1")
    effect = turn.flying["call/1"]
    assert isinstance(effect, CallBackend)
    assert effect.adopted
    assert turn.last(RunRecovered).adopted == ("call/1",)
    turn.hear(Said("on"), Completed())
    assert result_of(turn.state).content == "So on"


def test_a_repeatable_tool_runs_again_and_the_turn_goes_on() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), ToolCalled(id="b", name="write"), Completed())
    turn.restart()
    assert list(turn.state.open) == ["tool/a/2"]
    assert turn.state.calls["b"].reason == "lost"
    turn.answer_tool("a", attempt=2)
    assert turn.last(BackendCalled).results == ("a", "b")


def test_what_waits_for_a_person_waits_on() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="q", name="ask"), Paused(checkpoint_id="c", pending=("q",)))
    turn.restart()
    assert list(turn.flying) == [f"expire/{TURN}.q"]
    turn.tell(Answer(wait_id=f"{TURN}.q", answer="approve", by="bob"))
    turn.answer_tool("q")
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_a_pause_between_two_tries_goes_on() -> None:
    turn = Turn(features=Features(repeats=True))
    turn.land("call/1", CallEnded(end=BackendEnd.FAILED, transient=True))
    turn.restart()
    turn.time_up("backoff/1")
    assert turn.last(BackendCalled).reason is CallReason.AGAIN


def test_a_turn_that_was_being_stopped_is_stopped() -> None:
    turn = busy(features=ABORTS)
    turn.tell(Stop())
    turn.restart()
    assert turn.lifecycle() is Lifecycle.STOPPED
    assert turn.last(BackendEnded).end is BackendEnd.LOST
    assert list(turn.flying) == ["abort/1"]
    turn.land("abort/1", Done())


def test_a_turn_whose_time_was_up_fails_for_that() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"))
    turn.time_up("timeout/1")
    turn.restart()
    assert result_of(turn.state).code == "timeout"
    assert turn.state.calls["a"].status is CallStatus.CANCELLED


def test_an_unwanted_tool_that_ends_by_itself_is_not_an_error_of_the_turn() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), Completed())
    turn.land("tool/a/1", Ended())
    assert turn.state.calls["a"].status is CallStatus.CANCELLED
    assert turn.last(BackendCalled).reason is CallReason.RESULTS
