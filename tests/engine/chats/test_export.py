"""A conversation as text for people: everything that was said and done, and nothing that breaks out of its place."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.chat.calls import CallStatus, GivenResult
from pilothouse.core.chat.message import Block, Message, SteeringBlock, TextBlock, ThinkingBlock, ToolBlock
from pilothouse.engine.chats.export import as_json, as_markdown
from pilothouse.engine.chats.values import ChatView

CHAT = ChatView(id="c", owner="ann", title="On trees")


def text(*blocks: Block, **more: Any) -> str:
    answer = Message(
        id="t", role="assistant", content="", turn_id="t", at=0, blocks=blocks, lanes={"c1": "research"}, **more
    )
    asked = Message(id="m", role="user", content="What is a tree?", turn_id="t", at=0)
    return as_markdown(CHAT, [asked, answer]).decode()


def test_what_was_said_stands_in_its_order() -> None:
    told = text(
        ThinkingBlock(text="hm\nwell"),
        TextBlock(text="It is "),
        TextBlock(text="found it", lane="c1"),
        SteeringBlock(id="s", text="shorter"),
        TextBlock(text="green."),
        status="failed",
        error="The backend stopped",
        model="large",
    )
    parts = ["# On trees", "What is a tree?", "(large, failed)", "> hm\n> well", "It is ", "*research*", "> found it"]
    parts += ["meanwhile:** shorter", "green.", "**Error:** The backend stopped"]
    positions = [told.index(part) for part in parts]
    assert positions == sorted(positions)


def test_an_export_ends_with_one_newline_and_an_error_stays_in_its_quote() -> None:
    assert text(TextBlock(text="green.\n\n")).endswith("\ngreen.\n")
    assert text(error="it broke\n# off").endswith("\n> **Error:** it broke\n> # off\n")
    assert as_json(CHAT, [], []).endswith(b"}\n")


def test_a_tool_is_shown_with_what_it_was_given_and_what_came_of_it() -> None:
    told = text(
        ToolBlock(id="a", name="look", status=CallStatus.SUCCESS, arguments={"at": "hülle"}, result={"found": 1}),
        ToolBlock(id="b", name="write", status=CallStatus.ERROR, error="disk full"),
    )
    assert '"at": "hülle"' in told
    assert '"found": 1' in told
    assert "**write** – error" in told
    assert "disk full" in told


@pytest.mark.parametrize("inside", ["```", "a ```` b", "`", "``````\n```"])
def test_no_value_closes_the_fence_around_it(inside: str) -> None:
    told = text(ToolBlock(id="a", name="look", status=CallStatus.SUCCESS, result=inside))
    fence = told.rstrip().splitlines()[-1]
    assert told.endswith(f"\n{fence}\n{inside}\n{fence}\n")
    assert set(fence) == {"`"}
    assert fence not in inside


def test_what_is_long_is_cut_and_what_is_no_text_is_kept_readable() -> None:
    told = text(ToolBlock(id="a", name="look", status=CallStatus.SUCCESS, result="x" * 100_000))
    assert len(told) < 10_000
    assert as_markdown(CHAT, [Message(id="m", role="user", content="half \ud83d", turn_id="t", at=0)])


def test_results_that_came_with_a_message_stand_with_it() -> None:
    results = (GivenResult(id="c1", name="look", result="seen"), GivenResult(id="c2", ok=False, error="not there"))
    told = as_markdown(CHAT, [Message(id="m", role="user", content="", turn_id="t", at=0, results=results)]).decode()
    assert (
        told.index("**look** – success") < told.index("seen") < told.index("**c2** – error") < told.index("not there")
    )
