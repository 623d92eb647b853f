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
from pilothouse.engine.driving.patience import Patience

T = TypeVar("T")

_FOR_CERTAIN = Patience(grace_s=None)
"""What others go on with must not be worked on any more."""


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
        """Await ``work``, or cancel it and answer ``Ended`` once the effect is unwanted and the work has ended.

        ``patience_s``: how long it may then go on, for work that is as good as done."""
        return await _FOR_CERTAIN.wait(work, self.unwanted, last_s=patience_s)


class Performer(Protocol):
    """Performs the effects of one kind of run."""

    def __call__(self, effect: Effect, within: Within) -> Awaitable[msgspec.Struct]: ...
