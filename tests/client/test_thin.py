"""A client holds nothing but what it shows: what it has not seen, or has forgotten, the server tells it again, and the
work goes on without it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx
from tests.interfaces.http.doors import Served, run, served
from tests.interfaces.http.talking import HOLD, backend_of, calls, says, talking, tool_of

from pilothouse.client import chats
from pilothouse.client.address import Address
from pilothouse.client.courses import TurnCourse
from pilothouse.client.decisions import decide
from pilothouse.client.doors import AsyncDoor
from pilothouse.client.events import ApprovalRequired, ChatEvent, Done, Text, ToolCalled, ToolEnded
from pilothouse.core.chat.backend import Completed, Said


@asynccontextmanager
async def a_client(at: Served) -> AsyncIterator[AsyncDoor]:
    """One that has seen nothing yet."""
    door = AsyncDoor(Address("http://localhost", {}), 10.0, httpx.AsyncHTTPTransport(uds=str(at.socket)))
    try:
        yield door
    finally:
        await door.close()


async def followed(door: AsyncDoor, course: TurnCourse, until: type[ChatEvent] = Done) -> list[ChatEvent]:
    """What it is told, up to the first event of a type."""
    found: list[ChatEvent] = []
    following = door.follow(course)
    assert isinstance(following, AsyncGenerator)
    async with aclosing(following) as events:
        async for event in events:
            found.append(event)
            if isinstance(event, until):
                break
    return found


def text_of(told: list[ChatEvent]) -> str:
    return "".join(event.text for event in told if isinstance(event, Text))


def test_one_that_comes_in_the_middle_shows_what_one_shows_that_was_there_from_the_beginning(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking(calls("look", text="I look. "), (Said("I "), HOLD, Said("see."), Completed()))
        async with served(tmp_path, world) as at, a_client(at) as first, a_client(at) as late:
            begun = TurnCourse(chats.body_of("go", "wait", {}))
            seen = await followed(first, begun, ToolEnded)
            assert await followed(late, TurnCourse(turn_id=begun.turn_id), ToolEnded) == seen
            backend_of(world).go_on()
            rest = await followed(late, TurnCourse(turn_id=begun.turn_id, after=seen[-1].seq))
            assert await followed(first, TurnCourse(turn_id=begun.turn_id, after=seen[-1].seq)) == rest
            assert text_of(seen + rest) == "I look. I see."

    run(journey())


def test_tools_run_on_the_server_though_whoever_asked_for_them_is_gone(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking(calls("touch", "look"), says("Both are done."))
        async with served(tmp_path, world) as at:
            async with a_client(at) as first:
                begun = TurnCourse(chats.body_of("go", "wait", {}))
                asked = (await followed(first, begun, ApprovalRequired))[-1]
            assert isinstance(asked, ApprovalRequired)
            assert tool_of(world, "touch").calls == []
            async with a_client(at) as second:
                assert await second.run(decide(asked, "approve"))
            async with a_client(at) as third:
                told = await followed(third, TurnCourse(turn_id=begun.turn_id))
            assert text_of(told) == "Both are done."
            assert {event.tool_name for event in told if isinstance(event, ToolCalled)} == {"touch", "look"}
            assert {event.tool_name for event in told if isinstance(event, ToolEnded) and event.ok} == {"touch", "look"}
            assert [len(tool_of(world, name).calls) for name in ("touch", "look")] == [1, 1]

    run(journey())
