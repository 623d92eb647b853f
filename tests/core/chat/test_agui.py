"""Whatever a turn does, each of the runs that show it is well-formed, and together they show all of it once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.chat import events as chat
from pilothouse.core.chat import tool_events
from pilothouse.core.chat.agui import Projection, interrupt_id, read_interrupt_id
from pilothouse.core.chat.agui_messages import messages_snapshot
from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.message import Message, TextBlock, ToolBlock
from pilothouse.core.run.events import (
    Event,
    NeedsApproval,
    Recorded,
    RunCanceled,
    RunFailed,
    RunFinished,
    RunStarted,
    Stopped,
    WaitClosed,
    WaitOpened,
)
from pilothouse.core.run.waits import Wait, WaitKind

TURN = "0192f0c1-0000-7000-8000-000000000001"
Shown = dict[str, Any]

LANES = st.sampled_from(["", "", "c1", "c2"])
CALLS = st.sampled_from(["c1", "c2", "c3"])


def asks(call: str) -> NeedsApproval:
    wait = Wait(
        id=f"{TURN}.{call}",
        kind=WaitKind.APPROVAL,
        scope=call,
        question="May it?",
        options=("approve", "refuse"),
        detail={"toolCallId": call, "arguments": {"a": 1}},
        opened_at=0,
    )
    return NeedsApproval(wait=wait, action="tool")


EVENTS = st.one_of(
    st.builds(chat.TextDelta, text=st.text(max_size=3), lane=LANES),
    st.builds(chat.ReasoningDelta, text=st.text(max_size=3), lane=LANES, begins=st.booleans(), ends=st.booleans()),
    st.builds(tool_events.ToolCallGenerating, tool_call_id=CALLS, tool_name=st.just("tool"), lane=LANES),
    st.builds(tool_events.ToolCalled, tool_call_id=CALLS, tool_name=st.just("tool"), lane=LANES, call=st.just(1)),
    st.builds(
        tool_events.ToolEnded, tool_call_id=CALLS, status=st.sampled_from([CallStatus.SUCCESS, CallStatus.ERROR])
    ),
    st.builds(chat.LaneOpened, tool_call_id=st.sampled_from(["c1", "c2"]), agent=st.just("helper")),
    st.builds(chat.LaneClosed, tool_call_id=st.sampled_from(["c1", "c2"])),
    st.builds(chat.UsageRecorded, call=st.just(1), model=st.sampled_from(["", "m"]), input_tokens=st.just(3)),
    st.builds(chat.TitleUpdated, title=st.text(max_size=2)),
    st.just(WaitOpened(wait=Wait(id=f"{TURN}.backoff.1", kind=WaitKind.BACKOFF, lasts_ms=250))),
)
ENDS = st.sampled_from([RunFinished(), Stopped(), RunCanceled(), RunFailed(error="no")])


def log(events: Iterable[Event]) -> list[Recorded]:
    started = [RunStarted(leg=1), *events]
    return [Recorded(run_id=TURN, seq=seq, at=0, event=event) for seq, event in enumerate(started, 1)]


def shown(recorded: Sequence[Recorded], run_id: str = "r", after: int = 0) -> list[Shown]:
    projection = Projection("t", run_id, TURN, after)
    found = [*projection.begin(), *(event for one in recorded for event in projection.show(one))]
    return found + (projection.interrupt() if projection.waits else projection.complete())


def kinds(events: Iterable[Shown]) -> list[str]:
    return [event["type"] for event in events]


PAIRS = {
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
    "SUBAGENT_STARTED": ("SUBAGENT_FINISHED", "subagentRunId"),
}
WITHIN = {
    "TEXT_MESSAGE_CONTENT": ("TEXT_MESSAGE_START", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("REASONING_MESSAGE_START", "messageId"),
    "TOOL_CALL_ARGS": ("TOOL_CALL_START", "toolCallId"),
}


def check_form(events: list[Shown]) -> None:
    """What the protocol asks of a run."""
    assert kinds(events)[0] == "RUN_STARTED"
    assert kinds(events)[-1] in ("RUN_FINISHED", "RUN_ERROR")
    assert sum(kind in ("RUN_FINISHED", "RUN_ERROR", "RUN_STARTED") for kind in kinds(events)) == 2
    still_open: set[tuple[str, str]] = set()
    named: set[str] = set()
    for event in events:
        kind = event["type"]
        if lane := event.get("subagentRunId"):
            assert kind == "SUBAGENT_STARTED" or ("SUBAGENT_STARTED", lane) in still_open, event
        if kind in PAIRS:
            name = event[PAIRS[kind][1]]
            if kind == "SUBAGENT_STARTED":
                assert name not in named, "used again"
                named.add(name)
            assert (kind, name) not in still_open, event
            still_open.add((kind, name))
        for opening, (closing, key) in PAIRS.items():
            if kind == closing:
                still_open.remove((opening, event[key]))
        if kind in WITHIN:
            opening, key = WITHIN[kind]
            assert (opening, event[key]) in still_open, event
            assert event["delta"] != ""
    assert not still_open


@given(st.lists(EVENTS, max_size=25), ENDS)
def test_a_turn_is_a_well_formed_run_however_it_ends(events: list[Event], end: Event) -> None:
    check_form(shown(log([*events, end])))


@given(st.lists(EVENTS, max_size=15), st.lists(EVENTS, max_size=15), ENDS)
def test_two_runs_around_an_interrupt_are_well_formed_and_say_everything_once(
    before: list[Event], later: list[Event], end: Event
) -> None:
    first_part = [*before, asks("c3")]
    whole = log([*first_part, *later, WaitClosed(wait_id=f"{TURN}.c3", answer="approve"), end])
    asked = len(first_part) + 1
    first = shown(whole[:asked], "r1")
    check_form(first)
    [interrupt] = first[-1]["outcome"]["interrupts"]
    position = read_interrupt_id(interrupt["id"])
    assert position == (TURN, f"{TURN}.c3", asked)
    second = shown(whole, "r2", position[2])
    check_form(second)
    for kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
        told = [event["delta"] for run in (first, second) for event in run if event["type"] == kind]
        assert told == [event["delta"] for event in shown(log([*before, *later, end])) if event["type"] == kind]


def test_an_interrupt_says_what_may_be_answered() -> None:
    called = tool_events.ToolCalled(tool_call_id="c1", tool_name="tool", call=1)
    [interrupt] = shown(log([called, asks("c1")]))[-1]["outcome"]["interrupts"]
    assert interrupt["toolCallId"] == "c1"
    assert interrupt["message"] == "May it?"
    assert interrupt["responseSchema"]["properties"]["answer"]["enum"] == ["approve", "refuse"]
    assert interrupt["metadata"]["arguments"] == {"a": 1}


def test_what_the_client_is_to_execute_is_pending() -> None:
    called = tool_events.ToolCalled(tool_call_id="c1", tool_name="pick", call=1, run_by=RunBy.CLIENT)
    assert shown(log([called, RunFinished()]))[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}


def test_a_run_that_comes_when_all_was_shown_says_so_and_ends() -> None:
    whole = log([chat.TextDelta(text="Hi"), RunFinished()])
    again = shown(whole, "r2", whole[-1].seq)
    assert kinds(again) == ["RUN_STARTED", "RUN_FINISHED"]


def test_how_an_end_is_told() -> None:
    assert shown(log([Stopped()]))[-1]["outcome"] == {"type": "cancelled"}
    failed = shown(log([RunFailed(error="It broke", summary={"code": "timeout"})]))[-1]
    assert failed == {"type": "RUN_ERROR", "message": "It broke", "code": "timeout"}


def test_an_interrupts_id_is_read_back_and_others_are_none() -> None:
    assert read_interrupt_id(interrupt_id("turn.call.with~signs", 7)) == ("turn", "turn.call.with~signs", 7)
    for strange in ("", "x", "turn.call", "turn.call~", "turn.call~x", "~1", f"a.b~{'9' * 30}"):
        assert read_interrupt_id(strange) is None


def test_a_conversation_is_a_list_of_messages() -> None:
    blocks = (
        TextBlock(text="I look."),
        ToolBlock(id="c1", name="look", status=CallStatus.SUCCESS, arguments={"n": 1}, result={"x": 1}),
        TextBlock(text="of a subagent", lane="c1"),
        ToolBlock(id="c2", name="ask", status=CallStatus.AWAITING_APPROVAL),
    )
    told = messages_snapshot(
        [
            Message(id="u", role="user", content="Look", turn_id=TURN, at=1),
            Message(id=TURN, role="assistant", content="I look.", turn_id=TURN, at=1, blocks=blocks),
        ]
    )
    assert [message["role"] for message in told] == ["user", "assistant", "assistant", "tool", "assistant"]
    assert told[3]["content"] == '{"x": 1}'
    assert told[2]["toolCalls"][0]["function"] == {"name": "look", "arguments": '{"n": 1}'}


def test_that_the_backend_is_asked_again_is_told() -> None:
    wait = Wait(id=f"{TURN}.backoff.1", kind=WaitKind.BACKOFF, detail={"error": "busy", "tries": 2}, lasts_ms=250)
    (said,) = Projection("thread", "run", TURN).show(Recorded(TURN, 2, 0, WaitOpened(wait=wait)))
    value = {"error": "busy", "tries": 2, "waitMs": 250}
    assert said == {"type": "CUSTOM", "name": "backend_retry", "value": value}
