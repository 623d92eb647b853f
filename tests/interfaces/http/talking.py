"""Conversations in tests of the HTTP door: a scripted backend, some tools, and reading what is streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.interfaces.http.doors import Sent, events
from tests.support.services import PATIENCE_S, World
from tests.support.tools import TestTool

from pilothouse.adapters.backends.memory import Hold, MemoryBackend, Step
from pilothouse.core.chat.backend import Completed, Paused, Said, ToolCalled
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.tools.spec import ToolAnswer, Touches

HEADLESS = "/api/v1/copilot/chat"
CHAT = "/api/copilot/chat"
STREAM = f"{CHAT}/stream"

Shown = dict[str, Any]

HOLD, NEVER = Hold("go"), Hold("never")
"""Steps of a reply: nothing is said until ``go_on``, and nothing for ever."""


class Talker(MemoryBackend):
    """Its replies are used up one per request, whichever turn asks; when there are none left it says ``Hello.``"""

    def __init__(self, replies: Sequence[Sequence[Step]], features: Features) -> None:
        self.replies = list(replies)
        super().__init__(self._next, features=features)

    def _next(self, _: BackendRequest) -> Sequence[Step]:
        return self.replies.pop(0) if self.replies else says("Hello.")

    def go_on(self) -> None:
        self.release(HOLD.name)


def talking(*replies: Sequence[Step], features: Features | None = None) -> World:
    """A world with a backend that says ``replies``, and three tools: ``look`` touches nothing, ``touch`` the world, so
    that a person is asked, ``break`` cannot do it."""
    world = World()
    world.backend = Talker(replies, features or Features())
    world.tools.add(TestTool("look"))
    world.tools.add(TestTool("touch", touches=Touches.WORLD))
    world.tools.add(TestTool("break", ToolAnswer(ok=False, error="it is stuck")))
    return world


def backend_of(world: World) -> Talker:
    assert isinstance(world.backend, Talker)
    return world.backend


def tool_of(world: World, name: str) -> TestTool:
    tool = world.tools.get(name)
    assert isinstance(tool, TestTool)
    return tool


def says(*texts: str) -> Sequence[Step]:
    return (*map(Said, texts), Completed())


def calls(*names: str, text: str = "") -> Sequence[Step]:
    """A reply that calls tools, ``NAME-1``, ``NAME-2`` …, and pauses for what comes of them."""
    called = tuple(ToolCalled(id=f"{name}-{n}", name=name, arguments={"n": n}) for n, name in enumerate(names, 1))
    said = (Said(text),) if text else ()
    return (*said, *called, Paused(checkpoint_id="cp", pending=tuple(call.id for call in called)))


def failure(answered: httpx.Response, status: int, code: str = "") -> dict[str, Any]:
    """The headless route's body of an error."""
    assert answered.status_code == status, answered.text
    assert answered.headers["content-type"].startswith("application/json")
    found: dict[str, Any] = answered.json()
    assert found["success"] is False
    assert found["error"]
    assert isinstance(found["content"], str)
    assert isinstance(found["toolCalls"], list)
    if code:
        assert found["code"] == code, found
    return found


@asynccontextmanager
async def opened(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None, **headers: str
) -> AsyncIterator[AsyncIterator[Shown]]:
    """What a stream shows, as it comes."""
    async with client.stream(method, path, json=body, headers=headers) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _shown(response)


async def _shown(response: httpx.Response) -> AsyncIterator[Shown]:
    async for sent in events(response):
        if isinstance(sent, Sent):
            shown = json.loads(sent.data)
            assert sent.id == str(shown["eventId"])
            yield shown


async def say(client: httpx.AsyncClient, message: str = "hello", **more: Any) -> list[Shown]:
    """Everything that comes of a message, sent interactively."""
    async with opened(client, "POST", CHAT, {"message": message, **more}) as stream:
        return [shown async for shown in stream]


async def until(stream: AsyncIterator[Shown], met: Callable[[Shown], bool] | str) -> list[Shown]:
    """Up to the first that meets a condition, or is of a type."""
    found = []
    async for shown in stream:
        found.append(shown)
        if (shown["type"] == met) if isinstance(met, str) else met(shown):
            return found
    raise AssertionError(f"the stream ended: {found}")


async def rest_of(client: httpx.AsyncClient, stream_id: str, after: int) -> list[Shown]:
    """What a client sees that comes back."""
    async with opened(client, "GET", f"{STREAM}?streamId={stream_id}", **{"last-event-id": str(after)}) as stream:
        return [shown async for shown in stream]


def text_of(shown: list[Shown]) -> str:
    return "".join(each["data"] for each in shown if each["type"] == "content")


def kinds(shown: list[Shown]) -> list[str]:
    return [each["type"] for each in shown]


__all__ = ["PATIENCE_S", "Shown"]
