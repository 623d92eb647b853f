"""What clients are shown of a turn: the chat document's events, one for one with the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pilothouse.core.chat import backend
from pilothouse.core.chat.calls import BackendEnd, CallReason, CallStatus, RunBy
from pilothouse.core.chat.events import (
    CHAT_EVENTS,
    BackendCalled,
    BackendEnded,
    ConversationKnown,
    LaneClosed,
    LaneOpened,
    ReasoningDelta,
    SteeringApplied,
    StructuredResult,
    TextDelta,
    TitleUpdated,
    TurnNoticed,
    TurnReceived,
    TurnSteered,
    TurnTimedOut,
    UsageRecorded,
)
from pilothouse.core.chat.shown import ENDS, SHOWN, Shown
from pilothouse.core.chat.tool_events import (
    ToolApproved,
    ToolBackgrounded,
    ToolCallArgs,
    ToolCalled,
    ToolCallGenerating,
    ToolEnded,
    ToolStarted,
)
from pilothouse.core.chat.wire import WireReader
from pilothouse.core.run.events import (
    Event,
    NeedsApproval,
    Recorded,
    RunCanceled,
    RunCreated,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Stopped,
    StopRequested,
    WaitClosed,
    WaitOpened,
)
from pilothouse.core.run.waits import Wait, WaitKind

TURN = "turn-1"
CREATED = RunCreated(kind="turn", name="hello", owner="ann", session_id="chat-1", root_run_id=TURN)
RECEIVED = TurnReceived(message_id="m-1", message="hello", backend="scripted")
BEGUN: tuple[Event, ...] = (CREATED, RECEIVED, RunStarted(), BackendCalled(call=1, reason=CallReason.FIRST))
DONE = (BackendEnded(call=1, end=BackendEnd.COMPLETE), RunFinished())


def show(events: Sequence[Event]) -> list[dict[str, Any]]:
    fold = Shown(TURN)
    recorded = [Recorded(TURN, seq, 1000 + seq, event) for seq, event in enumerate(events, 1)]
    return [shown for each in recorded if (shown := fold.show(each)) is not None]


def told(*events: Event) -> list[dict[str, Any]]:
    """What is shown of events in the middle of a turn."""
    return [shown for shown in show((*BEGUN, *events)) if shown["eventId"] > len(BEGUN)]


def kinds(shown: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in shown]


def test_a_turn_says_its_chat_first_and_done_last() -> None:
    shown = show(
        (*BEGUN, TextDelta(text="Hel"), TextDelta(text="lo."), ConversationKnown(conversation_id="c-9"), *DONE)
    )
    assert kinds(shown) == ["chat_id", "start", "content", "content", "done"]
    assert shown[0]["chatId"] == "chat-1"
    assert shown[1]["data"] == {"responseId": TURN, "messageId": "m-1", "leg": 1}
    assert "".join(each["data"] for each in shown if each["type"] == "content") == "Hello."
    ids = {"responseId": TURN, "conversationId": "c-9", "chatId": "chat-1"}
    assert shown[-1]["data"] == {**ids, "status": "complete"}


def test_each_carries_its_number_in_the_log_and_the_turn() -> None:
    shown = show((*BEGUN, TextDelta(text="a"), TurnTimedOut(timeout_ms=1), TextDelta(text="b")))
    assert [each["eventId"] for each in shown] == [1, 3, 5, 7]
    assert {each["streamId"] for each in shown} == {TURN}


def test_what_clients_have_no_use_for_is_left_out() -> None:
    assert told(StopRequested(), WaitClosed(wait_id="w")) == []


def test_that_the_backend_is_asked_again_is_told_with_the_reason_and_the_time_until_then() -> None:
    wait = Wait(id="w", kind=WaitKind.BACKOFF, detail={"error": "overloaded", "tries": 1}, lasts_ms=2000)
    (shown,) = told(WaitOpened(wait=wait), WaitClosed(wait_id="w"))
    assert (shown["type"], shown["kind"]) == ("notice", "backend_retry")
    assert shown["data"] == {"error": "overloaded", "tries": 1, "waitMs": 2000}
    assert told(TitleUpdated(error="no model")) == []
    assert told(ReasoningDelta()) == []


def test_a_tool_call_is_shown_from_its_first_letter_to_its_result() -> None:
    shown = told(
        ToolCallGenerating(tool_call_id="t", tool_name="get_workflow"),
        ToolCallArgs(tool_call_id="t", delta='{"id"'),
        ToolCalled(tool_call_id="t", tool_name="get_workflow", arguments={"id": "w"}, call=1),
        ToolStarted(tool_call_id="t"),
        ToolEnded(tool_call_id="t", status=CallStatus.SUCCESS, result={"name": "n"}, runs=("r",), workflow_id="w"),
    )
    assert kinds(shown) == ["tool_generating", "tool_call_delta", "tool_call", "tool_executing", "tool_result"]
    assert {(each["toolCallId"], each["toolName"]) for each in shown} == {("t", "get_workflow")}
    assert shown[1]["data"]["argumentsDelta"] == '{"id"'
    assert shown[2]["data"]["arguments"] == {"id": "w"}
    assert shown[2]["data"]["status"] == "pending"
    result = shown[4]
    assert (result["success"], result["result"]) == (True, {"name": "n"})
    assert (result["data"]["success"], result["data"]["result"]) == (True, {"name": "n"})
    assert (result["data"]["runs"], result["data"]["workflowId"]) == (("r",), "w")


@pytest.mark.parametrize("status", [CallStatus.ERROR, CallStatus.SKIPPED, CallStatus.REJECTED, CallStatus.CANCELLED])
def test_a_call_that_brought_nothing_says_why(status: CallStatus) -> None:
    called = ToolCalled(tool_call_id="t", tool_name="run_shell", call=1)
    [_, shown] = told(called, ToolEnded(tool_call_id="t", status=status, error="no", reason="stopped"))
    assert (shown["type"], shown["error"], shown["success"]) == ("tool_error", "no", False)
    assert (shown["data"]["status"], shown["data"]["reason"]) == (status.value, "stopped")
    [_, silent] = told(called, ToolEnded(tool_call_id="t", status=status))
    assert silent["error"] == status.value


def test_what_a_person_is_asked_and_what_was_decided_names_the_call() -> None:
    wait = Wait(
        id="turn-1.t",
        kind=WaitKind.APPROVAL,
        scope="t",
        question="May it write?",
        options=("approve", "refuse"),
        detail={"toolCallId": "t", "arguments": {"path": "a"}},
    )
    shown = told(
        ToolCalled(tool_call_id="t", tool_name="write_file", call=1),
        NeedsApproval(wait=wait, action="write_file", timeout=600_000),
        WaitClosed(wait_id="turn-1.t", answer="approve", by="ann", scope="once"),
        ToolApproved(tool_call_id="t", arguments={"path": "b"}, by="ann"),
        ToolBackgrounded(tool_call_id="t", by="ann"),
    )
    assert kinds(shown) == ["tool_call", "approval_required", "approval_resolved", "tool_approved", "tool_background"]
    assert {each["toolName"] for each in shown} == {"write_file"}
    asked = shown[1]["data"]
    assert (asked["approvalId"], asked["question"], asked["options"]) == ("turn-1.t", "May it write?", wait.options)
    assert asked["arguments"] == {"path": "a"}
    assert shown[2]["data"]["answer"] == "approve"
    assert shown[3]["data"]["arguments"] == {"path": "b"}


def test_what_an_agent_asks_for_its_own_tool_is_shown_too() -> None:
    wait = Wait(id="w", kind=WaitKind.APPROVAL, question="May it?", options=("approve", "refuse"))
    shown = told(NeedsApproval(wait=wait, action="Bash", request_id="r-1"), WaitClosed(wait_id="w", answer="refuse"))
    assert kinds(shown) == ["approval_required", "approval_resolved"]


def test_everything_of_a_subagent_says_so() -> None:
    shown = told(
        ToolCalled(tool_call_id="d", tool_name="debug", call=1, run_by=RunBy.BACKEND),
        LaneOpened(tool_call_id="d", agent="debug"),
        TextDelta(text="x", lane="d"),
        ReasoningDelta(text="hm", lane="d"),
        ToolCalled(tool_call_id="e", tool_name="edit", call=1, run_by=RunBy.BACKEND, lane="d"),
        LaneOpened(tool_call_id="e", agent="edit", lane="d"),
        ToolEnded(tool_call_id="e", status=CallStatus.SUCCESS),
        StructuredResult(kind="plan", summary="s", lane="e"),
        LaneClosed(tool_call_id="e"),
        LaneClosed(tool_call_id="d"),
    )
    lanes = [(each.get("subagent"), each.get("parentToolCallId")) for each in shown]
    debug, edit = ("debug", "d"), ("edit", "e")
    assert lanes == [(None, None), debug, debug, debug, debug, edit, debug, edit, edit, debug]
    assert shown[5]["data"] == {"tool_call_id": "e", "agent": "edit", "parent": "d"}


def test_the_rest_is_shown_as_it_is() -> None:
    shown = told(
        TitleUpdated(title="A chat"),
        UsageRecorded(call=1, model="m", input_tokens=10, output_tokens=2, cost=0.5),
        TurnNoticed(kind="compaction_done", data={"summaryChars": 3}),
        TurnSteered(steering_id="s", content="faster", by="ann"),
        SteeringApplied(steering_ids=("s",)),
        ReasoningDelta(begins=True),
        ReasoningDelta(text="hm"),
        ReasoningDelta(ends=True),
    )
    assert kinds(shown) == ["title_updated", "usage", "notice", "steered", "steering_applied", *["reasoning"] * 3]
    assert shown[0]["title"] == "A chat"
    assert shown[1]["data"]["inputTokens"] == 10
    assert shown[4]["data"]["steeringIds"] == ("s",)
    assert [each.get("phase") for each in shown[5:]] == ["start", None, "end"]


def test_calls_that_are_left_for_others_are_named_at_the_end() -> None:
    shown = told(
        ToolCalled(tool_call_id="a", tool_name="n", call=1),
        ToolCalled(tool_call_id="b", tool_name="n", call=1),
        ToolCalled(tool_call_id="c", tool_name="debug", call=1, run_by=RunBy.BACKEND),
        ToolEnded(tool_call_id="a", status=CallStatus.SUCCESS),
        *DONE,
    )
    assert (shown[-1]["data"]["requiresAction"], shown[-1]["data"]["pendingToolCallIds"]) == (True, ["b"])


@pytest.mark.parametrize(
    ("end", "kind", "status"),
    [
        (RunFinished(), "done", "complete"),
        (Stopped(), "done", "stopped"),
        (RunCanceled(reason="canceled"), "done", "cancelled"),
        (RunFailed(error="it broke", summary={"code": "backend_error"}), "error", None),
    ],
)
def test_a_leg_ends_with_exactly_one_done_or_error(end: Event, kind: str, status: str | None) -> None:
    shown = show((*BEGUN, TextDelta(text="a"), end, *([RunCanceled(reason="discarded")] if kind == "error" else [])))
    assert [each for each in kinds(shown) if each in ENDS] == [kind]
    assert shown[-1]["data"].get("status") == status


def test_an_error_says_what_people_and_what_programs_need() -> None:
    summary = {"code": "backend_error", "displayMessage": "Sorry."}
    [shown] = told(RunFailed(error="it broke", recoverable=True, summary=summary))
    assert shown["error"] == "it broke"
    data = shown["data"]
    assert (data["message"], data["displayMessage"], data["code"]) == ("it broke", "Sorry.", "backend_error")
    assert data["recoverable"] is True


def test_each_further_leg_begins_and_ends_once_more() -> None:
    shown = show((*BEGUN, Stopped(), RunResumed(leg=2), TextDelta(text="on"), RunFinished()))
    assert kinds(shown) == ["chat_id", "start", "done", "start", "content", "done"]
    assert shown[3]["data"]["leg"] == 2


def test_a_client_that_knows_the_documents_wire_understands_it() -> None:
    """What we send is read back by the reader of that wire."""
    shown = show(
        (
            *BEGUN,
            ReasoningDelta(text="hm"),
            TextDelta(text='{"not": "json"}'),
            ToolCallGenerating(tool_call_id="t", tool_name="debug"),
            ToolCalled(tool_call_id="t", tool_name="debug", arguments={"a": 1}, call=1, run_by=RunBy.BACKEND),
            LaneOpened(tool_call_id="t", agent="debug"),
            TextDelta(text="inside", lane="t"),
            LaneClosed(tool_call_id="t"),
            ToolEnded(tool_call_id="t", status=CallStatus.SUCCESS, result={"b": 2}),
            TitleUpdated(title="A chat"),
            *DONE,
        )
    )
    reader = WireReader()
    read = reader.feed(
        b"".join(b"id: %d\ndata: %b\n\n" % (each["eventId"], msgspec.json.encode(each)) for each in shown)
    )
    assert read == [
        backend.ChatKnown("chat-1"),
        backend.ConversationKnown(TURN),
        backend.Thought("hm"),
        backend.Said('{"not": "json"}'),
        backend.ToolGenerating(id="t", name="debug"),
        backend.ToolCalled(id="t", name="debug", arguments={"a": 1}),
        backend.LaneOpened(id="t", agent="debug"),
        backend.Said("inside", "t"),
        backend.LaneClosed(id="t"),
        backend.ToolAnswered(id="t", name="debug", success=True, result={"b": 2}),
        backend.Titled("A chat"),
        backend.ConversationKnown(TURN),
        backend.Completed(),
    ]


def test_whoever_adds_an_event_says_whether_clients_see_it() -> None:
    unseen = {
        "BACKEND_CALLED",
        "BACKEND_ENDED",
        "BACKEND_ABORTING",
        "BACKEND_ABORTED",
        "BACKEND_ANSWERED",
        "PERMIT_REMEMBERED",
        "TOOL_REPORTED",
        "TURN_TIMED_OUT",
    }
    assert {cls.type_name() for cls in CHAT_EVENTS if cls not in SHOWN} == unseen


def test_who_only_takes_note_of_the_beginning_is_shown_the_same_rest() -> None:
    wait = Wait(id="w", kind=WaitKind.APPROVAL, scope="t")
    events = (
        *BEGUN,
        ReasoningDelta(text="hm"),
        ConversationKnown(conversation_id="c"),
        ToolCallGenerating(tool_call_id="t", tool_name="edit"),
        ToolCallArgs(tool_call_id="t", delta="{}"),
        ToolCalled(tool_call_id="t", tool_name="edit", call=1),
        NeedsApproval(wait=wait, action="edit"),
        LaneOpened(tool_call_id="t", agent="edit"),
        TextDelta(text="a", lane="t"),
        WaitClosed(wait_id="w", answer="approve"),
        LaneClosed(tool_call_id="t"),
        ToolEnded(tool_call_id="t", status=CallStatus.SUCCESS),
        Stopped(),
        RunResumed(leg=2),
        RunFinished(),
        RunCanceled(reason="discarded"),
    )
    recorded = [Recorded(TURN, seq, 1000, event) for seq, event in enumerate(events, 1)]
    whole = show(events)
    for cut in range(len(recorded)):
        fold = Shown(TURN)
        for each in recorded[:cut]:
            fold.follow(each)
        rest = [shown for each in recorded[cut:] if (shown := fold.show(each)) is not None]
        assert rest == [shown for shown in whole if shown["eventId"] > cut]
