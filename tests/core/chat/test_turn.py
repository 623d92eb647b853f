"""A turn from its message to its end, without anything going wrong."""

from __future__ import annotations

from tests.support.turns import TOOLS, Turn, names, say

from pilothouse.core.chat.backend import (
    ChatKnown,
    Completed,
    ConversationKnown,
    Noticed,
    NotUnderstood,
    Paused,
    Said,
    Spent,
    Structured,
    Thought,
    Titled,
    ToolCalled,
)
from pilothouse.core.chat.blocks import messages_of
from pilothouse.core.chat.calls import CallReason, Features
from pilothouse.core.chat.effects import CallBackend, MakeTitle, Title
from pilothouse.core.chat.events import (
    BackendCalled,
    StructuredResult,
    TextDelta,
    TitleUpdated,
    TurnNoticed,
)
from pilothouse.core.chat.hear import MOST_NOTICES
from pilothouse.core.chat.message import TextBlock, ThinkingBlock, ToolBlock
from pilothouse.core.chat.result import result_of
from pilothouse.core.run.contract import Failed
from pilothouse.core.run.lifecycle import Lifecycle


def test_a_message_asks_the_backend_at_once() -> None:
    turn = Turn()
    assert turn.kinds() == ["RUN_CREATED", "TURN_RECEIVED", "RUN_STARTED", "BACKEND_CALLED"]
    call = turn.flying["call/1"]
    assert isinstance(call, CallBackend)
    assert (call.reason, call.message, call.tools) == (CallReason.FIRST, "hello", tuple(tool.name for tool in TOOLS))
    assert turn.state.timers["timeout/1"].until == 61_000


