"""Tool calls of a turn: which are executed, by whom, and what becomes of each."""

from __future__ import annotations

import pytest
from tests.support.turns import TURN, Turn, names

from pilothouse.core.chat.backend import (
    Completed,
    Paused,
    Said,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.blocks import messages_of
from pilothouse.core.chat.calls import CallReason, CallStatus, Features, RunBy
from pilothouse.core.chat.effects import ReportTool, RunTool, TookTooLong
from pilothouse.core.chat.events import BackendCalled
from pilothouse.core.chat.flow import MOST_AT_ONCE
from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.chat.result import result_of
from pilothouse.core.chat.routing import SUBAGENTS
from pilothouse.core.chat.tool_events import ToolEnded
from pilothouse.core.run.contract import Failed
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.errors import Refused

REPORTS = Features(reports=True)


def test_tools_begin_at_once_and_side_by_side_while_text_goes_on() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), ToolCalled(id="b", name="write"))
    assert {"tool/a/1", "tool/b/1"} <= turn.flying.keys()
    turn.hear(Said("meanwhile"))
    assert result_of(turn.state).content == "meanwhile"


def test_a_tool_is_given_what_the_turn_knows() -> None:
    turn = Turn(workflow_id="w", workspace="/src", mode="create_plan")
    turn.hear(ToolCalled(id="a", name="look", arguments={"at": 1}))
    tool = turn.flying["tool/a/1"]
    assert isinstance(tool, RunTool)
    assert (tool.name, tool.arguments, tool.owner, tool.workflow_id) == ("look", {"at": 1}, "alice", "w")
    assert (tool.workspace, tool.mode, tool.turn_id, tool.chat_id) == ("/src", "create_plan", TURN, "chat-1")


def test_a_call_that_is_told_twice_is_executed_once() -> None:
    turn = Turn()
    call = ToolCalled(id="a", name="look", arguments={"n": 1})
    turn.hear(call, call)
    turn.hear(call)
    turn.answer_tool("a")
    turn.hear(call)
    assert [effect.key for effect in turn.begun if isinstance(effect, RunTool)] == ["tool/a/1"]
    assert turn.kinds().count("TOOL_CALLED") == 1


def test_a_call_is_known_however_many_came_after_it() -> None:
    turn = Turn()
    calls = [ToolCalled(id=f"c{number}", name="look", arguments={}) for number in range(1_500)]
    turn.hear(*calls)
    while flying := [key for key in turn.flying if key.startswith("tool/")]:
        turn.answer_tool(flying[0].split("/")[1])
    turn.hear(*calls)
    assert len([effect for effect in turn.begun if isinstance(effect, RunTool)]) == len(calls)
    turn.hear(Completed())
    other = Turn()
    other.hear(calls[0])
    assert "tool/c0/1" in other.flying, "another turn's ids are its own"


def test_a_call_whose_result_came_first_is_not_executed() -> None:
    turn = Turn()
    turn.hear(ToolAnswered(id="a", name="look", success=True, result=1))
    turn.hear(ToolCalled(id="a", name="look", arguments={"n": 1}))
    call = turn.state.calls["a"]
    assert (call.status, call.result, call.arguments) == (CallStatus.SUCCESS, 1, {"n": 1})
    assert "tool/a/1" not in turn.flying


def test_a_result_in_the_same_chunk_as_its_call_counts() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="write"), ToolAnswered(id="a", success=False, error="no"))
    assert "tool/a/1" not in turn.flying
    assert (turn.state.calls["a"].status, turn.state.calls["a"].error) == (CallStatus.ERROR, "no")
    turn.hear(Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED, "the backend knows it: it is not brought again"


def test_an_echo_of_a_result_changes_nothing() -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolCalled(id="a", name="write"))
    assert turn.hear(ToolAnswered(id="a", success=False, error="early")) == []
    turn.answer_tool("a", "mine")
    assert turn.hear(ToolAnswered(id="a", success=True, result="theirs")) == []
    assert turn.state.calls["a"].result == "mine"


def test_a_partial_call_is_shown_and_never_executed() -> None:
    turn = Turn()
    turn.hear(ToolGenerating(id="a", name="write"), ToolCalled(id="a", name="write", arguments={"x": 1}, partial=True))
    block = messages_of(turn.state)[1].blocks[0]
    assert (block.status, block.arguments) == (CallStatus.GENERATING, {"x": 1})  # type: ignore[union-attr]  # a tool block
    turn.hear(Completed())
    assert turn.state.calls["a"].reason == "incomplete"
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


@pytest.mark.parametrize(
    ("final", "expected"),
    [({"x": 2}, {"x": 2}), ({}, {}), (None, {"x": 1})],
)
def test_the_last_frame_says_the_arguments(final: dict[str, int] | None, expected: dict[str, int]) -> None:
    turn = Turn()
    turn.hear(ToolArguments(id="a", name="look", delta='{"x"'))
    turn.hear(ToolArguments(id="a", delta=": 1"), ToolArguments(id="a", delta="}"))
    turn.hear(ToolCalled(id="a", name="look", arguments=final))
    assert turn.state.calls["a"].arguments == expected


