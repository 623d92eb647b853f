"""The chat document's way back: with the orchestrator off, conversations are handed on as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.interfaces.http.doors import Inside, inside, run, served
from tests.interfaces.http.talking import CHAT, HEADLESS, failure, says, talking
from tests.interfaces.http.test_plans import refusal
from tests.support.copilot_backend import REPORT, TURN, Answer, CopilotBackend, Step
from tests.support.services import World

from pilothouse.adapters.backends.memory import Hold
from pilothouse.adapters.backends.remote import RemoteBackend
from pilothouse.adapters.backends.unready import UnreadyBackend
from pilothouse.interfaces.http.api import ChatFlags

OFF = ChatFlags(orchestrator=False)
BODY = b'{"message": "hi",  "anything": [1, 2]}'
STREAM = b'data: {"type":"content","data":"Hel"}\n\ndata: not even JSON\r\n\r\ndata: {"type":"done"}\n\n'


@asynccontextmanager
async def passing(*steps: Step) -> AsyncIterator[tuple[Inside, CopilotBackend]]:
    """A server that passes on to a backend which says these."""
    async with CopilotBackend().serving() as copilot, RemoteBackend.opened(copilot.url, "the-key") as remote:
        copilot.plays(steps)
        world = World()
        world.backend = remote
        async with inside(world, flags=OFF) as at:
            yield at, copilot


def test_request_and_answer_are_handed_on_byte_for_byte() -> None:
    async def journey() -> None:
        async with passing(STREAM[:30], STREAM[30:]) as (at, copilot):
            answered = await at.client.post(CHAT, content=BODY)
            assert answered.content == STREAM
            assert answered.headers["content-type"].startswith("text/event-stream")
            [received] = copilot.requests
            assert (received.method, received.path) == ("POST", TURN)
            assert received.headers["x-api-key"] == "the-key"
            assert received.body == {"message": "hi", "anything": [1, 2]}
            assert (await at.client.get("/api/copilot/chats")).json() == {"chats": []}  # nothing is kept

    run(journey())


def test_a_backend_that_lacks_its_address_is_told_of_with_the_setting() -> None:
    async def journey() -> None:
        world = talking()
        world.backend = UnreadyBackend("remote", "PILOTHOUSE_BACKEND_URL is missing")
        async with inside(world, flags=OFF) as at:
            refused = refusal(await at.client.post(CHAT, content=BODY), 503, "unavailable")
            assert "PILOTHOUSE_BACKEND_URL" in str(refused["detail"])

    run(journey())


@pytest.mark.parametrize("at", [3, 20, 25])
def test_the_backends_key_is_kept_out_of_the_bytes_wherever_they_are_cut(at: int) -> None:
    async def journey() -> None:
        said = b'data: {"data":"it is the-key, the"}\n\n'
        async with passing(said[:at], said[at:]) as (at_door, _):
            answered = await at_door.client.post(CHAT, content=BODY)
            assert answered.content == b'data: {"data":"it is ***, the"}\n\n'

    run(journey())


def test_what_the_backend_refuses_is_handed_on_too() -> None:
    async def journey() -> None:
        async with passing(Answer(402, {"message": "no money"}, {"retry-after": "9"})) as (at, _):
            answered = await at.client.post(CHAT, content=BODY)
            assert (answered.status_code, answered.json()) == (402, {"message": "no money"})
            assert answered.headers["retry-after"] == "9"

    run(journey())


def test_a_backend_that_is_not_there_is_said() -> None:
    async def journey() -> None:
        async with RemoteBackend.opened("http://127.0.0.1:9") as remote:
            world = World()
            world.backend = remote
            async with inside(world, flags=OFF) as at:
                refusal(await at.client.post(CHAT, content=BODY), 502, "backend_failed")

    run(journey())


def test_with_any_other_backend_there_is_nobody_to_hand_it_on_to() -> None:
    async def journey() -> None:
        async with inside(talking(says("Hello.")), flags=OFF) as at:
            refused = refusal(await at.client.post(CHAT, json={"message": "hi"}), 503, "unavailable")
            assert "COPILOT_USE_SERVER_ORCHESTRATOR" in str(refused["detail"])
            failure(await at.client.post(HEADLESS, json={"message": "hi"}), 503, "unavailable")

    run(journey())


@pytest.mark.parametrize(("status", "message"), [(200, "done"), (400, {"why": "skipped"})])
def test_a_client_that_ran_a_tool_tells_the_backend_so(status: int, message: object) -> None:
    async def journey() -> None:
        async with passing(STREAM) as (at, copilot):
            body = {"id": "t", "name": "look", "status": status, "message": message, "data": {"a": 1}}
            answered = await at.client.post("/api/copilot/tools/mark-complete", json=body)
            assert answered.json() == {"success": True, "toolCallId": "t"}
            [told] = copilot.sent(REPORT)
            assert (told["id"], told["status"], told["data"]) == ("t", status, {"a": 1})

    run(journey())


def test_a_client_that_leaves_leaves_the_backend_too(tmp_path: Path) -> None:
    async def journey() -> None:
        async with CopilotBackend().serving() as copilot, RemoteBackend.opened(copilot.url) as remote:
            copilot.plays((STREAM, Hold()))
            world = World()
            world.backend = remote
            async with served(tmp_path, world, flags=OFF) as at:
                async with at.client.stream("POST", CHAT, content=BODY) as response:
                    assert await anext(response.aiter_raw())
                await copilot.until(lambda: copilot.left == 1)

    run(journey())
