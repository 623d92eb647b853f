"""Whole turns that a language model answers: the engine, its tools, and a model server on the loopback interface."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, World, events, happened, say
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, call, fail, garbled, hang, hold, think, usage
from tests.support.models.parts import say as says
from tests.support.models.server import ModelServer

from pilothouse.adapters.backends.opening import BackendConfig, open_backend
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.events import BackendCalled, TurnNoticed
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.tools.spec import Touches
from pilothouse.engine.services import Services
from pilothouse.engine.tools.registry import ToolRegistry

T = TypeVar("T")
WIRES = pytest.mark.parametrize("wire", ["openai", "openai-responses", "anthropic"])
PATIENCE_S = 20.0
importlib.import_module("pilothouse.adapters.backends.llm.answering")  # heavy: not within a test's patience


@asynccontextmanager
async def machine(server: ModelServer, *tools: FakeTool, wire: str = "openai", **more: Any) -> AsyncIterator[Services]:
    url = server.url if wire == "anthropic" else f"{server.url}/v1"
    config = BackendConfig(kind="llm", llm_provider=wire, llm_base_url=url, llm_model="fake-1", **more)
    async with open_backend(config) as backend:
        made = World()
        made.backend, made.tools = backend, ToolRegistry(tools)
        async with made.engine() as services:
            yield services


async def turn(services: Services, message: str = "Do it", **more: Any) -> TurnResult:
    sent = await say(services, message, **more)
    return await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)


def model(play: Callable[[Asked], Turn]) -> ModelServer:
    """Titles are made beside the conversation."""
    return ModelServer(lambda asked: (says("A title"),) if "Write a title" in asked.text else play(asked))


def questions(server: ModelServer) -> list[Asked]:
    return [one.asked for one in server.requests if one.asked and "Write a title" not in one.asked.text]


def run(act: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(2 * PATIENCE_S):
            return await act

    return asyncio.run(bounded())


@WIRES
def test_a_turn_uses_tools_in_parallel_and_answers_with_their_results(wire: str) -> None:
    both = asyncio.Event()
    inside = 0

    async def together(arguments: Any, _: Any) -> Any:
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()
        return {"found": arguments["q"]}

    async def act(server: ModelServer) -> None:
        look = FakeTool("look", does=together)
        async with machine(server, look, wire=wire) as services:
            result = await turn(services)
        assert (result.success, result.content) == (True, "Looking.Both are there.")
        assert [(one.params, one.result) for one in result.tool_calls] == [
            ({"q": "a"}, {"found": "a"}),
            ({"q": "b"}, {"found": "b"}),
        ]
        assert result.usage is not None
        asked = server.questions[-1].asked
        assert asked is not None
        assert asked.results == ('{"found":"a"}', '{"found":"b"}')

    first = (think("hm"), says("Looking."), call("look", {"q": "a"}), call("look", {"q": "b"}), usage(100, 10))
    with ModelServer([first, (says("Both are there."), usage(200, 20))]) as server:
        run(act(server))


@WIRES
def test_the_model_hears_that_its_arguments_were_no_json_and_tries_again(wire: str) -> None:
    async def act(server: ModelServer) -> None:
        look = FakeTool("look")
        async with machine(server, look, wire=wire) as services:
            result = await turn(services)
        assert (result.success, result.content) == (True, "Found.")
        assert [one.status for one in result.tool_calls] == [CallStatus.ERROR, CallStatus.SUCCESS]
        assert look.ran == [{"q": "a"}]
        second = server.questions[1].asked
        assert second is not None
        assert "not valid JSON" in second.results[0]

    with ModelServer([garbled("look", '{"q": '), call("look", {"q": "a"}), says("Found.")]) as server:
        run(act(server))


def test_a_call_that_a_person_refuses_is_told_to_the_model_in_words() -> None:
    async def act(server: ModelServer) -> None:
        write = FakeTool("write", Touches.FILES)
        async with machine(server, write) as services:
            sent = await say(services, "Write")
            await happened(services, sent.turn_id, "NEEDS_APPROVAL")
            (asked,) = [one for one in await events(services, sent.turn_id) if isinstance(one, NeedsApproval)]
            await services.runs.answer(asked.wait.id, "refuse", "me")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
        assert (result.success, result.content) == (True, "As you like.")
        assert not write.ran
        told = server.questions[-1].asked
        assert told is not None
        assert "did not allow" in told.results[0]

    with ModelServer([call("write", {"path": "a"}), says("As you like.")]) as server:
        run(act(server))


def test_a_server_that_is_busy_is_asked_again() -> None:
    async def act(server: ModelServer) -> None:
        async with machine(server) as services:
            result = await turn(services)
        assert (result.success, result.content) == (True, "Here.")
        assert len(questions(server)) == 3

    with model(_after_faults(2)) as server:
        run(act(server))


def _after_faults(times: int) -> Callable[[Asked], Turn]:
    met = 0

    def play(_: Asked) -> Turn:
        nonlocal met
        met += 1
        return (fail(503, "overloaded", retry_after=0),) if met <= times else (says("Here."),)

    return play


def test_a_stop_closes_the_request_and_keeps_what_was_said() -> None:
    async def act(server: ModelServer) -> None:
        async with machine(server) as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert result.content == "I am"
            await asyncio.to_thread(server.wait_for, lambda _: server.unanswered == 0, 10)
            again = await turn(services, "And now?", chat_id=sent.chat_id)
        assert again.content == "Back."
        told = questions(server)[-1]
        assert "And now?" in told.prompts[-1]

    def play(asked: Asked) -> Turn:
        return (says("Back."),) if "And now?" in asked.text else (says("I am"), hang())

    with model(play) as server:
        run(act(server))


def test_a_conversation_that_grew_too_long_is_summarised_for_this_turn_and_those_after_it() -> None:
    def play(asked: Asked) -> Turn:
        if "Summarise" in asked.text:
            return (says("They greeted."),)
        if len(asked.text) > 9_000:
            return (fail(400, "This model's maximum context length is 2000 tokens"),)
        return (says(f"Answer {len(asked.prompts)}."),)

    async def act(server: ModelServer) -> None:
        async with machine(server) as services:
            first = await turn(services, f"One {'x' * 5_000}")
            second = await turn(services, f"Two {'y' * 5_000}", chat_id=first.chat_id)
            assert second.success
            told = await events(services, second.turn_id)
            notices = [one for one in told if isinstance(one, TurnNoticed)]
            assert [one.kind for one in notices] == ["compaction_start", "compaction_done"]
            assert notices[1].data["summary"] == "They greeted."
            asked_before = len(questions(server))
            third = await turn(services, "Three", chat_id=first.chat_id)
            assert third.success
            assert len(questions(server)) == asked_before + 1
        last = questions(server)[-1]
        assert "They greeted." in last.text
        assert "One x" not in last.text
        assert "Two y" in last.text

    with model(play) as server:
        run(act(server))


def test_what_is_said_meanwhile_goes_with_the_next_request() -> None:
    async def act(server: ModelServer) -> None:
        async with machine(server) as services:
            sent = await say(services, "Count")
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.steer(sent.turn_id, THE_LOCAL_USER, "Faster")
            server.let_go("on")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            told = await events(services, sent.turn_id)
        assert result.content == "One two.Done."
        assert len([one for one in told if isinstance(one, BackendCalled)]) == 2
        asked = questions(server)[-1]
        assert asked.prompts[-1] == "Faster"

    def play(asked: Asked) -> Turn:
        return (says("Done."),) if "Faster" in asked.text else (says("One "), hold("on"), says("two."))

    with model(play) as server:
        run(act(server))


def test_a_key_that_is_wrong_is_said_with_the_setting_to_look_at() -> None:
    async def act(server: ModelServer) -> None:
        async with machine(server, llm_api_key="sk-secret-123456") as services:
            result = await turn(services)
        assert not result.success
        assert "PILOTHOUSE_LLM_API_KEY" in str(result.error)
        assert "sk-secret" not in str(result)

    with model(lambda _: (fail(401, "Incorrect API key provided: sk-secret-123456"),)) as server:
        run(act(server))
