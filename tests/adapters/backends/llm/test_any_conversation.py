"""Whatever became of a conversation's turns, providers accept it: made-up ones by the hundred."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from tests.adapters.backends.llm.asking import LOOK, request

from pilothouse.adapters.backends.llm.compaction import transcript
from pilothouse.adapters.backends.llm.conversation import conversation
from pilothouse.core.chat.calls import CallStatus, GivenResult, RunBy
from pilothouse.core.chat.message import Message, SteeringBlock, TextBlock, ThinkingBlock, ToolBlock

TEXTS = st.text(max_size=8)
IDS = st.sampled_from(["a", "b", "c.d", "call_0", "", "ü" * 70])
CALLS = st.integers(1, 4)
LANES = st.sampled_from(["", "", "", "a"])
JSON = st.one_of(st.none(), TEXTS, st.dictionaries(TEXTS, st.integers(), max_size=2))
TOOLS = st.builds(
    ToolBlock,
    id=IDS,
    name=st.sampled_from(["look", "gone", "delegate"]),
    status=st.sampled_from(CallStatus),
    arguments=st.dictionaries(TEXTS, st.integers(), max_size=2),
    result=JSON,
    error=TEXTS,
    reason=st.sampled_from(["", "timeout", "user_rejected"]),
    call=CALLS,
    lane=LANES,
    run_by=st.sampled_from(RunBy),
)
BLOCKS = st.lists(
    st.one_of(
        TOOLS,
        TOOLS,
        st.builds(TextBlock, text=TEXTS, call=CALLS, lane=LANES),
        st.builds(ThinkingBlock, text=TEXTS, call=CALLS, lane=LANES),
        st.builds(SteeringBlock, id=IDS, text=TEXTS, call=st.integers(0, 4)),
    ),
    max_size=8,
    unique_by=lambda block: (type(block), getattr(block, "id", id(block))),
).map(tuple)
RESULTS = st.lists(st.builds(GivenResult, id=IDS, name=TEXTS, ok=st.booleans(), result=JSON, error=TEXTS), max_size=2)


def message(turn: int, role: str, text: str, blocks: tuple[Any, ...], summary: str) -> Message:
    return Message(
        id=f"m{turn}{role}", role=role, content=text, turn_id=f"h{turn}", at=0, blocks=blocks, compaction=summary
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    told: list[Message] = []
    for turn in range(draw(st.integers(0, 3))):
        told.append(message(turn, "user", draw(TEXTS), (), ""))
        told.append(message(turn, "assistant", draw(TEXTS), draw(BLOCKS), draw(st.sampled_from(["", "", "In short."]))))
    return tuple(told)


def check(messages: list[ModelMessage], tools: bool) -> None:
    assert [isinstance(one, ModelRequest) for one in messages] == [n % 2 == 0 for n in range(len(messages))]
    assert isinstance(messages[-1], ModelRequest)
    ids: set[str] = set()
    for number, said in enumerate(messages):
        assert said.parts
        if isinstance(said, ModelResponse):
            called = [part.tool_call_id for part in said.parts if isinstance(part, ToolCallPart)]
            after = [part.tool_call_id for part in messages[number + 1].parts if isinstance(part, ToolReturnPart)]
            assert called == after
            assert tools or not called
            assert not ids & set(called)
            assert len(set(called)) == len(called)
            assert all(id.isascii() and 0 < len(id) <= 64 for id in called)
            ids |= set(called)
        elif number == 0:
            assert not any(isinstance(part, ToolReturnPart) for part in said.parts)


@settings(max_examples=300, deadline=None)
@given(histories(), BLOCKS, RESULTS, st.integers(1, 5), TEXTS, TEXTS, st.booleans(), st.sampled_from(["", "Short."]))
def test_every_conversation_is_one_that_providers_accept(
    history: tuple[Message, ...],
    blocks: tuple[Any, ...],
    results: list[GivenResult],
    call: int,
    text: str,
    steering: str,
    tools: bool,
    summary: str,
) -> None:
    asked = request(
        text,
        history=history,
        blocks=blocks,
        results=tuple(results),
        call=call,
        steering=(steering,) if steering else (),
        tools=(LOOK,) if tools else (),
    )
    check(conversation(asked, summary=summary), tools)
    check(conversation(asked, summary=summary, most=10), tools)
    assert len(transcript(history, 200)) < 300
