"""Calls that an agent makes of the server's tools while it answers: they are the turn's, and it hears their ends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.turns import TURN, Turn

from pilothouse.core.chat.backend import Completed, ToolCalled
from pilothouse.core.chat.calls import CallReason, CallStatus, Features, RunBy
from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.chat.events import BackendCalled
from pilothouse.core.chat.inputs import Steer
from pilothouse.core.chat.routing import SERVER
from pilothouse.core.run.inputs import Answer
from pilothouse.core.run.lifecycle import Lifecycle

AGENT = Features(own_tools=True)


def served(id: str, name: str = "look", **more: Any) -> ToolCalled:
    return ToolCalled(id=id, name=name, arguments={}, executor=SERVER, **more)


def test_a_call_that_an_agent_makes_of_the_server_is_the_servers() -> None:
    turn = Turn(features=AGENT)
    turn.hear(ToolCalled(id="a", name="look"), served("b"), served("c", "ask"), served("d", "never"))
    a, b, c, d = (turn.state.calls[one] for one in "abcd")
    assert (a.run_by, b.run_by) == (RunBy.BACKEND, RunBy.SERVER)
    assert [call.status for call in (a, b, c, d)] == [
        CallStatus.EXECUTING,
        CallStatus.EXECUTING,
        CallStatus.AWAITING_APPROVAL,
        CallStatus.SKIPPED,
    ]
    turn.answer_tool("b")
    assert b.status is CallStatus.SUCCESS


@pytest.mark.parametrize("name", ["ghost", "plan", "plan_respond", ""])
def test_one_of_a_tool_that_there_is_not_is_over_whatever_its_name(name: str) -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a", name))
    assert (turn.state.calls["a"].status, turn.state.calls["a"].reason) == (CallStatus.ERROR, "not_found")


def test_an_agent_is_not_asked_again_with_results_that_it_has_heard() -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a"))
    turn.answer_tool("a")
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.kinds().count("BACKEND_CALLED") == 1


def test_what_is_said_meanwhile_goes_to_an_agent_without_its_results() -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a"))
    turn.tell(Steer(steering_id="s1", content="left"))
    turn.answer_tool("a")
    turn.hear(Completed())
    called = turn.last(BackendCalled)
    assert (called.reason, called.results) == (CallReason.STEERING, ())


def test_a_tool_that_runs_when_its_agent_ends_is_waited_for() -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a"), Completed())
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.answer_tool("a")
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_what_was_not_begun_when_its_agent_ends_never_is() -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a", "ask"), Completed())
    call = turn.state.calls["a"]
    assert (call.status, call.reason) == (CallStatus.CANCELLED, "agent_ended")
    assert not turn.state.common.waits
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_one_that_a_person_sent_to_the_background_outlives_its_agent() -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a", "ask"))
    turn.tell(Answer(wait_id=f"{TURN}.a", answer="background", by="me"))
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.answer_tool("a")
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_a_restart_that_finds_the_agent_at_work_leaves_what_it_called_as_it_is() -> None:
    turn = Turn(features=AGENT)
    turn.hear(served("a"), served("b", "write"), served("c", "ask"))
    turn.restart("call/1")
    assert turn.state.calls["a"].attempt == 2, "it is as good twice as once"
    assert (turn.state.calls["b"].status, turn.state.calls["b"].reason) == (CallStatus.ERROR, "lost")
    assert turn.state.calls["c"].status is CallStatus.AWAITING_APPROVAL
    assert not turn.hear(served("a"), served("c", "ask")), "it is known"
    turn.answer_tool("a", attempt=2)
    turn.hear(served("d"))
    assert turn.state.calls["d"].status is CallStatus.EXECUTING


def test_what_an_agent_is_told_that_it_may_have_executed() -> None:
    def offered(**given: Any) -> tuple[str, ...]:
        (effect,) = [one for one in Turn(**given).begun if isinstance(one, CallBackend)]
        return effect.agent_tools

    assert offered(features=AGENT) == ("look", "write", "ask")
    assert offered(features=AGENT, auto_execute=False) == ()
    assert offered() == ()
