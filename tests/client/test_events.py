"""Whatever the server shows of a turn arrives typed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from pilothouse.client import events as typed
from pilothouse.client.events import ChatEvent, Unknown, read_event
from pilothouse.core.chat import events as chat
from pilothouse.core.chat import tool_events
from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.shown import Shown
from pilothouse.core.run.events import (
    Event,
    NeedsApproval,
    Recorded,
    RunCreated,
    RunFailed,
    RunFinished,
    RunStarted,
    WaitClosed,
)
from pilothouse.core.run.waits import Wait, WaitKind

TURN = "0192f0c1-0000-7000-8000-000000000001"


def shown(events: Iterable[Event]) -> list[ChatEvent]:
    """Events of a turn, as a client gets them."""
    fold = Shown(TURN)
    told = (fold.show(Recorded(run_id=TURN, seq=seq, at=0, event=event)) for seq, event in enumerate(events, 1))
    return [read_event(msgspec.json.encode(each)) for each in told if each is not None]


WAIT = Wait(
    id=f"{TURN}.c1",
    kind=WaitKind.APPROVAL,
    scope="c1",
    question="Run it?",
    options=("approve", "refuse"),
    detail={"toolCallId": "c1", "tool": "run_shell", "arguments": {"command": "ls"}, "chatId": "chat"},
    opened_at=0,
)
STORY: list[Event] = [
    RunCreated(kind="turn", owner="local", session_id="chat", name="Hello", cause="", root_run_id=TURN),
    RunStarted(leg=1),
    chat.TextDelta(text="Hi \u2028"),
    chat.ReasoningDelta(begins=True),
    chat.ReasoningDelta(text="hm"),
    tool_events.ToolCallGenerating(tool_call_id="c1", tool_name="run_shell"),
    tool_events.ToolCallArgs(tool_call_id="c1", delta='{"co'),
    tool_events.ToolCalled(tool_call_id="c1", tool_name="run_shell", arguments={"command": "ls"}, call=1),
    NeedsApproval(wait=WAIT, action="run_shell"),
    WaitClosed(wait_id=WAIT.id, answer="approve", by="local"),
    tool_events.ToolApproved(tool_call_id="c1", arguments={"command": "pwd"}),
    tool_events.ToolStarted(tool_call_id="c1"),
    chat.LaneOpened(tool_call_id="c1", agent="helper"),
    chat.TextDelta(text="inside", lane="c1"),
    chat.LaneClosed(tool_call_id="c1"),
    tool_events.ToolBackgrounded(tool_call_id="c1"),
    tool_events.ToolEnded(tool_call_id="c1", status=CallStatus.ERROR, error="no", reason="watchdog", runs=("r",)),
    chat.TitleUpdated(title="Greeting"),
    chat.StructuredResult(kind="plan", summary="s", data={"a": 1}),
    chat.UsageRecorded(call=1, model="m", input_tokens=3, output_tokens=4),
    chat.TurnNoticed(kind="compaction"),
    chat.TurnSteered(steering_id="s1", content="faster"),
    chat.SteeringApplied(steering_ids=("s1",)),
    RunFinished(),
]


def test_every_event_that_is_shown_is_known() -> None:
    unknown = [event for event in shown(STORY) if isinstance(event, Unknown)]
    assert unknown == []


def test_what_it_says_arrives_with_its_place() -> None:
    assert typed.Text(seq=3, stream_id=TURN, text="Hi \u2028") in shown(STORY)
    assert typed.ToolArguments(seq=7, stream_id=TURN, tool_call_id="c1", tool_name="run_shell", delta='{"co') in shown(
        STORY
    )


def test_an_approval_says_what_it_is_about_and_what_may_be_answered() -> None:
    (asked,) = (event for event in shown(STORY) if isinstance(event, typed.ApprovalRequired))
    assert asked.approval_id == WAIT.id
    assert (asked.tool_call_id, asked.tool_name, asked.options) == ("c1", "run_shell", ("approve", "refuse"))
    assert asked.arguments == {"command": "ls"}


def test_what_a_subagent_says_is_told_from_what_the_turn_says() -> None:
    (inside,) = (event for event in shown(STORY) if isinstance(event, typed.Text) and event.subagent)
    assert (inside.subagent, inside.parent_tool_call_id, inside.text) == ("helper", "c1", "inside")


def test_how_a_call_ended_is_told_with_the_reason() -> None:
    (ended,) = (event for event in shown(STORY) if isinstance(event, typed.ToolEnded))
    assert (ended.ok, ended.status, ended.error, ended.reason) == (False, CallStatus.ERROR, "no", "watchdog")
    assert ended.runs == ("r",)


def test_a_call_for_the_client_is_pending_at_the_end() -> None:
    called = tool_events.ToolCalled(tool_call_id="c1", tool_name="pick", call=1, run_by=RunBy.CLIENT)
    told = shown([*STORY[:2], called, RunFinished()])
    assert isinstance(told[-2], typed.ToolCalled) and told[-2].run_by is RunBy.CLIENT
    assert isinstance(told[-1], typed.Done) and told[-1].pending_tool_call_ids == ("c1",)


def test_a_failure_says_why_and_for_programs() -> None:
    told = shown([*STORY[:2], RunFailed(error="It broke", recoverable=True, summary={"code": "timeout"})])
    assert told[-1] == typed.Failed(
        seq=3, stream_id=TURN, message="It broke", display_message="It broke", code="timeout", recoverable=True
    )


@pytest.mark.parametrize(
    "said",
    [
        {"type": "of_tomorrow", "data": {"x": 1}, "eventId": 7},
        {"type": "content", "data": {"not": "text"}, "eventId": 7},
        {"type": "tool_call", "eventId": 7},
        {"eventId": 7},
        {"type": 3, "eventId": "seven"},
    ],
)
def test_what_a_newer_server_says_is_passed_on_as_it_is(said: dict[str, Any]) -> None:
    event = read_event(msgspec.json.encode(said))
    assert isinstance(event, Unknown)
    assert event.raw == said


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError):
        read_event(b"[1]")
    with pytest.raises(ValueError):
        read_event(b"{")
