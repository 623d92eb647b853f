"""Blocking work of tools on threads of its own: bounded in number, and given up together with the call it is for.

A system call that hangs (a resolver, a network drive) cannot be ended, so it must not take the threads that everything
else in the process shares, nor keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class GivenUp(Exception):
    """Raised on a thread whose work nobody waits for any more. It never leaves this module."""


class Wanted:
    """Whether somebody still waits for what a thread does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = False
        self._committing = False

    def check(self) -> None:
        """Between steps. Raises ``GivenUp``."""
        if self._given_up:
            raise GivenUp

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Around the one step after which it is done: the call is not over before that. Raises ``GivenUp``."""
        with self._lock:
            self.check()
            self._committing = True
        try:
            yield
        finally:
            self._committing = False

    def give_up(self) -> bool:
        """False: it is just being done."""
        with self._lock:
            self._given_up = not self._committing
            return self._given_up


class _Job(Generic[T]):
    def __init__(self, work: Callable[[Wanted], T]) -> None:
        self.work = work
        self.wanted = Wanted()
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self.loop.create_future()

    def do(self) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            self.wanted.check()
            result = self.work(self.wanted)
        except GivenUp:
            return
        except BaseException as caught:  # handed on to who waits
            error = caught
        with contextlib.suppress(RuntimeError):  # its loop is closed: the server has ended
            self.loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return  # it was given up
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)


class Threads:
    """At most ``most`` threads, begun when there is work; more of it waits for one."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[_Job[object]] = deque()
        self._running = 0

    async def run(self, work: Callable[[Wanted], T]) -> T:
        """What ``work`` answers or raises. Cancelled, it is given up: it ends at its next check, and what it has not
        committed by then it never does."""
        job = _Job(work)
        with self._lock:
            self._waiting.append(job)  # type: ignore[arg-type]  # what is answered is the caller's alone
            begin = self._running < self._most
            self._running += begin
        if begin:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        try:
            return await asyncio.shield(job.answer)
        except asyncio.CancelledError:
            if job.wanted.give_up():
                job.answer.cancel()
                with self._lock, contextlib.suppress(ValueError):  # of one that was begun
                    self._waiting.remove(job)  # type: ignore[arg-type]  # as above
            else:
                await _over(job.answer)
            raise

    def _serve(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                job = self._waiting.popleft()
            job.do()


async def _over(answer: asyncio.Future[T]) -> None:
    """Wait for a last step that is being taken, although we are being cancelled."""
    while not answer.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((answer,))
    if not answer.cancelled():
        answer.exception()  # looked at, so that nobody complains


FILES = Threads("tool-files", 16)
LOOKUPS = Threads("tool-lookups", 16)
