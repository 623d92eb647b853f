"""What becomes of an agent's work over its protocol."""

from __future__ import annotations

from typing import Any

import pytest
from acp import RequestError
from acp.schema import PromptResponse

from pilothouse.adapters.agents.acp.outcome import failed, logged_out, own_error, refused, stopped, used
from pilothouse.adapters.agents.lines import Finished
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import Usage


def answer(**fields: Any) -> PromptResponse:
    return PromptResponse.model_validate({"stopReason": "end_turn", **fields})


def test_a_turn_that_ends_by_itself_is_a_success() -> None:
    assert stopped("end_turn") == Finished(ok=True)


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal", "cancelled", "something-new"])
def test_any_other_end_of_a_turn_is_a_failure_that_says_why(reason: str) -> None:
    finished = stopped(reason)

    assert not finished.ok
    assert finished.error
    assert not finished.transient


@pytest.mark.parametrize(
    "data",
    [
        {"message": "exceeded retry limit, last status: 429 Too Many Requests"},
        {"details": "Rate limit reached"},
        "503 Service Unavailable",
        {"error": "read ECONNRESET"},
        {"details": "API Error: 529 Overloaded"},
    ],
)
def test_what_may_pass_is_transient(data: Any) -> None:
    finished = refused("working on the prompt", RequestError(-32603, "Internal error", data))

    assert finished.transient
    assert str(next(iter(data.values())) if isinstance(data, dict) else data) in finished.error


@pytest.mark.parametrize("text", ["invalid api key", "unknown model gpt-500x", "the file has 4290 lines"])
def test_what_will_not_pass_is_not(text: str) -> None:
    assert not failed(text).transient


@pytest.mark.parametrize(
    ("text", "wait_ms"),
    [
        ("HTTP 429: retry after 7 seconds", 7000),
        ("rate limit, try again in 1.5s", 1500),
        ("status 429, retry-after: 250ms", 250),
    ],
)
def test_when_to_try_again_is_taken_from_what_it_says(text: str, wait_ms: int) -> None:
    assert failed(text).retry_after_ms == wait_ms


def test_an_error_says_more_than_that_it_is_one() -> None:
    assert refused("x", RequestError(-32603, "Internal error", {"a": 1})).error == 'x: Internal error: {"a":1}'
    assert refused("x", RequestError(-32603, "Internal error", None)).error == "x: Internal error"
    assert refused("x", RequestError(-32603, "gone: y", {"details": "y"})).error == "x: gone: y"


def test_what_a_model_answered_is_told_in_its_words_and_its_status_counts() -> None:
    for status, message, transient in ((429, "slow down", True), (401, "bad key", False)):
        answer = f'{{"error":{{"code":{status},"message":"{message}","status":"X"}}}}'
        finished = refused("working", RequestError(status, answer))

        assert (finished.error, finished.transient) == (f"working: {message}", transient)


def test_an_account_that_is_used_up_will_be_so_in_a_moment_too() -> None:
    assert not refused("x", RequestError(429, "You have hit your usage limit")).transient


def test_an_agent_that_wants_a_login_says_how() -> None:
    finished = logged_out("Some Agent", "", ["Run `some login`", "Set SOME_KEY"])

    assert finished.error == "Some Agent is not logged in: Run `some login`; or Set SOME_KEY"
    assert not finished.transient


def test_an_error_that_is_only_said_is_recognized() -> None:
    assert own_error("Error: no answer; last error: 429 slow down\n") == Finished(
        ok=False, error="Error: no answer; last error: 429 slow down", transient=True
    )
    assert own_error("All errors are mended.") is None


def test_tokens_are_told_in_one_way_whatever_an_agent_counts_as_input_or_output() -> None:
    within = {"totalTokens": 1100, "inputTokens": 1000, "outputTokens": 100, "cachedReadTokens": 200}
    beside = {"totalTokens": 1100, "inputTokens": 800, "outputTokens": 70, "cachedReadTokens": 200, "thoughtTokens": 30}

    assert list(used(answer(usage=within), "m")) == [
        Used(usage=Usage(input_tokens=1000, output_tokens=100, cached_tokens=200), model="m")
    ]
    assert list(used(answer(usage=beside), "m")) == [
        Used(usage=Usage(input_tokens=1000, output_tokens=100, cached_tokens=200, reasoning_tokens=30), model="m")
    ]


def test_tokens_by_model_are_found_beside_the_protocol() -> None:
    rows = [
        {"model": "big", "token_count": {"input_tokens": 10, "output_tokens": 2}},
        {"model": "small", "token_count": {"input_tokens": 1}},
    ]

    assert list(used(answer(_meta={"quota": {"model_usage": rows}}), "m")) == [
        Used(usage=Usage(input_tokens=10, output_tokens=2), model="big"),
        Used(usage=Usage(input_tokens=1), model="small"),
    ]


@pytest.mark.parametrize("meta", [None, {}, {"quota": 1}, {"quota": {"model_usage": [1]}}])
def test_nothing_is_made_up_where_nothing_is_told(meta: Any) -> None:
    assert sum((one.usage for one in used(answer(_meta=meta), "m")), Usage()) == Usage()
