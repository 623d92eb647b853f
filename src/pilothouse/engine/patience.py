"""Work that may not hold up whoever waits for it: it is ended when its time is up, or when nobody wants it any more.

Work that does not end when it is cancelled is left to itself, and said so; it ends with the process at the latest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from pilothouse.core.run.contract import Ended
from pilothouse.engine.ports import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")


class TooLong(msgspec.Struct, frozen=True):
    """Its time was up."""


class Patience:
    """``grace_s``: how long what was cancelled may take to end."""

    def __init__(self, clock: Clock, grace_s: float = 3.0) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._left: set[asyncio.Task[Any]] = set()

    @property
    def left(self) -> int:
        """How much work was cancelled and has not ended."""
        return len(self._left)

    async def wait(
        self, work: Coroutine[Any, Any, T], unwanted: asyncio.Event, limit_s: float | None = None
    ) -> T | Ended | TooLong:
        """What ``work`` answers or raises, ``Ended`` once it is unwanted, ``TooLong`` after ``limit_s``. An answer that
        came while it was being ended counts."""
        if unwanted.is_set():
            work.close()
            return Ended()
        task = asyncio.create_task(work)
        told = asyncio.create_task(unwanted.wait())
        alarm = None if limit_s is None else asyncio.create_task(self._clock.sleep(limit_s))
        helpers: set[asyncio.Task[Any]] = {told} if alarm is None else {told, alarm}
        try:
            await asyncio.wait({task, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await self._end(task)
            if task.done() and not task.cancelled():
                return task.result()
            return Ended() if told.done() else TooLong()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)
            if not task.done():  # this process lets go
                await self._end(task)
            if task.done() and not task.cancelled():
                task.exception()  # who let go does not look at it

    async def _end(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        await asyncio.wait((task,), timeout=self._grace_s)
        if not task.done() and task not in self._left:
            log.warning("work.stuck: it does not end although it was cancelled", extra={"task": task.get_name()})
            self._left.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("work.stuck: it failed in the end", exc_info=error)
