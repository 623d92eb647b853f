"""The untyped wire, wherever a payload puts what it says."""

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
    NotUnderstood,
    Paused,
    Said,
    Spent,
    Structured,
    Thought,
    Titled,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.parts import json_in
from pilothouse.core.chat.untyped import UntypedReader


def read(*events: dict[str, Any]) -> list[BackendEvent]:
    reader = UntypedReader()
    return [found for event in events for found in reader.read(json.dumps(event).encode())]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content", "data": "hi"},
        {"type": "content", "data": {"content": "hi"}},
        {"type": "content", "data": {"data": "hi"}},
        {"type": "content", "content": "hi"},
    ],
)
def test_a_piece_of_the_answer_stands_in_any_of_four_places(event: dict[str, Any]) -> None:
    assert read(event) == [Said("hi")]


def test_text_that_looks_like_json_stays_text() -> None:
    assert read({"type": "content", "data": '{"content": "no"}'}) == [Said('{"content": "no"}')]


def test_a_thought_has_bounds_and_pieces() -> None:
    assert read(
        {"type": "reasoning", "data": {"phase": "start"}},
        {"type": "reasoning", "data": {"data": "hm"}},
        {"type": "reasoning", "content": "m"},
        {"type": "reasoning", "phase": "end"},
    ) == [Thought(begins=True), Thought("hm"), Thought("m"), Thought(ends=True)]


CALL = {"id": "t1", "name": "edit", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    "event",
    [
        {"data": CALL},
        {"data": json.dumps(CALL)},
        {"data": {"data": CALL}},
        {"data": {"data": json.dumps(CALL)}},
        {"toolCallId": "t1", "toolName": "edit", "data": {"input": {"a": 1}}},
        {"data": {"toolCallId": "t1", "toolName": "edit", "arguments": '{"a": 1}'}},
    ],
)
def test_a_call_is_found_wherever_it_stands(event: dict[str, Any]) -> None:
    assert read({"type": "tool_call", **event}) == [ToolCalled(id="t1", name="edit", arguments={"a": 1})]


def test_a_partial_call_says_so_and_its_arguments_may_come_in_pieces() -> None:
    assert read(
        {"type": "tool_generating", "toolCallId": "t1", "toolName": "edit"},
        {"type": "tool_call", "data": {"id": "t1", "name": "edit", "partial": True}},
        {"type": "tool_call_delta", "toolCallId": "t1", "data": {"argumentsDelta": '{"a'}},
    ) == [
        ToolGenerating(id="t1", name="edit"),
        ToolCalled(id="t1", name="edit", partial=True),
        ToolArguments(id="t1", delta='{"a'),
    ]


@pytest.mark.parametrize(
    ("told", "success", "error"),
    [
        ({"data": {"id": "t", "success": True, "result": {"n": 1}}}, True, ""),
        ({"data": {"id": "t", "result": {"success": False}}}, False, "Tool execution failed"),
        ({"data": {"id": "t", "result": {"n": 1}}}, True, ""),
        ({"toolCallId": "t", "success": False, "error": "no"}, False, "no"),
        ({"toolCallId": "t", "data": {}}, False, "Tool execution failed"),
        ({"data": {"id": "t", "error": {"message": "no"}}}, False, "no"),
    ],
)
def test_a_result_succeeded_when_it_says_so_or_has_one_and_no_error(
    told: dict[str, Any], success: bool, error: str
) -> None:
    [found] = read({"type": "tool_result", **told})
    assert isinstance(found, ToolAnswered)
    assert (found.success, found.error) == (success, error)


def test_a_tool_error_has_a_default_text() -> None:
    assert read({"type": "tool_error", "data": {"id": "t"}}) == [
        ToolAnswered(id="t", success=False, error="Tool execution failed")
    ]


