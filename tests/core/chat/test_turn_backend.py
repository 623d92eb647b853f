"""Requests to the backend that do not go well, and what is said to it meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.turns import Turn

from pilothouse.core.chat import hear
from pilothouse.core.chat.backend import (
    Completed,
    Failed,
    LaneClosed,
    LaneOpened,
    Noticed,
    Paused,
    Said,
    Thought,
    ToolArguments,
    ToolCalled,
)
from pilothouse.core.chat.blocks import content_of, messages_of
from pilothouse.core.chat.calls import BackendEnd, CallReason, CallStatus, Features
from pilothouse.core.chat.effects import CallBackend, CallEnded, SteerBackend
from pilothouse.core.chat.events import BackendCalled, BackendEnded, TurnNoticed
from pilothouse.core.chat.inputs import Steer
from pilothouse.core.chat.message import SteeringBlock, TextBlock, ThinkingBlock
from pilothouse.core.chat.result import result_of
from pilothouse.core.run import contract
from pilothouse.core.run.inputs import Retry
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import WaitKind
from pilothouse.engine.driving.effects import Done
from pilothouse.errors import Refused

REPEATS = Features(repeats=True)
PASSING = CallEnded(end=BackendEnd.FAILED, error="503", transient=True)


def test_a_stream_that_breaks_off_is_an_error_and_keeps_what_had_come() -> None:
    turn = Turn()
    turn.hear(Said("Half an ans"))
    turn.land("call/1", CallEnded())
    result = result_of(turn.state)
    assert (result.success, result.content, result.code) == (False, "Half an ans", "backend_eof")
    assert result.error == "The backend stopped before it had finished"


@pytest.mark.parametrize("piece", [Said("x" * 400), Thought("x" * 400), ToolArguments(id="a", delta="x" * 400)])
def test_an_answer_without_an_end_is_ended(piece: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hear, "LONGEST_ANSWER", 1_000)
    turn = Turn()
    turn.hear(Said("first"), piece)
    turn.hear(piece)
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.hear(piece)
    result = result_of(turn.state)
    assert (result.success, result.code, result.content[:5]) == (False, "answer_too_long", "first")
    assert "call/1" in turn.unwanted, "nobody listens any more"


def test_an_error_in_the_stream_ends_the_turn_with_what_people_are_shown() -> None:
    turn = Turn()
    turn.hear(Said("x"), Failed(message="E42", shown="Too many requests", code="rate_limited"))
    turn.land("call/1", CallEnded())
    result = result_of(turn.state)
    assert (result.error, result.code, result.content) == ("Too many requests", "rate_limited", "x")


def test_a_good_end_outranks_an_error_before_it() -> None:
    turn = Turn()
    turn.hear(Failed(message="a hiccup"))
    turn.hear(Said("fine"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


@pytest.mark.parametrize(("status", "code"), [("error", "backend_error"), ("cancelled", "backend_cancelled")])
def test_a_bad_end_is_one(status: str, code: str) -> None:
    turn = Turn()
    turn.hear(Completed(status=status, reason="because"))
    assert result_of(turn.state).code == code
    assert "because" in str(result_of(turn.state).error)


def test_a_request_that_brought_nothing_is_made_again_after_a_while() -> None:
    turn = Turn(features=REPEATS)
    turn.land("call/1", PASSING)
    (wait,) = turn.state.common.waits.values()
    assert (wait.kind, wait.lasts_ms) == (WaitKind.BACKOFF, 250)
    turn.time_up("backoff/1")
    turn.land("call/2", PASSING)
    assert turn.state.timers["backoff/2"].until == turn.now + 500
    turn.time_up("backoff/2")
    assert turn.last(BackendCalled).reason is CallReason.AGAIN
    turn.land("call/3", PASSING)
    result = result_of(turn.state)
    assert (result.code, result.error) == ("backend_unreachable", "503"), "three tries"


def test_a_backend_says_itself_how_long_to_wait() -> None:
    turn = Turn(features=REPEATS)
    turn.land("call/1", CallEnded(end=BackendEnd.FAILED, transient=True, retry_after_ms=7_000))
    assert turn.state.timers["backoff/1"].until == turn.now + 7_000


def test_a_wait_beyond_the_turns_time_is_not_begun() -> None:
    turn = Turn(features=REPEATS, timeout_ms=5_000)
    turn.land("call/1", CallEnded(end=BackendEnd.FAILED, transient=True, retry_after_ms=7_000))
    assert turn.lifecycle() is Lifecycle.FAILED


@pytest.mark.parametrize(
    ("features", "heard", "end"),
    [
        (Features(), (), PASSING),
        (REPEATS, (Said("x"),), PASSING),
        (REPEATS, (), CallEnded(end=BackendEnd.FAILED, error="401")),
    ],
)
def test_what_cannot_be_repeated_is_not(features: Features, heard: tuple[Said, ...], end: CallEnded) -> None:
    turn = Turn(features=features)
    turn.hear(*heard)
    turn.land("call/1", end)
    assert turn.lifecycle() is Lifecycle.FAILED


def test_nothing_at_all_is_worth_another_try() -> None:
    turn = Turn(features=REPEATS)
    turn.land("call/1", CallEnded(end=BackendEnd.EOF))
    assert "backoff/1" in turn.flying


def test_results_that_did_not_arrive_are_brought_again() -> None:
    turn = Turn(features=REPEATS)
    turn.hear(ToolCalled(id="a", name="look"), Paused(checkpoint_id="c", pending=("a",)))
    turn.answer_tool("a")
    turn.land("call/2", PASSING)
    turn.time_up("backoff/2")
    again = turn.last(BackendCalled)
    assert (again.reason, again.checkpoint_id, again.results) == (CallReason.AGAIN, "c", ("a",))
    effect = turn.flying["call/3"]
    assert isinstance(effect, CallBackend)
    assert effect.reason is CallReason.RESULTS, "it is asked as it was the first time"


def test_results_the_backend_still_waits_for_are_brought_by_a_retry() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), Paused(checkpoint_id="c", pending=("a",)))
    turn.answer_tool("a")
    turn.land("call/2", PASSING)
    turn.tell(Retry())
    effect = turn.flying["call/3"]
    assert isinstance(effect, CallBackend)
    assert (effect.reason, effect.checkpoint_id, effect.answered) == (CallReason.RESULTS, "c", ("a",))


def test_a_failed_turn_waits_for_its_tools_and_asks_for_no_more() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), ToolCalled(id="b", name="ask"))
    turn.land("call/1", CallEnded())
    assert turn.lifecycle() is Lifecycle.RUNNING
    assert not turn.state.common.waits
    assert turn.state.calls["b"].status is CallStatus.CANCELLED
    turn.answer_tool("a", "kept")
    assert turn.lifecycle() is Lifecycle.FAILED
    assert turn.state.calls["a"].result == "kept"


def test_a_failed_turn_can_be_tried_again_with_all_it_has() -> None:
    turn = Turn()
    turn.hear(Said("a"), ToolCalled(id="t", name="look"))
    turn.land("call/1", CallEnded())
    turn.answer_tool("t", 1)
    turn.tell(Retry())
    effect = turn.flying["call/2"]
    assert isinstance(effect, CallBackend)
    assert (effect.reason, effect.answered, len(effect.blocks)) == (CallReason.RESUMED, ("t",), 2)
    turn.hear(Said("b"), Completed())
    assert result_of(turn.state).content == "ab"
    assert result_of(turn.state).error is None
    with pytest.raises(Refused):
        turn.tell(Retry())


def test_a_performer_that_fails_is_a_backend_that_could_not_be_asked() -> None:
    turn = Turn()
    turn.land("call/1", contract.Failed(error="internal error: KeyError"))
    assert turn.last(BackendEnded).end is BackendEnd.FAILED
    assert result_of(turn.state).error == "internal error: KeyError"


# --- steering ---


def test_what_is_said_meanwhile_goes_with_the_next_request() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), Completed())
    turn.tell(Steer(steering_id="s", content="faster"))
    turn.tell(Steer(steering_id="s", content="faster"))
    turn.answer_tool("a")
    effect = turn.flying["call/2"]
    assert isinstance(effect, CallBackend)
    assert (effect.reason, effect.steering) == (CallReason.RESULTS, ("faster",))
    assert SteeringBlock(id="s", text="faster", call=2) in messages_of(turn.state)[1].blocks


def test_what_nobody_has_heard_at_the_end_is_one_more_request() -> None:
    turn = Turn()
    turn.tell(Steer(steering_id="s", content="and then?"))
    turn.hear(Said("done"), Completed())
    assert turn.last(BackendCalled).reason is CallReason.STEERING
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    with pytest.raises(Refused):
        turn.tell(Steer(steering_id="t", content="too late"))


def test_a_backend_that_takes_steering_gets_it_at_once() -> None:
    turn = Turn(features=Features(steers=True))
    turn.tell(Steer(steering_id="s", content="left"))
    assert isinstance(turn.flying["steer/s"], SteerBackend)
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.land("steer/s", Done())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_steering_the_backend_did_not_take_is_told_with_a_request() -> None:
    turn = Turn(features=Features(steers=True))
    turn.tell(Steer(steering_id="s", content="left"))
    turn.hear(Completed())
    turn.land("steer/s", contract.Failed(error="409"))
    effect = turn.flying["call/2"]
    assert isinstance(effect, CallBackend)
    assert (effect.reason, effect.steering) == (CallReason.STEERING, ("left",))


def test_a_backend_says_itself_that_it_heard() -> None:
    turn = Turn()
    turn.tell(Steer(steering_id="s", content="left"))
    turn.hear(Noticed(kind="steering_applied", data={"steeringId": "s"}), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_steering_that_went_with_a_request_in_vain_goes_with_the_next() -> None:
    turn = Turn(features=REPEATS)
    turn.land("call/1", PASSING)
    turn.tell(Steer(steering_id="s", content="x"))
    for number in (1, 2):
        turn.time_up(f"backoff/{number}")
        effect = turn.flying[f"call/{number + 1}"]
        assert isinstance(effect, CallBackend)
        assert effect.steering == ("x",)
        turn.land(effect.key, PASSING)


@pytest.mark.parametrize("features", [Features(), Features(reports=True)])
def test_what_nobody_can_hear_any_more_because_calls_are_left_to_the_sender_is_told_as_not_heard(
    features: Features,
) -> None:
    turn = Turn(auto_execute=False, features=features)
    turn.hear(ToolCalled(id="a", name="look"))
    turn.tell(Steer(steering_id="s", content="left"))
    turn.hear(Completed())
    assert (turn.lifecycle(), result_of(turn.state).requires_action) == (Lifecycle.SUCCEEDED, True)
    notice = turn.last(TurnNoticed)
    assert (notice.kind, notice.data["steeringId"]) == ("steering_failed", "s")


def test_what_was_told_as_not_heard_is_not_told_again() -> None:
    turn = Turn(auto_execute=False, features=Features(steers=True))
    turn.hear(ToolCalled(id="a", name="look"))
    turn.tell(Steer(steering_id="s", content="left"))
    turn.hear(Completed())
    turn.land("steer/s", contract.Failed(error="409"))
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.kinds().count("TURN_NOTICED") == 1


# --- subagents ---


def test_subagents_side_by_side_do_not_mix() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="p", name="plan"), ToolCalled(id="e", name="edit"))
    turn.hear(LaneOpened(id="p", agent="plan"), LaneOpened(id="e", agent="edit"), LaneOpened(id="p", agent="plan"))
    for _ in range(3):
        turn.hear(Said("P", "p"), Said("E", "e"), Thought("t", "p"), Said("main"))
    turn.hear(LaneClosed(id="p"), LaneClosed(), LaneClosed(), Completed())
    answer = messages_of(turn.state)[1]
    texts = {block.lane: block.text for block in answer.blocks if isinstance(block, TextBlock) and block.lane == "e"}
    assert texts == {"e": "EEE"}, "one block however often the others speak"
    assert [b.text for b in answer.blocks if isinstance(b, ThinkingBlock)] == ["t", "t", "t"]
    assert answer.lanes == {"p": "plan", "e": "edit"}
    assert content_of(turn.state) == "mainmainmain"
    assert turn.kinds().count("LANE_OPENED") == 2
    assert turn.kinds().count("LANE_CLOSED") == 2


def test_a_call_within_a_subagent_is_executed_like_any_other() -> None:
    turn = Turn()
    turn.hear(LaneOpened(id="p", agent="plan"), ToolCalled(id="a", name="look", lane="p"))
    assert turn.state.calls["a"].lane == "p"
    assert "tool/a/1" in turn.flying


def test_what_an_unknown_subagent_says_is_not_the_answer() -> None:
    turn = Turn()
    turn.hear(Said("stray", "nobody"), Completed())
    assert content_of(turn.state) == ""
    assert messages_of(turn.state)[1].blocks == (TextBlock(text="stray", lane="nobody"),)
