"""What a model is told about where it is."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.chat.calls import CallReason
from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.tools.policy import Mode
from pilothouse.engine.chats.instructions import instructions


def told(**given: Any) -> str:
    plain: dict[str, Any] = dict.fromkeys(CallBackend.__struct_fields__, "")
    many = ("tools", "blocks", "results", "answered", "steering", "attachments", "context")
    plain |= dict.fromkeys(many, ())
    return instructions(
        CallBackend(**{**plain, "call": 1, "reason": CallReason.FIRST, "headless": False, "adopted": False, **given})
    )


def test_every_mode_but_plain_chat_says_what_it_is_for() -> None:
    chat = told(mode=Mode.CHAT)
    others = {told(mode=mode) for mode in Mode if mode is not Mode.CHAT}
    assert len(others) == len(Mode) - 1
    assert chat not in others


@pytest.mark.parametrize("given", [{"workspace": "/w/repo"}, {"workflow_id": "wf-7"}])
def test_what_a_conversation_is_about_is_named(given: dict[str, str]) -> None:
    assert next(iter(given.values())) in told(**given)


def test_who_has_no_repository_is_told_so() -> None:
    assert "No repository" in told()
    assert "No repository" not in told(workspace="/w/repo")


def test_a_program_is_asked_nothing() -> None:
    assert told(headless=True) != told()
