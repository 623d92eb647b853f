"""What arrives together is handed on together: one batch per network chunk, however a library takes it apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")

STEPS = 2
"""Steps of the event loop that a source may take for an item it has: libraries pause between items they hold."""

MOST = 512
"""Items that wait at most; the source is not read further meanwhile."""


async def together(source: AsyncGenerator[Sequence[T]]) -> AsyncGenerator[list[T]]:
    """The items of ``source`` in batches of all that was there without waiting. Closing it closes the source."""
    waiting: list[T] = []
    arrived, taken = asyncio.Event(), asyncio.Event()

    async def pump() -> None:
        async with aclosing(source):
            async for items in source:
                waiting.extend(items)
                arrived.set()
                if len(waiting) >= MOST:
                    taken.clear()
                    await taken.wait()

    task = asyncio.create_task(pump())
    task.add_done_callback(lambda _: arrived.set())
    try:
        while waiting or not task.done():
            if not waiting:
                await arrived.wait()
                arrived.clear()
                continue
            await _more(waiting)
            batch = waiting[:]
            waiting.clear()
            taken.set()
            yield batch
        task.result()
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # it was raised above, or nobody wants the source any more


async def _more(waiting: Sequence[T]) -> None:
    """While more comes without waiting for anything outside."""
    quiet = 0
    while quiet < STEPS and len(waiting) < MOST:
        before = len(waiting)
        await asyncio.sleep(0)
        quiet = quiet + 1 if len(waiting) == before else 0
