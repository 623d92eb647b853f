"""What readers share: failures that pass, sums, texts within bounds."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.reading import MAX_NOTE, missing, noted, passes, relative, retry_after_ms, shown
from pilothouse.core.run.agents import MAX_TEXT, Noted
from pilothouse.core.run.usage import Tally, Usage


@pytest.mark.parametrize(
    "text",
    [
        "429 Too Many Requests",
        "Rate limit reached for gpt-6",
        "HTTP 503",
        "read ECONNRESET",
        "connect ETIMEDOUT 10.0.0.1:443",
        "socket hang up",
        "Could not connect to local model provider",
        "Failed native model HTTP request: Connection refused (os error 111)",
        "the model is overloaded",
        "Internal error: We're currently experiencing high demand, which may cause temporary errors.",
        "Request timed out.",
    ],
)
def test_failures_of_a_service_or_a_connection_pass(text: str) -> None:
    assert passes(None, text)


@pytest.mark.parametrize(
    "text", ["400 bad request", "Incorrect API key provided", "line 500 is too long", "exited with 1"]
)
def test_other_failures_stay(text: str) -> None:
    assert not passes(None, text)


def test_a_status_tells_more_than_words() -> None:
    assert passes(500, "nothing known")
    assert passes(529, "")
    assert not passes(401, "temporarily unavailable")


def test_how_long_to_wait_is_read_where_it_is_said() -> None:
    assert retry_after_ms("Please try again in 20 seconds") == 20_000
    assert retry_after_ms("retry-after: 1.5") == 1_500
    assert retry_after_ms("Retry after 250ms") == 250
    assert retry_after_ms("try again in 2m") == 120_000
    assert retry_after_ms("try again later") == 0
    assert retry_after_ms(f"retry after {'9' * 400} h") == retry_after_ms("retry after 1000 h") == 7 * 24 * 3_600_000


def test_lines_that_are_no_events_are_noted_within_bounds() -> None:
    assert noted(b"") == noted(b" \r\n") == ()
    assert noted(b"\xff\x00\xfe") == (Noted(text="\ufffd\ufffd"),)
    assert len(noted(b"x" * 1_000_000)[0].text) == MAX_NOTE


def test_values_are_shown_as_text_or_json_within_bounds() -> None:
    assert shown(None) == ""
    assert shown("as it is") == "as it is"
    assert shown({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'
    assert len(shown("x" * 100_000)) == MAX_TEXT


def test_paths_are_told_relative_to_the_worktree() -> None:
    assert relative("/work/a/b", "/work") == "a/b"
    assert relative("/worker/a", "/work") == "/worker/a"
    assert relative("a/b", "/work") == "a/b"
    assert relative("/work/a", "") == "/work/a"


def test_what_is_missing_is_told_by_model_and_then_in_all() -> None:
    sums = Tally({"": Usage(api_ms=50, premium_requests=3), "a": Usage(input_tokens=10, premium_requests=1)})
    known = Tally({"a": Usage(input_tokens=4, api_ms=20), "b": Usage(input_tokens=1)})

    assert dict(missing(sums, known)) == {
        "a": Usage(input_tokens=6, premium_requests=1),
        "": Usage(api_ms=30, premium_requests=2),
    }
