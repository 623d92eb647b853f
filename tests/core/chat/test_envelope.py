"""The strict wire, and which wire a stream speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.chat.backend import (
    BackendEvent,
    ChatKnown,
    Completed,
    ConversationKnown,
    Failed,
    LaneClosed,
    LaneOpened,
    Noticed,
    NotUnderstood,
    Paused,
    Said,
    Spent,
    Thought,
    Titled,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.envelope import EnvelopeReader
from pilothouse.core.chat.wire import WireReader

LANE = {"lane": "subagent", "parentToolCallId": "p"}


def event(kind: str, payload: dict[str, Any], scope: dict[str, Any] | None = None) -> bytes:
    told = {"v": 1, "seq": 1, "ts": "", "stream": {"streamId": "s"}, "type": kind, "payload": payload}
    return json.dumps(told | ({"scope": scope} if scope else {})).encode()


def read(kind: str, payload: dict[str, Any], scope: dict[str, Any] | None = None) -> list[BackendEvent]:
    return EnvelopeReader().read(event(kind, payload, scope))


@pytest.mark.parametrize(
    ("kind", "payload", "found"),
    [
        ("session", {"kind": "start", "data": {"responseId": "r"}}, ConversationKnown("r")),
        ("session", {"kind": "chat", "chatId": "c"}, ChatKnown("c")),
        ("session", {"kind": "title", "title": "T"}, Titled("T")),
        ("text", {"channel": "assistant", "text": "hi"}, Said("hi", "p")),
        ("text", {"channel": "thinking", "text": "hm"}, Thought("hm", "p")),
        (
            "tool",
            {"phase": "call", "toolCallId": "t", "toolName": "n", "status": "generating"},
            ToolGenerating(id="t", name="n", lane="p"),
        ),
        (
            "tool",
            {"phase": "call", "toolCallId": "t", "toolName": "n", "arguments": {"a": 1}, "executor": "sim"},
            ToolCalled(id="t", name="n", arguments={"a": 1}, executor="sim", lane="p"),
        ),
        (
            "tool",
            {"phase": "args_delta", "toolCallId": "t", "argumentsDelta": "{"},
            ToolArguments(id="t", delta="{", lane="p"),
        ),
        (
            "tool",
            {"phase": "result", "toolCallId": "t", "success": True, "output": 1},
            ToolAnswered(id="t", success=True, result=1, lane="p"),
        ),
        (
            "tool",
            {"phase": "result", "toolCallId": "t", "status": "cancelled"},
            ToolAnswered(id="t", success=False, error="Tool execution failed", status="cancelled", lane="p"),
        ),
        ("span", {"event": "start", "agent": "a", "data": {"tool_call_id": "p"}}, LaneOpened(id="p", agent="a")),
        (
            "span",
            {"event": "start", "agent": "a", "data": {"tool_call_id": "q"}},
            LaneOpened(id="q", agent="a", lane="p"),
        ),
        ("span", {"event": "end"}, LaneClosed(id="p")),
        ("run", {"kind": "steering_applied"}, Noticed(kind="steering_applied", data={"kind": "steering_applied"})),
        ("error", {"message": "no", "code": "c", "displayMessage": "d"}, Failed(message="no", code="c", shown="d")),
    ],
)
def test_an_event_says(kind: str, payload: dict[str, Any], found: BackendEvent) -> None:
    assert read(kind, payload, LANE) == [found]


def test_a_pause_says_which_results_it_waits_for() -> None:
    told = {"kind": "checkpoint_pause", "checkpointId": "c", "runId": "r", "pendingToolCallIds": ["t"], "frames": [{}]}
    assert read("run", told) == [Paused(checkpoint_id="c", run_id="r", pending=("t",), frames=({},))]


def test_the_end_brings_what_was_spent_and_a_failure_its_reason() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "model": "m"}
    assert read("complete", {"status": "error", "reason": "no", "usage": usage, "cost": {"total": 0.5}}) == [
        Spent(input_tokens=3, output_tokens=2, model="m", cost=0.5),
        Failed(message="no"),
        Completed(status="error", reason="no"),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        event("new", {}),
        event("tool", {"phase": "call"}),
        event("resource", {"resource": {"id": " "}}),
        b'{"v": 2, "type": "text", "payload": {"text": "hi"}}',
    ],
)
def test_what_is_not_understood_is_told_and_the_turn_goes_on(payload: bytes) -> None:
    reader = EnvelopeReader()
    assert isinstance(reader.read(payload)[0], NotUnderstood)
    assert reader.read(event("text", {"text": "on"})) == [Said("on")]


@given(
    st.sampled_from(["session", "text", "tool", "span", "resource", "run", "error", "complete"]),
    st.dictionaries(
        st.sampled_from(["kind", "phase", "event", "data", "text", "toolCallId", "arguments", "resource", "usage"]),
        st.recursive(
            st.none() | st.booleans() | st.sampled_from(["start", "end", "call", "result", "x"]),
            lambda inner: st.dictionaries(st.sampled_from(["id", "kind", "data"]), inner, max_size=2),
            max_leaves=4,
        ),
    ),
)
def test_no_payload_breaks_it(kind: str, payload: dict[str, Any]) -> None:
    assert read(kind, payload)


def stream(*payloads: bytes) -> bytes:
    return b"".join(b"data: %s\n\n" % payload for payload in payloads)


def test_the_first_event_that_is_understood_says_which_wire_it_is() -> None:
    strict = WireReader()
    assert strict.feed(stream(b"noise", event("text", {"text": "a"})))[-1] == Said("a")
    assert strict.feed(stream(event("complete", {}))) == [Completed()]
    untyped = WireReader()
    assert untyped.feed(stream(b'{"type": "content", "data": "a"}')) == [Said("a")]
    assert untyped.feed(stream(b'{"type": "done"}', b"[DONE]")) == [Completed()]
    assert untyped.done


def test_a_stream_that_breaks_off_in_an_event_has_said_what_it_said() -> None:
    reader = WireReader()
    assert reader.feed(b'data: {"type": "content", "data": "a"}') == []
    assert reader.end() == [Said("a")]
