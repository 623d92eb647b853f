"""What a turn is after its owner was gone: the truth is shown, what can go on goes on, and nothing is done twice.

An owner that is killed and one that lets go leave the same log behind; over the memory store and over SQLite.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.engine.conversations import (
    THE_LOCAL_USER,
    FakeTool,
    World,
    backend_of,
    calling,
    ended,
    happened,
    say,
    types,
    world,
)

from pilothouse.adapters.backends.memory import Break, Hold, MemoryBackend, Step, by_call
from pilothouse.adapters.backends.unready import UnreadyBackend
from pilothouse.adapters.store.opening import open_event_store
from pilothouse.core.chat.backend import Completed, ConversationKnown, Paused, Said
from pilothouse.core.chat.calls import Features
from pilothouse.core.tools.spec import Touches
from pilothouse.engine.ports import EventStore
from pilothouse.engine.services import Services
from pilothouse.errors import BackendFailed, Busy


class Made(Protocol):
    def __call__(self, *tools: FakeTool, **more: Any) -> World: ...


@pytest.fixture(params=["memory", "sqlite"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    def made(*tools: FakeTool, **more: Any) -> World:
        built = world(*tools, **more)
        if request.param == "sqlite":

            async def open_store() -> EventStore:
                return await open_event_store(tmp_path / "pilothouse.db")

            built.open_store = open_store  # type: ignore[method-assign]  # a machine with a disk
        return built

    return made


class Other(MemoryBackend):
    name = "other"


async def hang(*_: Any) -> None:
    await asyncio.Event().wait()


async def result(services: Services, turn_id: str) -> Any:
    return await services.chats.result(turn_id, THE_LOCAL_USER)


def test_half_an_answer_is_kept_and_the_turn_says_that_it_was_interrupted(machine: Made) -> None:
    async def journey() -> None:
        made = machine(says=by_call([Said("Half"), Hold()], [Said(" done"), Completed()]))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
        assert backend_of(made).open == set(), "letting go ends the request"
        async with made.engine() as services:
            assert await ended(services, sent.turn_id) == "failed"
            found = await result(services, sent.turn_id)
            assert (found.content, found.code, found.success) == ("Half", "interrupted", False)
            assert len(backend_of(made).requests) == 1, "it was not asked again behind anybody's back"
            assert (await services.chats.get(sent.chat_id, THE_LOCAL_USER)).active_stream_id is None
            await services.runs.control(sent.turn_id, "retry")
            assert await ended(services, sent.turn_id) == "succeeded"
            assert (await result(services, sent.turn_id)).content == "Half done"

    asyncio.run(journey())


@pytest.mark.parametrize(("touches", "ran"), [(Touches.NOTHING, 2), (Touches.RUNS, 1)])
def test_a_tool_runs_again_only_where_twice_is_as_good_as_once(machine: Made, touches: Touches, ran: int) -> None:
    async def journey() -> None:
        times: list[int] = []

        async def once_slow(*_: Any) -> str:
            times.append(1)
            if len(times) == 1:
                await asyncio.Event().wait()
            return "found"

        says = by_call([calling(), Paused(checkpoint_id="cp", pending=("c1",))], [Said("ok"), Completed()])
        made = machine(FakeTool(touches=touches, does=once_slow), says=says)
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "BACKEND_ENDED")
            await happened(services, sent.turn_id, "TOOL_STARTED")
        async with made.engine() as services:
            assert await ended(services, sent.turn_id) == "succeeded"
            assert len(times) == ran
            (call,) = (await result(services, sent.turn_id)).tool_calls
            assert (call.status, call.reason) == (("success", None) if ran == 2 else ("error", "lost"))

    asyncio.run(journey())


def test_a_question_is_still_there_and_its_answer_runs_the_tool_once(machine: Made) -> None:
    async def journey() -> None:
        tool = FakeTool("write", Touches.FILES)
        says = by_call([calling("write"), Paused(checkpoint_id="cp", pending=("c1",))], [Said("ok"), Completed()])
        made = machine(tool, says=says)
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "NEEDS_APPROVAL")
            await happened(services, sent.turn_id, "BACKEND_ENDED")
        async with made.engine() as services:
            with pytest.raises(Busy):
                await say(services, "meanwhile", chat_id=sent.chat_id)
            (row,) = await services.runs.waits()
            assert (row.id, tool.ran) == (sent.turn_id, [])
            await services.chats.confirm(THE_LOCAL_USER, "c1", "accepted")
            assert await ended(services, sent.turn_id) == "succeeded"
            assert len(tool.ran) == 1

    asyncio.run(journey())


def test_a_message_that_was_taken_is_not_taken_again(machine: Made) -> None:
    async def journey() -> None:
        made = machine()
        async with made.engine() as services:
            sent = await say(services, message_id="m1")
            await ended(services, sent.turn_id)
        async with made.engine() as services:
            again = await say(services, message_id="m1")
            assert (again.turn_id, again.chat_id, again.created) == (sent.turn_id, sent.chat_id, False)
            assert len(backend_of(made).requests) == 1
            assert len(await services.chats.messages(sent.chat_id, THE_LOCAL_USER)) == 2

    asyncio.run(journey())


def test_what_was_said_before_is_told_after_a_restart_too(machine: Made) -> None:
    async def journey() -> None:
        made = machine(says=lambda asked: [Said(f"re: {asked.message}"), Completed()])
        async with made.engine() as services:
            sent = await say(services, "one")
            await ended(services, sent.turn_id)
        async with made.engine() as services:
            again = await say(services, "two", chat_id=sent.chat_id)
            await ended(services, again.turn_id)
            assert [message.content for message in backend_of(made).requests[-1].history] == ["one", "re: one"]

    asyncio.run(journey())


@pytest.mark.parametrize("point", ["RUN_STARTED", "BACKEND_CALLED", "TOOL_CALLED", "TOOL_STARTED", "TOOL_ENDED"])
def test_wherever_the_owner_is_gone_the_turn_ends_and_nothing_is_done_twice(machine: Made, point: str) -> None:
    async def journey() -> None:
        ran: list[int] = []

        async def act(*_: Any) -> str:
            ran.append(1)
            await asyncio.sleep(0.005)
            return "acted"

        says: list[Step] = [Said("I "), calling("act"), Said("act"), Hold(), Completed()]
        made = machine(FakeTool("act", Touches.RUNS, does=act), says=by_call(says, [Said(" again"), Completed()]))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, point)
        async with made.engine() as services:
            assert await ended(services, sent.turn_id) == "failed"
            log = await types(services, sent.turn_id)
            assert log.count("RUN_FAILED") == 1
            assert len(ran) <= 1
            assert log.count("TOOL_STARTED") <= 1

    asyncio.run(journey())


def test_a_stop_that_was_cut_short_is_finished(machine: Made) -> None:
    async def journey() -> None:
        made = machine(FakeTool(does=hang), says=[calling(), Hold()], features=Features(aborts=True))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TOOL_STARTED")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
        async with made.engine() as services:
            assert await ended(services, sent.turn_id) == "stopped"

    asyncio.run(journey())


def test_another_backend_does_not_go_on_with_a_turn_but_with_its_chat(machine: Made) -> None:
    async def journey() -> None:
        made = machine(says=[ConversationKnown("conv-1"), Said("Half"), Hold()])
        async with made.engine() as services:
            sent = await say(services, "one")
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            await ended(services, sent.turn_id)
        made.backend = Other([Said("whole"), Completed()])
        async with made.engine() as services:
            await services.runs.control(sent.turn_id, "resume")
            assert await ended(services, sent.turn_id) == "failed"
            found = await result(services, sent.turn_id)
            assert (found.code, found.content) == ("backend_changed", "Half")
            again = await say(services, "two", chat_id=sent.chat_id)
            assert await ended(services, again.turn_id) == "succeeded"
            (request,) = backend_of(made).requests
            assert (request.conversation_id, len(request.history)) == ("", 2)

    asyncio.run(journey())


def test_a_turn_that_waits_for_a_backend_which_lacks_its_key_by_now_fails_with_that_and_goes_on_with_the_key(
    machine: Made,
) -> None:
    async def journey() -> None:
        made = machine(says=[Break(BackendFailed("gone"))], features=Features())
        async with made.engine() as services:
            sent = await say(services)
            await ended(services, sent.turn_id)
        whole = made.backend
        made.backend = UnreadyBackend(whole.name, "a key is missing")
        async with made.engine() as services:
            await services.runs.control(sent.turn_id, "retry")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 10.0)
            assert (result.success, result.error) == (False, "a key is missing")
        made.backend = MemoryBackend((Said("Hello."), Completed()))
        async with made.engine() as services:
            await services.runs.control(sent.turn_id, "retry")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 10.0)
            assert (result.success, result.content) == (True, "Hello.")

    asyncio.run(journey())