@pytest.mark.parametrize("text", ['{"x": ', "[1]", "7", '"\ud800"'])
def test_arguments_that_are_no_object_are_an_error_of_the_call(text: str) -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolArguments(id="a", name="look", delta=text), ToolCalled(id="a", name="look"))
    assert turn.state.calls["a"].reason == "bad_arguments"
    assert isinstance(turn.flying["report/a"], ReportTool)


def test_a_tool_that_is_not_offered_is_not_found() -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolCalled(id="a", name="format_disk"))
    call = turn.state.calls["a"]
    assert (call.status, call.reason, call.error) == (CallStatus.ERROR, "not_found", "Tool not found: format_disk")
    report = turn.flying["report/a"]
    assert isinstance(report, ReportTool)
    assert (report.status, report.message) == (500, "Tool not found: format_disk")


def test_a_denied_tool_is_skipped() -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolCalled(id="a", name="never"))
    assert (turn.state.calls["a"].status, turn.state.calls["a"].reason) == (CallStatus.SKIPPED, "not_permitted")
    report = turn.flying["report/a"]
    assert isinstance(report, ReportTool)
    assert (report.status, report.data) == (400, {"skipped": True, "reason": "not_permitted"})


@pytest.mark.parametrize("lane", ["", "p"])
@pytest.mark.parametrize("name", sorted(SUBAGENTS))
def test_the_backends_own_agents_are_not_executed_here(name: str, lane: str) -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name=name, lane=lane))
    turn.hear(ToolCalled(id="b", name=f"{name}_respond", lane=lane))
    assert turn.state.calls["a"].status is CallStatus.EXECUTING
    assert turn.state.calls["b"].status is CallStatus.SUCCESS, "there is nothing to execute"
    turn.hear(ToolAnswered(id="a", success=True, result="ok"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_a_tool_of_ours_by_the_name_of_an_agent_is_ours() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look", executor="go"), ToolCalled(id="b", name="look", executor="sim"))
    assert [turn.state.calls[one].run_by for one in "ab"] == [RunBy.BACKEND, RunBy.SERVER]


def test_what_an_agent_tells_of_is_its_own_to_execute() -> None:
    turn = Turn(features=Features(own_tools=True))
    turn.hear(ToolCalled(id="a", name="look"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.state.calls["a"].status is CallStatus.SUCCESS


def test_a_call_that_went_through_a_gateway_is_executed_under_its_own_name() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="call_integration_tool", executor="go"))
    turn.hear(ToolCalled(id="a", name="look", executor="sim"))
    turn.hear(ToolCalled(id="a", name="look", executor="sim"))
    assert [effect.key for effect in turn.begun if isinstance(effect, RunTool)] == ["tool/a/1"]
    turn.hear(ToolCalled(id="a", name="write", executor="sim"))
    assert turn.kinds()[-1] == "TURN_NOTICED"


def test_a_failed_tool_is_told_to_the_backend_and_the_turn_goes_on() -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolCalled(id="a", name="look"), ToolCalled(id="b", name="look"), ToolCalled(id="c", name="look"))
    turn.answer_tool("a", None, ok=False, error="no such thing")
    turn.land("tool/b/1", Failed(error="internal error"))
    turn.land("tool/c/1", TookTooLong())
    assert [(call.status, call.error) for call in result_of(turn.state).tool_calls] == [
        (CallStatus.ERROR, "no such thing"),
        (CallStatus.ERROR, "internal error"),
        (CallStatus.ERROR, "look took longer than 60 s"),
    ]
    assert turn.state.calls["c"].reason == "watchdog"
    turn.hear(Said("anyway"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_each_end_is_reported_once_also_when_the_turn_has_ended() -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolCalled(id="a", name="look"))
    turn.answer_tool("a", {"x": 1})
    report = turn.flying["report/a"]
    assert isinstance(report, ReportTool)
    assert (report.status, report.data) == (200, {"x": 1})
    turn.hear(Completed())
    assert turn.row is not None
    assert (turn.row.lifecycle, turn.row.detail["owed"]) == (Lifecycle.SUCCEEDED, 1)
    assert names(turn.land("report/a", Failed(error="gone for good"))) == ["TOOL_REPORTED"]
    assert turn.row.detail["owed"] == 0
    assert not turn.todo


def test_the_workflow_a_tool_makes_is_that_of_the_tools_after_it() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"), ToolCalled(id="b", name="look"))
    turn.answer_tool("a", workflow_id="w1", runs=("plan-1",))
    turn.answer_tool("b", workflow_id="w2")
    turn.hear(ToolCalled(id="c", name="look"))
    effect = turn.flying["tool/c/1"]
    assert isinstance(effect, RunTool)
    assert effect.workflow_id == "w1"
    assert messages_of(turn.state)[1].blocks[0].runs == ("plan-1",)  # type: ignore[union-attr]  # a tool block


def test_a_result_that_is_no_json_is_told_as_text() -> None:
    turn = Turn()
    turn.hear(ToolCalled(id="a", name="look"))
    turn.answer_tool("a", {"set": {1}, "odd": object})
    ended = turn.last(ToolEnded)
    assert ended.status is CallStatus.SUCCESS
    assert ended.result["set"] == [1] or ended.result["set"] == "{1}"


def test_without_automatic_execution_calls_are_left_to_the_sender() -> None:
    turn = Turn(auto_execute=False)
    turn.hear(Said("Run this: "), ToolCalled(id="a", name="write"), ToolCalled(id="b", name="theirs"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    result = result_of(turn.state)
    assert (result.success, result.requires_action) == (True, True)
    assert [call.status for call in result.tool_calls] == [CallStatus.PENDING, CallStatus.PENDING]
    assert not turn.todo


def test_without_automatic_execution_a_pause_ends_the_turn() -> None:
    turn = Turn(auto_execute=False)
    turn.hear(ToolCalled(id="a", name="write"), Paused(checkpoint_id="c", pending=("a",)))
    assert result_of(turn.state).requires_action
    assert turn.state.last is not None
    assert turn.state.last.paused_at == "c"


def test_without_automatic_execution_a_backend_that_waits_is_told_not_to() -> None:
    turn = Turn(auto_execute=False, features=REPORTS)
    turn.hear(ToolCalled(id="a", name="write"))
    report = turn.flying["report/a"]
    assert isinstance(report, ReportTool)
    assert (report.status, report.data) == (202, {"background": True})
    turn.land("report/a", Failed(error="x"))
    turn.hear(Said("Over to you"), Completed())
    assert result_of(turn.state).requires_action


def test_results_of_an_earlier_turn_go_with_the_first_request() -> None:
    turn = Turn(checkpoint_id="c0")
    assert turn.last(BackendCalled).checkpoint_id == "c0"


CLIENT = ToolCalled(id="a", name="open_tab", ui={"clientExecutable": True})


def test_a_call_for_the_client_waits_for_what_it_brings() -> None:
    turn = Turn()
    turn.hear(CLIENT, Completed())
    assert turn.state.calls["a"].run_by is RunBy.CLIENT
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.tell(Confirm(tool_call_id="a", status="accepted", by="alice"))
    assert turn.state.calls["a"].status is CallStatus.EXECUTING
    turn.tell(Confirm(tool_call_id="a", status="success", by="alice", result={"tab": 1}))
    assert turn.last(BackendCalled).results == ("a",)
    with pytest.raises(Refused):
        turn.tell(Confirm(tool_call_id="a", status="error", by="alice"))


@pytest.mark.parametrize(
    ("status", "ends"),
    [("rejected", CallStatus.REJECTED), ("error", CallStatus.ERROR), ("success", CallStatus.SUCCESS)],
)
def test_a_client_says_how_its_call_ended(status: str, ends: CallStatus) -> None:
    turn = Turn()
    turn.hear(CLIENT)
    turn.tell(Confirm(tool_call_id="a", status=status, by="alice"))
    assert turn.state.calls["a"].status is ends


def test_a_call_for_the_client_is_skipped_where_there_is_none() -> None:
    turn = Turn(headless=True)
    turn.hear(CLIENT, Completed())
    assert turn.state.calls["a"].reason == "no_client"
    assert turn.last(BackendCalled).reason is CallReason.RESULTS


def test_a_tool_of_the_senders_own_is_left_to_the_sender_beside_those_that_run_here() -> None:
    turn = Turn(features=REPORTS, headless=True)
    turn.hear(ToolCalled(id="a", name="tab"), ToolCalled(id="b", name="write"), Completed())
    assert turn.flying["report/a"].status == 202  # type: ignore[attr-defined]  # a report
    turn.land("report/a", Failed(error="x"))
    assert turn.lifecycle() is Lifecycle.RUNNING
    turn.answer_tool("b")
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert result_of(turn.state).requires_action


def test_a_backend_is_told_once_of_a_call_that_is_left_to_the_sender() -> None:
    turn = Turn(features=REPORTS)
    turn.hear(ToolCalled(id="a", name="tab"))
    turn.land("report/a", Failed(error="x"))
    turn.tell(Confirm(tool_call_id="a", status="success", by="alice", result=1))
    assert "report/a" not in turn.todo


def test_a_flood_of_calls_is_executed_some_at_a_time() -> None:
    turn = Turn()
    turn.hear(*(ToolCalled(id=str(n), name="look") for n in range(MOST_AT_ONCE + 2)), Completed())
    assert sum(isinstance(effect, RunTool) for effect in turn.flying.values()) == MOST_AT_ONCE
    for n in range(MOST_AT_ONCE + 2):
        turn.answer_tool(str(n))
    assert len(turn.last(BackendCalled).results) == MOST_AT_ONCE + 2
