"""The backend ``llm`` against a model server on the loopback interface, over every wire it speaks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anthropic
import httpx2
import msgspec
import openai
import pytest
from pydantic_ai.exceptions import ModelHTTPError
from tests.adapters.backends.llm.asking import KEY, WIRES, answer, config, opened, request, run, said, unpriced
from tests.support.models.parts import call, cut, drop, fail, garbled, hang, hold, say, think, usage
from tests.support.models.server import ModelServer, refusing

from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.adapters.backends.llm.failures import MAX_SAID, failure
from pilothouse.core.chat.backend import (
    BackendEvent,
    Completed,
    Noticed,
    Paused,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.effects import MakeTitle
from pilothouse.core.chat.message import ToolBlock
from pilothouse.core.run.usage import Usage
from pilothouse.errors import BackendFailed, BadInput, Unavailable


def of(kind: type, events: list[BackendEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def failed(settings: LlmConfig) -> BackendFailed:
    with pytest.raises(BackendFailed) as raised:
        answer(settings, request())
    assert KEY not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("wire", WIRES)
def test_text_arrives_in_pieces_and_ends_complete(wire: str) -> None:
    with ModelServer([say("Hello there, Ada.")]) as server:
        events = answer(config(server, wire), request())
    assert "".join(one.text for one in of(Said, events)) == "Hello there, Ada."
    assert len(of(Said, events)) > 1
    assert events[-1] == Completed()


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_that_the_model_repeats_in_pieces_is_hidden(wire: str) -> None:
    with ModelServer([(say(f"It is {KEY}, said {KEY}"), call("look", {"q": KEY}))]) as server:
        events = answer(config(server, wire), request())
    assert "".join(one.text for one in of(Said, events)) == "It is ***, said ***"
    assert "".join(one.delta for one in of(ToolArguments, events)).count("***") == 1
    assert [one.arguments for one in of(ToolCalled, events)] == [{"q": "***"}]
    assert KEY not in repr(events)


def test_a_key_that_is_a_word_like_any_other_is_not_looked_for() -> None:
    with ModelServer([say("You can use ollama.")]) as server:
        events = answer(config(server, api_key="ollama"), request())
    assert "".join(one.text for one in of(Said, events)) == "You can use ollama."


@pytest.mark.parametrize("wire", WIRES)
def test_reasoning_has_its_bounds_and_is_not_the_answer(wire: str) -> None:
    with ModelServer([(think("let me see"), say("Yes."))]) as server:
        events = answer(config(server, wire), request())
    thoughts = of(Thought, events)
    assert thoughts[0].begins
    assert thoughts[-1].ends
    assert "".join(one.text for one in thoughts) == "let me see"
    assert "".join(one.text for one in of(Said, events)) == "Yes."


@pytest.mark.parametrize("wire", WIRES)
def test_parallel_calls_are_told_as_they_come_and_the_request_pauses_for_them(wire: str) -> None:
    with ModelServer([(say("Looking."), call("look", {"q": "a b"}), call("look", {"q": "c"}))]) as server:
        events = answer(config(server, wire), request())
    calls = of(ToolCalled, events)
    assert [(one.name, one.arguments, one.partial) for one in calls] == [
        ("look", {"q": "a b"}, False),
        ("look", {"q": "c"}, False),
    ]
    assert [one.id for one in of(ToolGenerating, events)] == [one.id for one in calls]
    deltas = "".join(one.delta for one in of(ToolArguments, events) if one.id == calls[0].id)
    assert deltas.replace(" ", "") == '{"q":"ab"}'
    first_whole = events.index(calls[0])
    assert first_whole < next(
        i for i, one in enumerate(events) if isinstance(one, ToolGenerating) and one.id == calls[1].id
    )
    assert events[-1] == Paused(checkpoint_id="", pending=tuple(one.id for one in calls))


@pytest.mark.parametrize("wire", WIRES)
def test_usage_counts_cached_tokens_within_the_input_and_has_its_price(wire: str) -> None:
    def priced(model: str, used: Usage) -> Usage:
        assert (model, used.input_tokens, used.cached_tokens) == ("fake-1", 1000, 200)
        return Usage(cost=0.5)

    async def main(server: ModelServer) -> list[BackendEvent]:
        async with opened(config(server, wire), priced) as backend:
            return await said(backend, request())

    with ModelServer([(say("Yes."), usage(input=1000, output=50, cached=200))]) as server:
        events = asyncio.run(main(server))
    used = of(Spent, events)  # some servers tell it in portions
    assert [sum(getattr(one, name) for one in used) for name in ("input_tokens", "output_tokens")] == [1000, 50]
    assert [sum(getattr(one, name) for one in used) for name in ("cached_tokens", "cost")] == [200, 0.5]
    assert {one.model for one in used} == {"fake-1"}


def test_a_model_without_a_price_costs_nobody_knows_what() -> None:
    with ModelServer([say("Yes.")]) as server:
        assert of(Spent, answer(config(server), request()))[0].cost is None


@pytest.mark.parametrize("wire", WIRES)
def test_an_image_is_sent_as_one(wire: str) -> None:
    image = {"name": "a.png", "mimeType": "image/png", "data": "iVBORw0KGgo="}
    with ModelServer([say("A dot.")]) as server:
        answer(config(server, wire), request("What is it?", attachments=(image,)))
        body = str(server.requests[0].body)
    assert "iVBORw0KGgo=" in body
    assert "image" in body
    assert "cannot be shown" not in body


def test_the_beginning_of_a_conversation_is_marked_for_the_cache_where_that_has_to_be_asked_for() -> None:
    with ModelServer([say("Yes.")]) as server:
        answer(config(server, "anthropic"), request())
        (message,) = server.requests[0].body["messages"]
    assert message["content"][-1]["cache_control"]["type"] == "ephemeral"


def test_a_message_may_name_its_model() -> None:
    with ModelServer([say("Yes.")]) as server:
        answer(config(server), request(model="fake-2"))
        assert server.requests[0].model == "fake-2"


def test_without_any_model_the_setting_is_named() -> None:
    with ModelServer([say("Yes.")]) as server:
        assert "PILOTHOUSE_LLM_MODEL" in str(failed(config(server, model="")))


def test_ids_that_a_server_gives_twice_in_a_turn_are_made_unique() -> None:
    before = ToolBlock(id="call_1_0", name="look", status=CallStatus.SUCCESS, result="x", call=1)
    with ModelServer([call("look", {"q": "a"}), call("look", {"q": "b"})]) as server:
        (called,) = of(ToolCalled, answer(config(server), request(call=2, blocks=(before,))))
    assert called.id == "call_1_0_2"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("raw", ['{"q": "a', "[1]", "nonsense"])
def test_arguments_that_are_no_json_are_answered_before_anybody_executes_the_call(wire: str, raw: str) -> None:
    with ModelServer([(garbled("look", raw), call("look", {"q": "b"}))]) as server:
        events = answer(config(server, wire), request())
    (ended,) = of(ToolAnswered, events)
    assert not ended.success
    assert raw in ended.error
    broken, whole = [one for one in of(ToolCalled, events) if not one.partial]
    assert ended.id == broken.id
    assert events.index(ended) < events.index(broken)
    assert whole.arguments == {"q": "b"}
    assert events[-1] == Paused(checkpoint_id="", pending=(broken.id, whole.id))


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_was_cut_off_is_not_executed_though_it_looks_whole(wire: str) -> None:
    with ModelServer([(call("look", {"q": "a"}), cut())]) as server:
        events = answer(config(server, wire), request())
    (ended,) = of(ToolAnswered, events)
    assert "cut off" in ended.error
    assert events[-1] == Paused(checkpoint_id="", pending=(ended.id,))


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_was_cut_off_says_so(wire: str) -> None:
    with ModelServer([(say("It is"), cut())]) as server:
        events = answer(config(server, wire), request())
    assert [one.kind for one in of(Noticed, events)] == ["truncated"]
    assert events[-1] == Completed(reason="length")


# What goes wrong.


@pytest.mark.parametrize("wire", WIRES)
def test_a_rate_limit_passes_and_says_when(wire: str) -> None:
    with ModelServer([fail(429, "slow down", retry_after=7)]) as server:
        error = failed(config(server, wire))
        assert len(server.requests) == 1  # repeating it is the turn's business
    assert error.transient
    assert (error.status, error.retry_after_ms) == (429, 7000)
    assert "slow down" in str(error)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("status", "transient", "names"),
    [
        (401, False, "PILOTHOUSE_LLM_API_KEY"),
        (403, False, "PILOTHOUSE_LLM_API_KEY"),
        (404, False, "PILOTHOUSE_LLM_MODEL"),
        (400, False, "fake-1"),
        (500, True, "failed"),
        (503, True, "down"),
        (529, True, "overloaded"),
    ],
)
def test_what_is_refused_says_what_to_do(wire: str, status: int, transient: bool, names: str) -> None:
    with ModelServer([fail(status, f"no: {KEY}")]) as server:
        error = failed(config(server, wire))
    assert (error.status, error.transient) == (status, transient)
    assert names in str(error)


def test_a_redirection_is_not_followed_with_the_key() -> None:
    asked: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1 << 16))
        writer.close()

    async def act() -> None:
        other = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
        port = other.sockets[0].getsockname()[1]

        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:{port}/v1/messages\r\n\r\n".encode())
            writer.close()

        server = await asyncio.start_server(redirect, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, other, opened(LlmConfig("anthropic", url, KEY, "fake-1")) as backend:
            with pytest.raises(BackendFailed):
                await said(backend, request())

    asyncio.run(act())
    assert not asked


def test_nobody_at_the_address_passes_and_names_the_setting() -> None:
    with refusing() as url:
        error = failed(LlmConfig(base_url=f"{url}/v1", model="fake-1"))
    assert error.transient
    assert "PILOTHOUSE_LLM_BASE_URL" in str(error)


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_in_the_middle_fails_after_what_was_said(wire: str) -> None:
    async def work(backend: LlmBackend) -> list[BackendEvent]:
        events: list[BackendEvent] = []
        with pytest.raises(BackendFailed):
            async for batch in backend.call(request()):
                events.extend(batch)
        return events

    with ModelServer([(say("Half an"), fail(500, "broken"))]) as server:
        events = run(config(server, wire), work)
    assert "".join(one.text for one in of(Said, events)) == "Half an"


@pytest.mark.parametrize("wire", WIRES)
def test_a_connection_that_breaks_off_fails_and_passes(wire: str) -> None:
    with ModelServer([(say("Half an"), drop())]) as server:
        assert failed(config(server, wire)).transient


@pytest.mark.parametrize("wire", WIRES)
def test_closing_it_ends_the_request_at_once(wire: str) -> None:
    async def work(backend: LlmBackend) -> None:
        replies = backend.call(request())
        async for batch in replies:
            if of(Said, list(batch)):
                break
        await asyncio.to_thread(server.wait_for, lambda _: server.holding == 1, 10)
        await replies.aclose()  # type: ignore[attr-defined]  # the port promises an iterator only
        await asyncio.to_thread(server.wait_for, lambda _: server.unanswered == 0, 10)

    with ModelServer([(say("I am"), hang())]) as server:
        run(config(server, wire), work)


def test_cancelling_whoever_listens_ends_the_request() -> None:
    async def work(backend: LlmBackend) -> None:
        task = asyncio.create_task(said(backend, request()))
        await asyncio.to_thread(server.wait_for, lambda _: server.holding == 1, 10)
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        await asyncio.to_thread(server.wait_for, lambda _: server.unanswered == 0, 10)

    with ModelServer([hang()]) as server:
        run(config(server), work)


def test_many_requests_go_on_at_once() -> None:
    async def work(backend: LlmBackend) -> None:
        tasks = [asyncio.create_task(said(backend, request())) for _ in range(20)]
        await asyncio.to_thread(server.wait_for, lambda _: server.holding == 20, 20)
        server.let_go("all")
        for events in await asyncio.gather(*tasks):
            assert events[-1] == Completed()

    with ModelServer([(say("Wait."), hold("all"), say(" Done."))]) as server:
        run(config(server), work)


# Titles, models, settings.


@pytest.mark.parametrize("wire", WIRES)
def test_a_title_is_short_and_bare(wire: str) -> None:
    make = MakeTitle(backend="llm", chat_id="c1", owner="ada", message="How do I cook rice?", model="", key="title")
    with ModelServer(lambda asked: (say('**Title: "Cooking rice"**\nIt is about rice.'),)) as server:
        assert run(config(server, wire), lambda backend: backend.title(make)) == "Cooking rice"


@pytest.mark.parametrize("wire", WIRES)
def test_the_models_of_the_server_are_listed_and_the_set_one_is_marked(wire: str) -> None:
    with ModelServer() as server:
        (model,) = run(config(server, wire), lambda backend: backend.models())
    assert (model.id, model.default) == ("fake-1", True)


@pytest.mark.parametrize("wire", WIRES)
def test_models_that_nobody_is_there_to_list_are_refused_as_an_answer_would_be(wire: str) -> None:
    with refusing() as url, pytest.raises(BackendFailed, match=r"Nobody answers at .*PILOTHOUSE_LLM_BASE_URL"):
        run(LlmConfig(provider=wire, base_url=url, api_key=KEY), lambda backend: backend.models())


@pytest.mark.parametrize("library", [openai, anthropic])
def test_a_list_of_models_that_is_refused_is_told_as_an_answer_would_be(library: Any) -> None:
    response = httpx2.Response(401, request=httpx2.Request("GET", "http://models.example/v1/models"))
    refused = library.AuthenticationError("no such key", response=response, body=None)
    told = failure(refused, LlmConfig(base_url="http://models.example/v1", api_key=KEY), "fake-1")
    assert str(told) == "http://models.example/v1 refuses the key (401); check PILOTHOUSE_LLM_API_KEY: no such key"
    assert (told.status, told.transient) == (401, False)


@pytest.mark.parametrize("before", [0, MAX_SAID - len(KEY) + 1, MAX_SAID - 1])
def test_no_part_of_the_key_is_told_wherever_words_are_cut(before: int) -> None:
    said = "." * before + KEY
    config = LlmConfig(base_url="http://models.example/v1", api_key=KEY)
    for error in (ModelHTTPError(400, "fake-1", body=said), ValueError(said)):
        assert KEY[:6] not in str(failure(error, config, "m-1"))


def test_a_provider_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(BadInput) as raised:
        LlmBackend(LlmConfig(provider="gpt"), unpriced)
    assert raised.value.field == "PILOTHOUSE_LLM_PROVIDER"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_service_that_wants_a_key_is_not_opened_without_one(provider: str) -> None:
    with pytest.raises(Unavailable, match="PILOTHOUSE_LLM_API_KEY"):
        LlmBackend(LlmConfig(provider=provider), unpriced)


def test_the_key_is_not_part_of_what_is_shown_of_the_settings() -> None:
    assert KEY not in repr(LlmConfig(api_key=KEY))


def test_getting_ready_asks_nobody_and_ends_between_two_pieces_when_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, may_go_on = threading.Event(), threading.Event()
    imported: list[str] = []

    def slowly(name: str) -> None:
        imported.append(name)
        entered.set()
        assert may_go_on.wait(10)

    async def act() -> None:
        backend = LlmBackend(LlmConfig(base_url="http://127.0.0.1:1", model="m"), unpriced)
        await backend.warm()
        with monkeypatch.context() as patched:
            patched.setattr("importlib.import_module", slowly)
            cold = LlmBackend(LlmConfig(base_url="http://127.0.0.1:1", model="m"), unpriced)
            warming = asyncio.create_task(cold.warm())
            assert await asyncio.to_thread(entered.wait, 10)
            warming.cancel()
            await asyncio.wait((warming,))
            may_go_on.set()
            await cold.close()
        await backend.close()

    asyncio.run(act())
    assert len(imported) == 1


def test_that_no_model_is_chosen_is_said_before_the_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"{name} was imported"))
    with pytest.raises(BackendFailed, match="PILOTHOUSE_LLM_MODEL"):
        answer(LlmConfig(base_url="http://127.0.0.1:1"), msgspec.structs.replace(request(), model=""))
