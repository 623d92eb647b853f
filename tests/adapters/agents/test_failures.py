"""What is made of the failures of models' APIs as agents hand them on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.adapters.agents.failures import lasts, message_of, status_of


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": {"message": "no", "type": "x"}}', "no"),
        ('{"message": "no", "type": "x"}', "no"),
        ('{"error": "no"}', "no"),
        ('{"detail": "no"}', '{"detail":"no"}'),
        ("no", "no"),
        ("", ""),
        ("[1]", "[1]"),
    ],
)
def test_the_message_is_what_stands_innermost(text: str, message: str) -> None:
    assert message_of(text) == message


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("unexpected status 401 Unauthorized: no", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", 429),
        ('{"error":{"code":503,"message":"no"}}', 503),
        ("http://127.0.0.1:4000/v1", None),
        ("status 200", None),
    ],
)
def test_a_status_is_found_where_it_is_told(text: str, status: int | None) -> None:
    assert status_of(text) == status


@pytest.mark.parametrize(
    ("text", "lasting"),
    [
        ("You've hit your usage limit. Try again in 3 days.", True),
        ("You exceeded your current quota, please check your plan and billing details.", True),
        ("You exceeded your current quota. Please retry in 34.2s.", False),
        ("the input exceeds the context window", True),
        ("Rate limit reached", False),
    ],
)
def test_a_limit_that_is_reached_lasts_unless_it_says_how_long(text: str, lasting: bool) -> None:
    assert lasts(text) is lasting


@given(st.text())
def test_any_text_can_be_asked(text: str) -> None:
    message_of(text)
    status_of(text)
    lasts(text)
