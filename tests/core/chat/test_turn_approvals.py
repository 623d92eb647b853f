"""What a person decides about the calls of a turn, and what is decided without one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.turns import TURN, Turn, names

from pilothouse.core.chat.answers import OPTIONS
from pilothouse.core.chat.backend import Asked, Completed, Paused, ToolAnswered, ToolCalled
from pilothouse.core.chat.calls import CallStatus, Features, Offered, OnApproval
from pilothouse.core.chat.effects import AnswerBackend, RememberPermit, ReportTool, RunTool
from pilothouse.core.chat.events import BackendCalled
from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.chat.result import result_of
from pilothouse.core.chat.tool_events import ToolApproved
from pilothouse.core.run.contract import Failed
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.run.inputs import Answer
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import WaitKind
from pilothouse.core.tools.spec import Permit
from pilothouse.engine.driving.effects import Done
from pilothouse.errors import BadInput, Refused

WAIT = f"{TURN}.a"
CALL = ToolCalled(id="a", name="ask", arguments={"rm": "-rf"})


def asked(**given: Any) -> Turn:
    turn = Turn(**given)
    turn.hear(CALL)
    return turn


def answer(turn: Turn, what: str, **more: object) -> None:
    turn.tell(Answer(wait_id=WAIT, answer=what, by="bob", **more))  # type: ignore[arg-type]  # some of its fields


def test_a_tool_that_must_be_allowed_waits_for_a_person() -> None:
    turn = asked()
    wait = turn.state.common.waits[WAIT]
    assert (wait.kind, wait.scope, wait.options) == (WaitKind.APPROVAL, "a", OPTIONS)
    assert wait.detail["toolCallId"] == "a"
    assert wait.detail["arguments"] == {"rm": "-rf"}
    assert turn.state.calls["a"].status is CallStatus.AWAITING_APPROVAL
    assert turn.last(NeedsApproval).action == "ask"
    assert not [effect for effect in turn.begun if isinstance(effect, RunTool)]


def test_what_is_allowed_is_executed() -> None:
    turn = asked()
    answer(turn, "approve")
    assert "tool/a/1" in turn.flying
    assert turn.last(ToolApproved).by == "bob"


def test_a_tool_is_told_when_a_person_was_asked_about_it() -> None:
    turn = asked()
    (question,) = [recorded for recorded in turn.log if isinstance(recorded.event, NeedsApproval)]
    turn.now += 5_000
    answer(turn, "approve")
    turn.hear(ToolCalled(id="b", name="look", arguments={}))
    effects = {effect.tool_call_id: effect for effect in turn.begun if isinstance(effect, RunTool)}
    assert (effects["a"].asked_at, effects["b"].asked_at) == (question.at, None)


def test_other_arguments_are_what_it_is_executed_with() -> None:
    turn = asked()
    answer(turn, "approve", arguments={"rm": "-i"})
    effect = turn.flying["tool/a/1"]
    assert isinstance(effect, RunTool)
    assert effect.arguments == {"rm": "-i"}


def test_who_decides_sees_the_workflow_that_is_meant_and_that_one_it_is() -> None:
    tools = (Offered(name="ask", permit=Permit.ASK, workflow="workflowId"),)
    turn = asked(tools=tools, workflow_id="w1")
    assert turn.state.common.waits[WAIT].detail["arguments"] == {"rm": "-rf", "workflowId": "w1"}
    assert turn.last(NeedsApproval).preview == {"arguments": '{"rm":"-rf","workflowId":"w1"}'}
    turn.state.workflow_id = "another"
    answer(turn, "approve")
    effect = turn.flying["tool/a/1"]
    assert isinstance(effect, RunTool)
    assert effect.arguments == {"rm": "-rf", "workflowId": "w1"}


@pytest.mark.parametrize("named", ["", "w2"])
def test_a_workflow_that_is_named_or_that_nobody_knows_is_asked_about_as_it_stands(named: str) -> None:
    turn = Turn(tools=(Offered(name="ask", permit=Permit.ASK, workflow="workflowId"),), workflow_id=named and "w1")
    arguments = {"workflowId": named} if named else {}
    turn.hear(ToolCalled(id="a", name="ask", arguments=arguments))
    assert turn.state.common.waits[WAIT].detail["arguments"] == arguments
    answer(turn, "approve")
    assert turn.last(ToolApproved).arguments is None


def test_what_is_refused_is_not_executed_and_the_backend_hears_why() -> None:
    turn = asked(features=Features(reports=True))
    answer(turn, "refuse", message="not on Fridays")
    assert (turn.state.calls["a"].status, turn.state.calls["a"].reason) == (CallStatus.REJECTED, "user_rejected")
    report = turn.flying["report/a"]
    assert isinstance(report, ReportTool)
    assert (report.status, report.message) == (400, "not on Fridays")
    assert report.data == {"skipped": True, "reason": "user_rejected"}


def test_one_answer_wins() -> None:
    turn = asked()
    answer(turn, "refuse")
    with pytest.raises(Refused):
        answer(turn, "approve")
    with pytest.raises(Refused):
        turn.tell(Confirm(tool_call_id="a", status="accepted", by="eve"))
    assert turn.state.calls["a"].status is CallStatus.REJECTED


def test_an_answer_that_is_none_is_bad_input() -> None:
    turn = asked()
    with pytest.raises(BadInput):
        answer(turn, "maybe")
    with pytest.raises(BadInput):
        turn.tell(Confirm(tool_call_id="a", status="maybe", by="bob"))
    with pytest.raises(BadInput):
        turn.tell(Confirm(tool_call_id="a", status="accepted", by="bob", scope="forever"))
    with pytest.raises(Refused):
        turn.tell(Confirm(tool_call_id="zzz", status="accepted", by="bob"))
    assert WAIT in turn.state.common.waits


@pytest.mark.parametrize(("status", "ends"), [("accepted", CallStatus.EXECUTING), ("rejected", CallStatus.REJECTED)])
def test_the_documents_words_decide_as_well(status: str, ends: CallStatus) -> None:
    turn = asked()
    turn.tell(Confirm(tool_call_id="a", status=status, by="bob"))
    assert turn.state.calls["a"].status is ends


def test_an_answer_for_longer_holds_for_the_turn_and_is_remembered() -> None:
    turn = asked()
    turn.hear(ToolCalled(id="b", name="ask"))
    answer(turn, "approve-always")
    assert {"tool/a/1", "tool/b/1"} <= turn.flying.keys(), "it waits for the same answer no longer"
    assert turn.hear(ToolCalled(id="c", name="ask"))[1].type_name() == "TOOL_STARTED"
    remember = turn.flying["remember/a"]
    assert isinstance(remember, RememberPermit)
    assert (remember.tool, remember.scope, remember.chat_id) == ("ask", "always", "chat-1")
    assert turn.row is not None
    assert turn.row.detail["owed"] == 1
    turn.land("remember/a", Done())
    assert turn.row.detail["owed"] == 0


def test_nobody_answers_in_time() -> None:
    turn = asked(approval_timeout_ms=5_000, features=Features(reports=True))
    turn.time_up(f"expire/{WAIT}")
    assert (turn.state.calls["a"].status, turn.state.calls["a"].reason) == (CallStatus.REJECTED, "timeout")
    assert turn.flying["report/a"].status == 408  # type: ignore[attr-defined]  # a report
    assert not [effect for effect in turn.begun if isinstance(effect, RunTool)]


def test_what_is_sent_to_the_background_runs_on_and_the_backend_does_not_wait() -> None:
    turn = asked(features=Features(reports=True))
    answer(turn, "background")
    assert turn.flying["report/a"].status == 202  # type: ignore[attr-defined]  # a report
    assert turn.state.calls["a"].status is CallStatus.BACKGROUND
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.RUNNING, "the turn ends when the tool has"
    turn.land("report/a", Done())
    turn.answer_tool("a")
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert "report/a" not in turn.todo, "it has been told"


def test_a_running_tool_can_be_sent_to_the_background() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), Paused(checkpoint_id="c", pending=("a",)))
    turn.tell(Confirm(tool_call_id="a", status="background", by="bob"))
    assert turn.last(BackendCalled).results == ("a",)
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.answer_tool("a")
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    with pytest.raises(Refused):
        turn.tell(Confirm(tool_call_id="a", status="background", by="bob"))


def test_where_nobody_is_asked_a_call_is_skipped_and_says_how_to_allow_it() -> None:
    turn = asked(on_approval=OnApproval.REFUSE)
    call = result_of(turn.state).tool_calls[0]
    assert (call.status, call.reason) == (CallStatus.SKIPPED, "needs_approval")
    assert "onApproval" in str(call.error)


def test_who_may_decide_can_have_decided() -> None:
    assert "tool/a/1" in asked(on_approval=OnApproval.RUN).flying


def test_a_result_by_the_backend_withdraws_the_question() -> None:
    turn = asked()
    turn.hear(ToolAnswered(id="a", success=True, result=1))
    assert not turn.state.common.waits
    assert turn.state.calls["a"].status is CallStatus.SUCCESS
    with pytest.raises(Refused):
        answer(turn, "approve")


def test_the_time_a_person_takes_is_not_the_turns() -> None:
    turn = Turn(timeout_ms=60_000)
    turn.now += 10_000
    turn.hear(CALL)
    assert turn.state.clock not in turn.todo
    turn.now += 300_000
    answer(turn, "approve")
    assert turn.state.timers[turn.state.clock].until == turn.now + 50_000
    assert turn.state.clock != "timeout/1", "a key is never used again"


def test_a_program_that_waits_for_the_whole_is_told_in_its_time() -> None:
    turn = asked(headless=True)
    assert "timeout/1" in turn.todo


def test_a_call_id_that_no_address_can_hold_has_a_wait_all_the_same() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a/b c", name="ask"), ToolCalled(id="a/b d", name="ask"))
    first, second = turn.state.common.waits
    assert first != second
    assert "/" not in first
    turn.tell(Answer(wait_id=first, answer="approve", by="bob"))
    assert "tool/a/b c/1" in turn.flying


# --- what an agent asks ---

AGENT = Features(own_tools=True)
ASKED = Asked(request_id="r1", tool="shell", title="delete", input="rm", can_remember=True)
AGENT_WAIT = f"{TURN}.ask.1.r1"


def test_an_agent_asks_and_gets_its_answer() -> None:
    turn = Turn(features=AGENT)
    turn.hear(ASKED, ASKED)
    turn.hear(ASKED)
    assert list(turn.state.common.waits) == [AGENT_WAIT]
    turn.tell(Answer(wait_id=AGENT_WAIT, answer="approve-always", by="bob"))
    effect = turn.flying[f"answer/{AGENT_WAIT}"]
    assert isinstance(effect, AnswerBackend)
    assert (effect.request_id, effect.allowed, effect.remember, effect.call) == ("r1", True, True, 1)
    assert names(turn.land(effect.key, Done())) == ["BACKEND_ANSWERED"]
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


@pytest.mark.parametrize(("policy", "allowed"), [(OnApproval.REFUSE, False), (OnApproval.RUN, True)])
def test_an_agent_that_asks_where_nobody_is_asked_gets_an_answer(policy: OnApproval, allowed: bool) -> None:
    turn = Turn(features=AGENT, on_approval=policy)
    turn.hear(ASKED)
    effect = turn.flying[f"answer/{AGENT_WAIT}"]
    assert isinstance(effect, AnswerBackend)
    assert effect.allowed is allowed
    turn.land(effect.key, Failed(error="it has gone"))
    assert not turn.state.open.keys() - {"call/1"}


def test_an_agent_nobody_answers_is_refused() -> None:
    turn = Turn(features=AGENT, approval_timeout_ms=5)
    turn.hear(ASKED)
    turn.time_up(f"expire/{AGENT_WAIT}")
    effect = turn.flying[f"answer/{AGENT_WAIT}"]
    assert isinstance(effect, AnswerBackend)
    assert not effect.allowed


def test_an_agent_that_has_ended_asks_no_more() -> None:
    turn = Turn(features=AGENT)
    turn.hear(ASKED, Completed())
    assert not turn.state.common.waits
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
