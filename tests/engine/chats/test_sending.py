"""What is no message, or too much for one."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.chat.calls import GivenResult
from pilothouse.core.chat.plain import MOST_LEVELS
from pilothouse.engine.chats.sending import check_mode, check_size
from pilothouse.engine.chats.values import Send
from pilothouse.errors import BadInput


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_what_is_many_but_not_deep_is_taken() -> None:
    check_size(Send(message="Hi", context=tuple({"n": [number]} for number in range(100))))


@pytest.mark.parametrize("levels", [MOST_LEVELS, 940, 5_000])
@pytest.mark.parametrize("where", ["context", "attachments", "tool_results"])
def test_what_is_too_deep_to_be_read_again_is_not_taken(where: str, levels: int) -> None:
    deep = nested(levels)
    given: dict[str, Any] = {where: (GivenResult(id="c", result=deep) if where == "tool_results" else deep,)}
    with pytest.raises(BadInput):
        check_size(Send(message="Hi", **given))


def test_asking_one_subagent_alone_is_refused_in_words_with_the_modes_there_are() -> None:
    with pytest.raises(BadInput, match="no subagent is asked alone") as caught:
        check_mode("subagent:debug", "mode")
    assert (caught.value.field, caught.value.fix.startswith("one of agent, ask, plan")) == ("mode", True)