def test_events_of_subagents_at_work_at_the_same_time_are_told_apart_by_their_agent() -> None:
    assert read(
        {"type": "subagent_start", "subagent": "plan", "data": {"tool_call_id": "p"}},
        {"type": "subagent_start", "subagent": "edit", "data": {"tool_call_id": "e"}},
        {"type": "content", "subagent": "plan", "data": "a"},
        {"type": "content", "subagent": "edit", "data": "b"},
        {"type": "reasoning", "subagent": "edit", "data": {"data": "c"}},
        {"type": "subagent_end", "subagent": "edit"},
        {"type": "content", "subagent": "unheard of", "data": "d"},
        {"type": "subagent_end"},
        {"type": "content", "subagent": "plan", "data": "e"},
    ) == [
        LaneOpened(id="p", agent="plan"),
        LaneOpened(id="e", agent="edit"),
        Said("a", "p"),
        Said("b", "e"),
        Thought("c", "e"),
        LaneClosed(id="e"),
        Said("d", "p"),
        LaneClosed(id="p"),
        Said("e"),
    ]


def test_ids_and_titles_are_known_by_their_events() -> None:
    assert read(
        {"type": "start", "data": {"responseId": "r"}},
        {"type": "chat_id", "chatId": "c"},
        {"type": "chat_id", "data": {"chatId": "c"}},
        {"type": "title_updated", "title": "T"},
    ) == [ConversationKnown("r"), ChatKnown("c"), ChatKnown("c"), Titled("T")]


def test_the_end_may_bring_an_id_and_what_was_spent() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "model": "m"}
    assert read({"type": "done", "data": {"responseId": "r", "usage": usage, "cost": {"total": 0.1}}}) == [
        ConversationKnown("r"),
        Spent(input_tokens=3, output_tokens=2, model="m", cost=0.1),
        Completed(),
    ]


def test_an_end_that_waits_for_results_is_none() -> None:
    assert read({"type": "done", "data": {"async_pause": {"checkpointId": "c", "pendingToolCallIds": ["t"]}}}) == [
        Paused(checkpoint_id="c", pending=("t",))
    ]


@pytest.mark.parametrize(
    "told", [{"data": {"message": "no"}}, {"data": {"error": "no"}}, {"error": "no"}, {"data": "no"}]
)
def test_an_error_says_why_wherever_the_reason_stands(told: dict[str, Any]) -> None:
    assert read({"type": "error", **told}) == [Failed(message="no")]


def test_an_error_without_a_reason_says_that() -> None:
    assert read({"type": "error"}) == [Failed(message="the backend reported an error without a reason")]


def test_the_result_of_a_subagent_that_was_called_directly_is_structured() -> None:
    assert read({"type": "structured_result", "data": {"result_type": "plan", "summary": "s", "success": False}}) == [
        Structured(kind="plan", summary="s", success=False)
    ]


@pytest.mark.parametrize("payload", [b"", b"{", b"[1]", b'{"data": 1}', b'{"type": "new"}', b"\xff"])
def test_what_is_not_understood_is_told(payload: bytes) -> None:
    [found] = UntypedReader().read(payload)
    assert isinstance(found, NotUnderstood)


KINDS = st.sampled_from(
    [
        "content", "reasoning", "tool_generating", "tool_call", "tool_call_delta", "tool_result", "tool_error", "done",
        "subagent_start", "subagent_end", "structured_result", "start", "chat_id", "title_updated", "error", "new",
    ]
)  # fmt: skip
FIELDS = st.sampled_from(
    ["data", "id", "toolCallId", "toolName", "subagent", "success", "result", "error", "content", "phase", "arguments"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(KINDS, st.dictionaries(FIELDS, VALUES, max_size=5)), max_size=5))
def test_no_payload_breaks_it(events: list[tuple[str, dict[str, Any]]]) -> None:
    read(*({"type": kind, **fields} for kind, fields in events))


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_json_that_is_too_deep_to_be_read_is_not_understood_and_loses_nothing_else(levels: int) -> None:
    deep = b'{"type":"tool_result","toolCallId":"x","result":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    hello = b'{"type":"content","data":"hello"}'
    found = UntypedReader().read_all([hello, deep, hello])
    assert (found[0], found[2]) == (Said("hello"), Said("hello"))
    assert isinstance(found[1], NotUnderstood)


def test_text_that_is_too_deep_as_json_says_nothing() -> None:
    assert json_in("[" * 100_000) is None
