"""What an agent that answers a conversation is told: the message, and what it cannot know by itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.core.chat.calls import CallReason
from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.chat.message import Message, TextBlock
from pilothouse.core.chat.mode_words import words_of_mode
from pilothouse.core.tools.policy import Mode
from pilothouse.engine.answering.prompts import GO_ON, MAX_HISTORY, message_of, opening_of


def call(**more: Any) -> CallBackend:
    wanted: dict[str, Any] = {one.name: "" for one in msgspec.structs.fields(CallBackend) if one.required}
    wanted |= dict.fromkeys(("tools", "blocks", "results", "answered", "steering", "attachments", "context"), ())
    return CallBackend(
        **{**wanted, "call": 1, "reason": CallReason.FIRST, "message": "Do it", "headless": False, **more}
    )


def said(role: str, text: str, **more: Any) -> Message:
    return Message(id="m", role=role, content=text, turn_id="t", at=0, **more)


def test_a_message_is_told_as_it_stands() -> None:
    assert message_of(call()) == "Do it"


def test_what_goes_with_a_message_goes_before_it() -> None:
    beside = call(
        context=({"type": "file", "content": "print(1)"},),
        attachments=({"name": "a.txt", "text": "words"}, {"name": "b.png", "data": "…"}),
    )
    assert message_of(beside) == (
        "<context>\nprint(1)\n</context>\n\n"
        '<attachment name="a.txt">\nwords\n</attachment>\n\n'
        "[An attachment that cannot be shown: b.png]\n\nDo it"
    )


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.CHAT])
def test_what_a_mode_asks_is_told_with_each_message(mode: Mode) -> None:
    assert message_of(call(mode=mode)) == f"{words_of_mode(mode)}\n\nDo it"
    assert words_of_mode(mode) in opening_of(call(mode=mode), (), "/work", looks=False)
    assert message_of(call(mode=mode, reason=CallReason.STEERING, steering=("Faster",))) == "Faster"
    assert message_of(call(mode=Mode.CHAT)) == "Do it"


def test_what_was_said_meanwhile_is_told_alone() -> None:
    assert message_of(call(reason=CallReason.STEERING, steering=("Faster", "Please"))) == "Faster\n\nPlease"


def test_a_turn_that_was_stopped_goes_on_where_it_was() -> None:
    assert message_of(call(reason=CallReason.RESUMED, blocks=(TextBlock(text="Half"),))) == GO_ON
    assert message_of(call(reason=CallReason.RESUMED)) == "Do it"


def test_one_that_has_heard_nothing_is_told_where_it_is_and_what_was_said() -> None:
    history = (said("user", "One"), said("assistant", "1", compaction="They counted."))
    opening = opening_of(call(), history, "/work", looks=False)
    assert "`/work`" in opening
    assert "User: One\n\nIn short: They counted.\n\nYou: 1" in opening
    assert opening.endswith("# Now\n\nDo it")
    assert "Only look" not in opening


def test_one_that_may_only_look_is_told_so_and_a_program_that_asks_is_named() -> None:
    opening = opening_of(call(headless=True), (), "/work", looks=True)
    assert "change no files" in opening
    assert "A program asks" in opening
    assert "What was said before" not in opening


def test_the_message_that_a_later_request_belongs_to_is_part_of_what_was_said() -> None:
    steering = call(reason=CallReason.STEERING, steering=("Faster",))
    opening = opening_of(steering, (), "/work", looks=False)
    assert "User: Do it" in opening
    assert opening.endswith("Faster")


def test_of_a_long_conversation_its_end_is_told() -> None:
    history = tuple(said("user", f"{number} {'x' * 5_000}") for number in range(50))
    opening = opening_of(call(), history, "/work", looks=False)
    assert len(opening) < MAX_HISTORY + 1_000
    assert "User: 49" in opening
    assert "User: 0 " not in opening