def test_an_answer_without_tools_ends_the_turn() -> None:
    turn = Turn()
    turn.hear(Said("Hel"), Said("lo"))
    turn.hear(Said("!"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.kinds()[-2:] == ["BACKEND_ENDED", "RUN_FINISHED"]
    result = result_of(turn.state)
    assert (result.success, result.content, result.error, result.status) == (True, "Hello!", None, "succeeded")


def test_pieces_of_one_chunk_are_one_event_and_of_one_answer_one_block() -> None:
    turn = Turn()
    heard = turn.hear(Said("a"), Said("b"), Said("c"))
    turn.hear(Said("d"))
    assert heard == [TextDelta(text="abc")]
    assert messages_of(turn.state)[1].blocks == (TextBlock(text="abcd"),)


def test_what_is_told_between_two_pieces_stays_between_them() -> None:
    turn = Turn()
    turn.hear(Said("one "), Thought("hmm"), Said("two "), ToolCalled(id="a", name="look"), Said("three"))
    blocks = messages_of(turn.state)[1].blocks
    assert [type(block) for block in blocks] == [TextBlock, ThinkingBlock, TextBlock, ToolBlock, TextBlock]
    assert messages_of(turn.state)[1].content == "one two three"


def test_a_thought_outside_its_bounds_is_kept() -> None:
    turn = Turn()
    turn.hear(
        Thought("loose "), Thought("end"), Thought(begins=True), Thought("bound"), Thought(ends=True), Thought("x")
    )
    turn.hear(Completed())
    thoughts = [block for block in messages_of(turn.state)[1].blocks if isinstance(block, ThinkingBlock)]
    assert [(one.text, one.ended) for one in thoughts] == [("loose end", True), ("bound", True), ("x", True)]


def test_the_call_of_a_tool_brings_its_result_with_the_next_request() -> None:
    turn = Turn()
    turn.hear(Said("I look. "), ToolCalled(id="a", name="look", arguments={"at": 1}), Completed())
    turn.answer_tool("a", {"found": 2})
    called = turn.last(BackendCalled)
    assert (called.call, called.reason, called.results) == (2, CallReason.RESULTS, ("a",))
    effect = turn.flying["call/2"]
    assert isinstance(effect, CallBackend)
    assert [type(block) for block in effect.blocks] == [TextBlock, ToolBlock]
    turn.hear(Said("Two."), Completed())
    assert result_of(turn.state).content == "I look. Two."
    assert [block.call for block in messages_of(turn.state)[1].blocks] == [1, 1, 2]


def test_a_backend_that_was_told_of_its_tools_is_not_asked_again() -> None:
    turn = Turn(features=Features(reports=True))
    turn.hear(ToolCalled(id="a", name="look"))
    turn.answer_tool("a")
    turn.hear(Said("done"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED


def test_a_pause_waits_for_all_its_calls_and_brings_them_together() -> None:
    turn = Turn()
    turn.hear(
        ToolCalled(id="a", name="look"), ToolCalled(id="b", name="write"), Paused(checkpoint_id="c", pending=("a", "b"))
    )
    turn.answer_tool("b")
    assert turn.state.request is None
    assert "call/2" not in turn.flying
    turn.answer_tool("a")
    called = turn.last(BackendCalled)
    assert (called.checkpoint_id, called.results) == ("c", ("a", "b"))


def test_a_pause_for_a_call_nobody_was_told_of_is_answered() -> None:
    turn = Turn()
    turn.hear(Paused(checkpoint_id="c", pending=("ghost",)))
    assert turn.last(BackendCalled).results == ("ghost",)
    assert turn.state.calls["ghost"].reason == "not_found"


def test_usage_adds_up_also_after_the_end_of_a_request() -> None:
    turn = Turn()
    turn.hear(
        Spent(input_tokens=10, output_tokens=1, model="m", cost=0.5), ToolCalled(id="a", name="look"), Completed()
    )
    turn.hear(Said("too late"), Spent(input_tokens=5, model="m", cost=0.25), call=1)
    assert result_of(turn.state).usage["inputTokens"] == 15
    assert result_of(turn.state).usage["cost"] == 0.75
    assert result_of(turn.state).content == ""


def test_usage_without_a_price_has_no_cost() -> None:
    turn = Turn()
    turn.hear(Spent(input_tokens=10, model="m"), Spent(input_tokens=1, model="n", cost=1.0), Completed())
    usage = result_of(turn.state).usage
    assert usage["cost"] is None
    assert [(one["model"], one["cost"]) for one in usage["models"]] == [("m", None), ("n", 1.0)]


def test_what_the_backend_says_of_the_conversation_is_kept() -> None:
    turn = Turn()
    turn.hear(ConversationKnown("conv"), ConversationKnown("conv"), ChatKnown("theirs"), Titled(" A title "))
    turn.hear(Structured(kind="plan", summary="s", data={"x": 1}))
    result = result_of(turn.state)
    assert (result.conversation_id, result.title, result.chat_id) == ("conv", "A title", "chat-1")
    assert turn.kinds().count("CONVERSATION_KNOWN") == 1
    assert turn.last(StructuredResult).data == {"x": 1}


def test_a_title_is_made_beside_the_turn_and_owed_when_it_has_ended() -> None:
    turn = Turn(title=True)
    assert isinstance(turn.flying["title"], MakeTitle)
    turn.hear(Said("x"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.row is not None
    assert turn.row.detail["owed"] == 1
    assert list(turn.todo) == ["title"]
    assert names(turn.land("title", Title(title="Greeting"))) == ["TITLE_UPDATED"]
    assert turn.row.detail["owed"] == 0
    assert not turn.todo
    assert turn.state.title == "Greeting"


def test_a_title_that_cannot_be_made_is_not_owed_for_ever() -> None:
    turn = Turn(title=True)
    turn.land("title", Failed(error="no model"))
    assert turn.last(TitleUpdated) == TitleUpdated(error="no model", made=True)
    assert "title" not in turn.todo


def test_a_payload_that_was_not_understood_ends_nothing() -> None:
    turn = Turn()
    turn.hear(NotUnderstood(why="unknown type x", payload="{"), Said("on"), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.last(TurnNoticed).data == {"why": "unknown type x", "payload": "{"}


def test_notices_are_bounded_in_size_and_number() -> None:
    turn = Turn()
    turn.hear(Noticed(kind="resource_upsert", data={"id": "x" * 100_000}))
    assert len(str(turn.last(TurnNoticed).data)) < 3_000
    for _ in range(3):
        turn.hear(*[NotUnderstood(why="junk")] * MOST_NOTICES)
    assert turn.kinds().count("TURN_NOTICED") == MOST_NOTICES


def test_the_summary_of_a_compaction_is_kept_whole() -> None:
    turn = Turn()
    turn.hear(Noticed(kind="compaction_done", data={"summary": "s" * 50_000}))
    assert len(messages_of(turn.state)[1].compaction) == 50_000


def test_half_a_character_is_recorded_as_something_that_can_be() -> None:
    turn = Turn()
    turn.hear(Said("a\ud800b"), ToolCalled(id="t", name="look", arguments={"q": "\udfff", "n": float("nan")}))
    assert turn.state.calls["t"].arguments == {"q": "?", "n": None}
    assert result_of(turn.state).content == "a?b"


def test_a_backend_and_its_tools_cannot_go_round_for_ever() -> None:
    turn = Turn()
    while turn.lifecycle() is Lifecycle.RUNNING:
        assert turn.state.last is not None
        turn.hear(ToolCalled(id="own", name="mine", executor="go"), Paused(checkpoint_id="again"))
    result = result_of(turn.state)
    assert result.code == "too_many_calls"
    assert [call.status for call in result.tool_calls] == ["cancelled"], "its own work is over too"


def test_the_row_tells_lists_what_the_turn_is() -> None:
    turn = Turn(say(mode="research", model="m", workflow_id="w"))
    turn.hear(ToolCalled(id="a", name="nothing"), ToolCalled(id="b", name="look"), Completed())
    turn.answer_tool("b")
    assert turn.row is not None
    assert turn.row.counts == {"error": 1, "success": 1}
    assert turn.row.session_id == "chat-1"
    assert turn.row.detail == {
        "messageId": "m1",
        "model": "m",
        "mode": "research",
        "workflowId": "w",
        "headless": False,
        "conversationId": "",
    }
