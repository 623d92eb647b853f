"""Work that is ended when nobody wants it any more, or when its time is up.

Work that goes on although it was cancelled is waited for as long as whoever waits has patience; then it is left to
itself, and said so: it ends with the process at the latest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

import msgspec

from pilothouse.core.run.contract import Ended

log = logging.getLogger(__name__)

T = TypeVar("T")


class TooLong(msgspec.Struct, frozen=True):
    """Its time was up."""


class Patience:
    """``grace_s``: how long what was cancelled may take to end; None: until it has."""

    def __init__(self, grace_s: float | None = 3.0) -> None:
        self._grace_s = grace_s
        self._left: set[asyncio.Task[Any]] = set()

    @property
    def left(self) -> int:
        """How much work was cancelled and has not ended."""
        return len(self._left)

    @overload
    async def wait(
        self, work: Coroutine[Any, Any, T], unwanted: asyncio.Event, *, last_s: float = 0.0
    ) -> T | Ended: ...

    @overload
    async def wait(
        self, work: Coroutine[Any, Any, T], unwanted: asyncio.Event, limit_s: float
    ) -> T | Ended | TooLong: ...

    async def wait(
        self,
        work: Coroutine[Any, Any, T],
        unwanted: asyncio.Event,
        limit_s: float | None = None,
        *,
        last_s: float = 0.0,
    ) -> T | Ended | TooLong:
        """What ``work`` answers or raises, ``Ended`` once it is unwanted, ``TooLong`` after ``limit_s``. An answer that
        came while it was being ended counts.

        ``last_s``: how long it may go on when it is not wanted any more, for work that is as good as done."""
        if unwanted.is_set():
            work.close()
            return Ended()
        task = asyncio.create_task(work)
        told = asyncio.create_task(unwanted.wait())
        try:
            await asyncio.wait((task, told), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if last_s and not task.done():
                await asyncio.wait((task,), timeout=last_s)
            if task.cancelled():
                raise RuntimeError("work was cancelled by somebody who does not wait for it")
            if not task.done():
                await self._end(task)
            if task.done() and not task.cancelled():
                return task.result()
            return Ended() if told.done() else TooLong()
        finally:
            lets_go = not task.done() and task not in self._left  # whoever waits was cancelled
            told.cancel()
            if lets_go:
                task.cancel()  # before anything is awaited: who is cancelled over and over comes no further
            await asyncio.wait((told,))
            if lets_go and not task.done():
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
