"""Conversations that are longer than their model takes: summarised once, visibly, and asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.adapters.backends.llm.asking import WIRES, answer, config, request, run, said
from tests.adapters.backends.llm.test_backend import of
from tests.adapters.backends.llm.test_conversation import assistant, done, user
from tests.support.models.asked import Asked
from tests.support.models.parts import Part, fail, say
from tests.support.models.server import ModelServer

from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.core.chat.backend import BackendEvent, Completed, Failed, Noticed, Said, Spent
from pilothouse.core.chat.message import Message, TextBlock

REFUSALS = (
    "This model's maximum context length is 8192 tokens, your messages resulted in 9000 tokens",
    "prompt is too long: 213456 tokens > 200000 maximum",
    "the request exceeds the available context size. try increasing the context size",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
)
LONG = "z" * 6_000


def history(turns: int = 4) -> tuple[Message, ...]:
    return tuple(
        message
        for number in range(turns)
        for message in (
            user(f"Question {number}: {LONG}", f"h{number}"),
            assistant(TextBlock(text=f"Answer {number}"), turn=f"h{number}"),
        )
    )


def takes(characters: int, refusal: str = REFUSALS[0]) -> Callable[[Asked], Sequence[Part]]:
    """A model that refuses more than so many characters, and says what it was asked."""

    def turn(asked: Asked) -> Sequence[Part]:
        size = len(asked.text) + sum(map(len, asked.results))
        if size > characters:
            return (fail(400, refusal),)
        return (say("They asked four questions." if "Summarise" in asked.text else "Here is the answer."),)

    return turn


def text(events: list[BackendEvent]) -> str:
    return "".join(one.text for one in of(Said, events))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_was_said_before_is_summarised_and_the_question_asked_again(wire: str, refusal: str) -> None:
    with ModelServer(takes(16_000, refusal)) as server:
        events = answer(config(server, wire), request("And now?", history=history()))
    started, done_ = of(Noticed, events)
    assert (started.kind, done_.kind) == ("compaction_start", "compaction_done")
    assert done_.data == {"summary": "They asked four questions."}
    assert text(events) == "Here is the answer."
    assert sum(one.input_tokens for one in of(Spent, events)) == 2_000, "of both requests"
    assert events[-1] == Completed()
    last = server.requests[-1].asked
    assert last is not None
    assert "They asked four questions." in last.text
    assert "Question 0" not in last.text
    assert "And now?" in last.text


def test_a_summary_that_is_refused_too_is_made_of_less() -> None:
    with ModelServer(takes(5_500)) as server:
        events = answer(config(server), request("And now?", history=history()))
        sizes = [len(one.asked.text) for one in server.requests if one.asked and "Summarise" in one.asked.text]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 1
    assert text(events) == "Here is the answer."


def test_a_model_that_is_known_to_take_less_is_not_even_asked() -> None:
    with ModelServer(takes(16_000)) as server:
        events = answer(config(server, context_tokens=4_000), request("And now?", history=history()))
        assert len(server.requests) == 2
    assert of(Noticed, events)[1].data["summary"]


def test_what_its_server_tells_of_a_model_counts() -> None:
    async def work(backend: LlmBackend) -> list[BackendEvent]:
        await backend.models()
        return await said(backend, request("And now?", history=history()))

    with ModelServer(takes(16_000), context_tokens=4_000) as server:
        events = run(config(server), work)
    assert of(Noticed, events)[1].data["summary"]


def test_the_summary_of_a_turn_is_made_once() -> None:
    async def work(backend: LlmBackend) -> list[BackendEvent]:
        await said(backend, request("And now?", history=history()))
        return await said(backend, request("And now?", history=history(), call=2, blocks=(done("a"),)))

    with ModelServer(takes(16_000)) as server:
        events = run(config(server), work)
    assert not of(Noticed, events)
    assert text(events) == "Here is the answer."


def test_a_turn_that_is_too_long_by_itself_has_its_results_shortened() -> None:
    blocks = tuple(done(f"c{number}", number, result="r" * 9_000) for number in range(1, 4))
    with ModelServer(takes(16_000)) as server:
        events = answer(config(server), request("And now?", call=4, blocks=blocks))
        last = server.requests[-1].asked
    assert last is not None
    assert "characters are left out" in last.results[0]
    assert text(events) == "Here is the answer."


def test_what_is_too_long_whatever_is_done_is_said_to_be() -> None:
    with ModelServer(takes(10)) as server:
        (failed,) = answer(config(server), request("And now?" * 10))
    assert isinstance(failed, Failed)
    assert failed.code == "context_limit"
    assert "fake-1" in failed.message


def test_a_later_turn_begins_with_the_summary() -> None:
    told = (*history(1), user("Two", "t1"), assistant(TextBlock(text="2"), turn="t1", compaction="They counted."))
    with ModelServer(takes(16_000)) as server:
        answer(config(server), request("Three", history=told))
        asked = server.requests[0].asked
    assert asked is not None
    assert "They counted." in asked.text
    assert "Question 0" not in asked.text
