"""How a conversation is put together for a model: as every provider accepts it, whatever became of its turns."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from tests.adapters.backends.llm.asking import request

from pilothouse.adapters.backends.llm.conversation import GO_ON, conversation
from pilothouse.core.chat.calls import CallReason, CallStatus, GivenResult
from pilothouse.core.chat.message import Block, Message, SteeringBlock, TextBlock, ThinkingBlock, ToolBlock


def user(text: str, turn: str = "t0", **more: Any) -> Message:
    return Message(id=f"m-{turn}", role="user", content=text, turn_id=turn, at=0, **more)


def assistant(*blocks: Block, turn: str = "t0", **more: Any) -> Message:
    text = "".join(one.text for one in blocks if isinstance(one, TextBlock))
    return Message(id=turn, role="assistant", content=text, turn_id=turn, at=0, blocks=blocks, **more)


def told(messages: list[ModelMessage]) -> list[tuple[str, Any]]:
    """What each part says, with who says it."""
    said: list[tuple[str, Any]] = []
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart(content=content):
                    said.append(("user", content if isinstance(content, str) else list(content)))
                case TextPart(content=text):
                    said.append(("model", text))
                case ToolCallPart():
                    said.append(("call", (part.tool_call_id, part.tool_name, part.args_as_dict())))
                case ToolReturnPart():
                    said.append(("return", (part.tool_call_id, part.outcome, part.content)))
    return said


def alternates(messages: list[ModelMessage]) -> bool:
    kinds = [isinstance(one, ModelRequest) for one in messages]
    return kinds == [index % 2 == 0 for index in range(len(kinds))] and kinds[-1]


def done(id: str, call: int = 1, **more: Any) -> ToolBlock:
    given: dict[str, Any] = {"name": "look", "status": CallStatus.SUCCESS, "result": {"n": 1}, **more}
    return ToolBlock(id=id, call=call, **given)


def test_a_first_message_is_one_question_with_its_instructions() -> None:
    messages = conversation(request("Hello", instructions="Be brief."))
    assert told(messages) == [("user", "Hello")]
    assert isinstance(messages[0], ModelRequest)
    assert messages[0].instructions == "Be brief."


def test_earlier_turns_are_told_in_order_with_their_tools_by_request() -> None:
    history = (
        user("One"),
        assistant(
            ThinkingBlock(text="hm", call=1),
            TextBlock(text="Looking.", call=1),
            done("a", 1, arguments={"q": "x"}),
            done("b", 1, status=CallStatus.ERROR, error="no such thing"),
            SteeringBlock(id="s", text="Hurry", call=2),
            TextBlock(text="Found.", call=2),
        ),
    )
    messages = conversation(request("Two", history=history))
    assert told(messages) == [
        ("user", "One"),
        ("model", "Looking."),
        ("call", ("a", "look", {"q": "x"})),
        ("call", ("b", "look", {})),
        ("return", ("a", "success", '{"n":1}')),
        ("return", ("b", "failed", "no such thing")),
        ("user", "Hurry"),
        ("model", "Found."),
        ("user", "Two"),
    ]
    assert alternates(messages)


def test_this_turn_goes_on_with_its_results_and_what_was_said_meanwhile() -> None:
    blocks = (TextBlock(text="Looking.", call=1), done("a"), SteeringBlock(id="s", text="Hurry", call=2))
    asked = request("Go", call=2, reason=CallReason.RESULTS, blocks=blocks, steering=("Hurry",))
    assert told(conversation(asked)) == [
        ("user", "Go"),
        ("model", "Looking."),
        ("call", ("a", "look", {})),
        ("return", ("a", "success", '{"n":1}')),
        ("user", "Hurry"),
    ]


@pytest.mark.parametrize(
    ("status", "reason", "outcome", "words"),
    [
        (CallStatus.REJECTED, "user_rejected", "denied", "did not allow"),
        (CallStatus.REJECTED, "timeout", "denied", "Nobody answered"),
        (CallStatus.SKIPPED, "not_permitted", "denied", "not permitted"),
        (CallStatus.CANCELLED, "stopped", "interrupted", "ended before"),
        (CallStatus.BACKGROUND, "", "success", "background"),
        (CallStatus.PENDING, "", "interrupted", "not executed"),
        (CallStatus.EXECUTING, "", "interrupted", "still running"),
        (CallStatus.AWAITING_APPROVAL, "", "denied", "not executed"),
    ],
)
def test_a_call_without_a_result_has_one_in_words(status: CallStatus, reason: str, outcome: str, words: str) -> None:
    history = (user("One"), assistant(done("a", status=status, reason=reason, result=None)))
    (returned,) = [said for who, said in told(conversation(request("Two", history=history))) if who == "return"]
    assert returned[:2] == ("a", outcome)
    assert words in returned[2]


def test_a_call_whose_arguments_never_came_whole_is_left_out() -> None:
    history = (user("One"), assistant(ToolBlock(id="a", name="look")))
    messages = conversation(request("Two", history=history))
    assert [who for who, _ in told(messages)] == ["user", "model", "user"]
    assert alternates(messages)


def test_a_turn_that_brought_nothing_leaves_an_answer_that_says_so() -> None:
    history = (user("One"), assistant(status="failed", error="no connection"))
    messages = conversation(request("Two", history=history))
    assert told(messages)[1] == ("model", "(no answer: no connection)")
    assert alternates(messages)


def test_ids_that_turns_share_are_told_apart_and_other_backends_letters_are_replaced() -> None:
    history = (
        user("One", "t0"),
        assistant(done("a.1/x"), turn="t0"),
        user("Two", "t1"),
        assistant(done("a.1/x"), turn="t1"),
    )
    said = told(conversation(request("Three", history=history)))
    assert [one[0] for who, one in said if who == "call"] == ["a_1_x", "a_1_x_2"]
    assert [one[0] for who, one in said if who == "return"] == ["a_1_x", "a_1_x_2"]


def test_results_that_somebody_else_brings_take_the_place_of_their_pending_calls() -> None:
    history = (user("One"), assistant(done("a", status=CallStatus.PENDING, result=None)))
    asked = request("", history=history, results=(GivenResult(id="a", name="look", result="42"),))
    messages = conversation(asked)
    assert told(messages)[-1] == ("return", ("a", "success", "42"))
    assert alternates(messages)


def test_results_that_an_earlier_message_brought_stay_known() -> None:
    history = (
        user("One"),
        assistant(done("a", status=CallStatus.PENDING, result=None)),
        user("", "t1", results=(GivenResult(id="a", name="look", result="42"),)),
        assistant(TextBlock(text="It is 42."), turn="t1"),
    )
    messages = conversation(request("Two", history=history))
    assert ("return", ("a", "success", "42")) in told(messages)
    assert alternates(messages)


def test_results_of_calls_nobody_knows_are_told_all_the_same() -> None:
    asked = request("Well?", results=(GivenResult(id="z", name="look", ok=False, error="gone"),))
    assert told(conversation(asked)) == [("user", ["Result of the call z (look): gone", "Well?"])]


def test_what_subagents_said_stays_with_them() -> None:
    blocks = (done("a"), TextBlock(text="inside", call=1, lane="a"), done("b", lane="a"))
    said = told(conversation(request("Go", call=2, blocks=blocks)))
    assert [who for who, _ in said] == ["user", "call", "return"]


def test_without_tools_calls_are_told_as_text() -> None:
    """Providers refuse calls of tools where none are offered."""
    history = (user("One"), assistant(TextBlock(text="Hm.", call=1), done("a", arguments={"q": "x"})))
    said = told(conversation(request("Two", history=history, tools=())))
    assert {who for who, _ in said} == {"user", "model"}
    assert '{"q":"x"}' in said[2][1]
    assert '{"n":1}' in said[2][1]


def test_a_turn_that_was_stopped_is_asked_to_go_on() -> None:
    asked = request("Go", call=2, reason=CallReason.RESUMED, blocks=(TextBlock(text="Half", call=1),))
    assert told(conversation(asked)) == [("user", "Go"), ("model", "Half"), ("user", GO_ON)]


def test_a_summary_stands_for_all_before_its_turn() -> None:
    history = (
        user("One", "t0"),
        assistant(TextBlock(text="1"), turn="t0"),
        user("Two", "t1"),
        assistant(TextBlock(text="2"), turn="t1", compaction="They counted."),
    )
    said = told(conversation(request("Three", history=history)))
    assert "They counted." in str(said[0])
    assert "One" not in str(said)
    assert said[-2:] == [("model", "2"), ("user", "Three")]
    assert "Two" in str(said)


def test_a_long_result_is_cut_and_says_so() -> None:
    blocks = (done("a", result="x" * 200_000),)
    (returned,) = [one for who, one in told(conversation(request(call=2, blocks=blocks))) if who == "return"]
    assert len(returned[2]) < 101_000
    assert "more characters are left out" in returned[2]


def test_context_and_attachments_go_with_the_message() -> None:
    image = base64.b64encode(b"\x89PNG").decode()
    asked = request(
        "What is this?",
        context=({"type": "file", "content": "print(1)"},),
        attachments=(
            {"name": "a.txt", "mimeType": "text/plain", "text": "words"},
            {"name": "b.txt", "mimeType": "text/plain", "data": base64.b64encode(b"coded").decode()},
            {"name": "c.png", "mimeType": "image/png", "data": image},
            {"filename": "d.png", "url": f"data:image/png;base64,{image}"},
            {"name": "e.pdf", "mimeType": "application/pdf", "data": base64.b64encode(b"\xff\xfe").decode()},
        ),
    )
    ((_, contents),) = told(conversation(asked))
    assert contents[0] == '<context name="file">\nprint(1)\n</context>'
    assert contents[1] == '<attachment name="a.txt">\nwords\n</attachment>'
    assert contents[2] == '<attachment name="b.txt">\ncoded\n</attachment>'
    assert [one.data for one in contents if isinstance(one, BinaryContent)] == [b"\x89PNG"] * 2
    assert "e.pdf" in contents[5]
    assert contents[-1] == "What is this?"


def test_every_conversation_ends_with_a_question_and_alternates() -> None:
    history = (user("One"), assistant(), user("", "t1"), assistant(TextBlock(text="2"), turn="t1"))
    messages = conversation(request("", history=history))
    assert alternates(messages)
    assert isinstance(messages[-2], ModelResponse)
