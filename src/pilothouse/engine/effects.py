"""How an effect is performed: what its performer is given, and what it owes.

A performer is a coroutine ``perform(effect, within) -> result``. It is ended in two different ways:

* ``within.unwanted`` is set: the run no longer wants it. It ends what it began for certain and answers ``Ended`` (or
  its true outcome, when that came first).
* Its task is cancelled: this *process* lets go of it. It must leave what runs elsewhere running, so that the next
  owner adopts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from pilothouse.core.run.contract import Effect, Ended
from pilothouse.core.run.events import Event
from pilothouse.core.run.inputs import Input

T = TypeVar("T")


class Done(msgspec.Struct, frozen=True):
    """An effect's result: it was performed, and there is nothing more to say about it."""


class Within:
    """What a performer sees of the run it works for."""

    def __init__(
        self,
        run_id: str,
        epoch: int,
        record: Callable[[tuple[Event, ...]], None],
        tell: Callable[[Input], Awaitable[None]] | None = None,
    ) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.unwanted = asyncio.Event()
        self.record = record
        """Report progress, as events that change nothing that is decided."""
        self._tell = tell

    async def tell(self, given: Input) -> None:
        """Tell the run something that is decided about, and wait until what follows is in the log: so whoever streams
        is never further than the disk. Raises what ``Actor.ask`` does."""
        assert self._tell is not None, "only effects of a driven run tell it things"
        await self._tell(given)

    async def unless_unwanted(self, work: Coroutine[Any, Any, T], patience_s: float = 0.0) -> T | Ended:
        """Await ``work``, or cancel it and answer ``Ended`` once the effect is unwanted.

        ``patience_s``: how long it may then go on, for work that is as good as done."""
        if self.unwanted.is_set():
            work.close()
            return Ended()
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self.unwanted.wait())
        try:
            await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
            if patience_s and not task.done():
                await asyncio.wait((task,), timeout=patience_s)
            if task.done():
                return task.result()
            task.cancel()
            await asyncio.wait((task,))
            return Ended() if task.cancelled() else task.result()
        finally:
            waiter.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))


class Performer(Protocol):
    """Performs the effects of one kind of run."""

    def __call__(self, effect: Effect, within: Within) -> Awaitable[msgspec.Struct]: ...
