"""Conversations over a whole engine in memory: a backend that says what a test wrote, tools that do what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.engine.server import Clock, run
from tests.support.services import PATIENCE_S, REPO, World, ended, happened

from pilothouse.adapters.backends.memory import MemoryBackend, Script, Step
from pilothouse.adapters.work.memory import MemoryWarden
from pilothouse.core.auth.principals import THE_LOCAL_USER, Kind, Principal, Scope
from pilothouse.core.chat.backend import Completed, Said, ToolCalled
from pilothouse.core.chat.calls import Features
from pilothouse.core.run.events import Event
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.engine.chats.chats import Send, Sent
from pilothouse.engine.services import Services
from pilothouse.engine.tools.registry import ToolRegistry

ANN = Principal("ann", Kind.KEY, frozenset({Scope.RUN}), "k1")
HELLO: Sequence[Step] = (Said("Hello."), Completed())
BOB = Principal("bob", Kind.KEY, frozenset({Scope.APPROVE}), "k2")

__all__ = ["ANN", "BOB", "REPO", "THE_LOCAL_USER", "World", "ended", "happened", "run"]


class FakeTool:
    """``does`` says what comes of it; without one it answers its arguments. ``ran`` is what it was called with."""

    def __init__(
        self,
        name: str = "look",
        touches: Touches = Touches.NOTHING,
        *,
        does: Callable[[Mapping[str, Any], ToolContext], Any] | None = None,
        **more: Any,
    ) -> None:
        parameters = {"type": "object", "properties": {}}
        self.spec = ToolSpec(name=name, description=f"{name}s", parameters=parameters, touches=touches, **more)
        self._does = does
        self.ran: list[dict[str, Any]] = []
        self.contexts: list[ToolContext] = []

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        self.ran.append(dict(arguments))
        self.contexts.append(context)
        if self._does is None:
            return ToolAnswer(ok=True, result=dict(arguments))
        answer = self._does(arguments, context)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, ToolAnswer) else ToolAnswer(ok=True, result=answer)


def world(
    *tools: FakeTool,
    says: Script | Sequence[Step] = HELLO,
    features: Features | None = None,
    title: str = "",
) -> World:
    """A machine whose backend says that, with these tools; its clock is the loop's, so that it may be virtual."""
    made = World()
    made.clock = Clock()
    made.warden = MemoryWarden(made.clock, made.program, made.logs)
    made.backend = MemoryBackend(says, features=features or Features(repeats=True), title=title)
    made.tools = ToolRegistry(tools)
    return made


def backend_of(made: World) -> MemoryBackend:
    assert isinstance(made.backend, MemoryBackend)
    return made.backend


def calling(name: str = "look", id: str = "c1", **arguments: Any) -> ToolCalled:
    return ToolCalled(id=id, name=name, arguments=arguments)


async def say(services: Services, message: str = "Hi", principal: Principal = THE_LOCAL_USER, **more: Any) -> Sent:
    return await services.chats.send(Send(message=message, **more), principal)


async def events(services: Services, turn_id: str) -> list[Event]:
    return [recorded.event for recorded in await services.queries.events(turn_id)]


async def types(services: Services, turn_id: str) -> list[str]:
    return [event.type_name() for event in await events(services, turn_id)]


async def until(condition: Callable[[], bool]) -> None:
    """Bounded."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)
