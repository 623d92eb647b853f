"""An event loop whose time is a number: it jumps to the next timer when nothing is ready.

Owns order and time and nothing else: no selector, no threads, no signals. What runs on it can only wait for timers and
for each other, so when nothing is ready and no timer is set, nothing will ever happen again: ``Deadlock``.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Deadlock(Exception):
    """Raised when nothing is ready and no timer is set."""


class Exhausted(Exception):
    """Raised when more steps were made than were allowed: something spins."""


class VirtualLoop:
    """What asyncio needs of a loop, and no more. ``steps``: how many callbacks may run before it is ``Exhausted``."""

    def __init__(self, steps: int = 1_000_000) -> None:
        self.now = 0.0
        self.errors: list[dict[str, Any]] = []
        """What was told to the exception handler."""
        self._steps = steps
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._running = False
        self._itself = cast(asyncio.AbstractEventLoop, self)

    def run_until_complete(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self.create_task(coroutine)
        self._running = True
        asyncio._set_running_loop(self._itself)
        try:
            while not task.done():
                self._turn()
            return task.result()
        finally:
            asyncio._set_running_loop(None)
            self._running = False

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise Deadlock("nothing is ready and no timer is set")
            self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
                self._steps -= 1
        if self._steps < 0:
            raise Exhausted("too many steps: something spins")

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._itself, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self._itself, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it is skipped when its time comes

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._itself)

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: str | None = None, **options: Any
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self._itself, name=name, **options)

    def run_in_executor(self, executor: object, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """There are no threads: it is done now, and is seen to be done a step later."""
        future = self.create_future()
        try:
            future.set_result(work(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def close(self) -> None:
        pass
