"""The executor in memory: the twin for the simulation and for tests.

``MemoryExecutor`` is a client, ``MemoryWarden`` the world it asks. A simulated crash of the owner drops the client;
a simulated kill of the warden replaces the world's instance.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from pilothouse.adapters.work.memory_command import MemoryProgram
from pilothouse.adapters.work.memory_warden import MemoryWarden
from pilothouse.core.run.commands import Command, Exit, Grew, Inventory
from pilothouse.errors import ExecutorFailed

__all__ = ["MemoryExecutor", "MemoryProgram", "MemoryWarden"]


class MemoryExecutor:
    """Implements the engine's ``Executor`` port as a client of a ``MemoryWarden``."""

    def __init__(self, world: MemoryWarden, epoch: int) -> None:
        self.epoch = epoch
        self._world = world
        self._here = False
        self._closed = False

    async def __aenter__(self) -> MemoryExecutor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def open(self, attempt: str, fence: int) -> str:
        return self._reach().open(attempt, fence)

    async def start(self, command: Command, key: str) -> None:
        self._reach().start(command, key)

    async def attach(self, key: str, from_offset: int = 0) -> AsyncIterator[Grew | Exit]:
        seen, seen_errors = from_offset, 0
        world = self._reach()
        with world.waker() as wake:
            while True:
                wake.clear()
                (to, errors_to), exit, until = self._reach().look(key)
                if to > seen or errors_to > seen_errors:
                    seen, seen_errors = max(to, seen), errors_to
                    yield Grew(to)
                if exit is not None:
                    yield exit
                    return
                await _either(world.sleep_until(until), wake.wait())

    async def cancel(self, key: str, grace_ms: int | None = None) -> None:
        self._reach().cancel(key, grace_ms)

    async def inventory(self) -> Inventory:
        return self._reach().inventory()

    async def forget(self, key: str) -> None:
        self._reach().forget(key)

    async def shutdown(self) -> None:
        """End everything that runs."""
        self._reach().shutdown()
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the world; what runs goes on. Idempotent."""
        self.drop()

    def drop(self) -> None:
        """What a crash of the owner does: this client is gone, now."""
        if not self._closed:
            self._closed = True
            self._world.leave(self)

    def _reach(self) -> MemoryWarden:
        if self._closed:
            raise ExecutorFailed("this executor is closed")
        if not self._here:
            self._world.adopt(self)
            self._here = True
        elif self.epoch < self._world.epoch:
            raise ExecutorFailed("refused: a newer owner has taken over")
        return self._world


async def _either(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of the waits is over; the others are canceled and awaited."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
