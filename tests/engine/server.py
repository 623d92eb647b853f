"""A server of trivial runs in memory, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.simulation.loop import VirtualLoop
from tests.support.trivial import REGISTRY, Create, Script, TrivialKind

from pilothouse.adapters.store.memory import MemoryEventStore, MemoryWorld
from pilothouse.core.run.commands import Inventory
from pilothouse.core.run.events import Event
from pilothouse.core.run.inputs import Input
from pilothouse.engine.driving.supervisor import Driven, Supervisor, supervising

T = TypeVar("T")

INSTANCE = "here"


def run(test: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return VirtualLoop().run_until_complete(test())


async def quiet() -> None:
    """Until nothing moves any more: virtual time goes on only then."""
    await asyncio.sleep(0.001)


class Clock:
    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _inventory() -> Inventory:
    return Inventory(instance=INSTANCE)


class Server:
    def __init__(self, supervisor: Supervisor, script: Script, world: MemoryWorld) -> None:
        self.supervisor = supervisor
        self.script = script
        self.world = world

    async def create(self, run_id: str = "r", *, steps: int = 1, width: int = 1, tidies: bool = False) -> None:
        await self.supervisor.create("trivial", run_id, Create(steps=steps, width=width, tidies=tidies))
        await quiet()

    async def tell(self, given: Input, run_id: str = "r") -> None:
        await self.supervisor.tell(run_id, given)
        await quiet()

    async def end(self, key: str, result: Any = None) -> None:
        self.script.end(key, result)
        await quiet()

    def log(self, run_id: str = "r") -> list[str]:
        """The types of a run's events."""
        return [event.type_name() for event in events(self.world, run_id)]


def events(world: MemoryWorld, run_id: str = "r") -> list[Event]:
    return [event for segment in world.runs[run_id].segments for event in REGISTRY.decode(segment.body)]


@asynccontextmanager
async def serving(
    *,
    world: MemoryWorld | None = None,
    script: Script | None = None,
    slots: int = 8,
    point: Callable[[str], Awaitable[None]] | None = None,
) -> AsyncIterator[Server]:
    """``point`` is called around every operation of the store."""
    world = world or MemoryWorld()
    script = script or Script()
    async with supervising(
        store=MemoryEventStore(world, point),
        registry=REGISTRY,
        clock=Clock(),
        kinds={"trivial": Driven(TrivialKind(), script)},
        inventory=_inventory,
        slots=slots,
    ) as supervisor:
        await quiet()
        yield Server(supervisor, script, world)


class Gatekeeper:
    """A point of the store that a test can hold, or have fail, at one operation."""

    def __init__(self) -> None:
        self.hold_at: str | None = None
        self.fail_at: str | None = None
        self.error: Exception | None = None
        self.held = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, operation: str) -> None:
        if operation == self.hold_at:
            self.hold_at = None
            self.held.set()
            await self.go.wait()
        if operation == self.fail_at and self.error is not None:
            self.fail_at = None
            raise self.error
