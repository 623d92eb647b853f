"""Values from outside, as the log can hold them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.turns import Turn

from pilothouse.core.chat.backend import Completed, ToolAnswered, ToolCalled
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.plain import MOST_LEVELS, plain, plain_object
from pilothouse.core.chat.result import result_of
from pilothouse.core.run.lifecycle import Lifecycle


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_what_is_deep_but_not_too_deep_stays_what_it_is() -> None:
    assert plain(nested(MOST_LEVELS)) == nested(MOST_LEVELS)
    assert plain([[]] * 10_000) == [[]] * 10_000


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 900, 5_000])
def test_what_is_too_deep_is_told_as_the_beginning_of_its_text(levels: int) -> None:
    told = plain(nested(levels))
    assert isinstance(told, str)
    assert len(told) <= 2_000
    assert plain_object(nested(levels)) == {"cut": told}


def test_a_turn_with_values_that_are_too_deep_can_be_kept_and_shown() -> None:
    turn, deep = Turn(), nested(900)
    turn.hear(ToolCalled(id="p", name="list", arguments=deep, partial=True))
    turn.hear(ToolCalled(id="c", name="mine", arguments={}, ui=deep, executor="go"))
    turn.hear(ToolAnswered(id="c", name="mine", result=deep, success=True), Completed())
    assert turn.lifecycle() is Lifecycle.SUCCEEDED
    assert turn.state.calls["c"].status is CallStatus.SUCCESS
    assert len(msgspec.json.encode(result_of(turn.state))) < 10_000
