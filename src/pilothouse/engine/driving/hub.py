"""From those who append to those who tail: what was committed, in order, without a gap.

Keeps a short memory of recent batches, each event encoded once; whoever is further behind reads the store. A
follower that is slow or gone costs nobody else anything: nothing is queued for it, it comes and fetches. How it waits
is the business of ``bells``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from weakref import WeakValueDictionary

from pilothouse.core.run.events import (
    Event,
    Recorded,
    RunCanceled,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Stopped,
)
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.segments import Segment
from pilothouse.engine.driving.bells import Bell, Ear
from pilothouse.engine.ports import EventStore
from pilothouse.errors import Gone

_PAGE = 200
"""Segments read from the store at a time."""
MEMORY = 2048
"""Batches that are kept, over all runs."""
MEMORY_BYTES = 32 << 20
"""What they may come to, as they are stored: some hold a whole answer."""

LEG_OPEN_AFTER: dict[type[Event], bool] = {
    RunStarted: True,
    RunResumed: True,
    RunFinished: False,
    RunFailed: False,
    RunCanceled: False,
    Stopped: False,
}
"""Whether a leg of the run is open after an event; the others change nothing about that."""


class Batch:
    """One committed batch. ``wires`` are its events in wire form, encoded on first use and then shared."""

    __slots__ = ("_registry", "_wires", "deleted", "leg_open", "position", "recorded", "rendered", "run_id", "size")

    def __init__(
        self,
        registry: Registry,
        position: int,
        run_id: str,
        recorded: tuple[Recorded, ...],
        deleted: bool = False,
        size: int = 0,
    ) -> None:
        self.position = position
        self.size = size
        self.run_id = run_id
        self.recorded = recorded
        self.deleted = deleted
        legs = [LEG_OPEN_AFTER[kind] for each in recorded if (kind := type(each.event)) in LEG_OPEN_AFTER]
        self.leg_open = legs[-1] if legs else None
        """Whether a leg of its run is open after it; None: as before."""
        self._registry = registry
        self._wires: tuple[bytes, ...] | None = None
        self.rendered: dict[str, bytes] = {}
        """What is sent for it, by the kind of stream, once one has made that: all streams of a kind send the same."""

    @property
    def wires(self) -> tuple[bytes, ...]:
        if self._wires is None:
            self._wires = tuple(self._registry.wire(recorded) for recorded in self.recorded)
        return self._wires

    def after(self, seq: int) -> Batch:
        """What of it lies after ``seq``."""
        if not self.recorded or self.recorded[0].seq > seq:
            return self
        return Batch(self._registry, self.position, self.run_id, tuple(r for r in self.recorded if r.seq > seq))


class Hub:
    """The recent past in memory, the rest in the store, and a bell."""

    def __init__(self, store: EventStore, registry: Registry, memory: int = MEMORY, size: int = MEMORY_BYTES) -> None:
        """``memory``: batches kept over all runs, and no more than ``size`` bytes of them."""
        self._store = store
        self._registry = registry
        self._all = _Recent(memory, size)
        self._runs: dict[str, deque[Batch]] = {}
        self._announced: dict[int, Batch] = {}
        self._bells: WeakValueDictionary[str | None, Bell] = WeakValueDictionary()
        """Of each run that somebody follows, and of all."""
        self._tail = _Tail(self, store, _Recent(memory, size))

    def publish(
        self, position: int, run_id: str, recorded: tuple[Recorded, ...], deleted: bool = False, size: int = 0
    ) -> None:
        """Committed at ``position`` as ``size`` bytes. Called in the order the appends returned, which for one run is
        its own order."""
        batch = Batch(self._registry, position, run_id, recorded, deleted, size)
        of_run = self._runs.setdefault(run_id, deque())
        if of_run and recorded and of_run[-1].recorded[-1].seq + 1 != recorded[0].seq:
            of_run.clear()  # a commit in between was refused after all had been written: only the store has it
        of_run.append(batch)
        self._announced[position] = batch
        for oldest in self._all.add(batch):
            self._forget(oldest)
        self._tail.unread = True
        for key in (run_id, None):
            if (bell := self._bells.get(key)) is not None:
                bell.ring()

    def _forget(self, oldest: Batch) -> None:
        self._announced.pop(oldest.position, None)
        of_run = self._runs.get(oldest.run_id)
        if of_run and of_run[0] is oldest:
            of_run.popleft()
            if not of_run:
                del self._runs[oldest.run_id]

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """Every batch of a run after sequence number ``after``, for ever. Raises ``NotFound``, ``Gone``."""
        # Not made of ``pages``: a generator within one that is dropped half-way cannot be closed in order.
        await self._store.row(run_id)
        with self._ear(run_id) as ear:
            while True:
                ear.look()
                found = await self._since(run_id, after)
                for batch in found:
                    if batch.deleted:
                        raise Gone(f"run {run_id} was deleted")
                    after = batch.recorded[-1].seq
                    yield batch
                if not found:
                    await ear.rings()

    async def follow_all(self, after: int = 0) -> AsyncIterator[Batch]:
        """Every batch of all runs after position ``after``, for ever, tombstones included."""
        with self._ear(None) as ear:
            while True:
                ear.look()
                found = await self._tail.since(after)
                for batch in found:
                    after = batch.position
                    yield batch
                if not found:
                    await ear.rings()

    async def pages(
        self, run_id: str, after: int = 0, idle: float | None = None, *, to_end: bool = False
    ) -> AsyncGenerator[list[Batch], None]:
        """As ``follow``, everything there is at once; an empty page whenever nothing came for ``idle`` seconds.

        ``to_end``: not for ever, but to the end of the run's last leg, and of those that are opened before its last
        page was dealt with."""
        leg_open = (await self._store.row(run_id)).lifecycle not in TERMINAL
        with self._ear(run_id, idle) as ear:
            while True:
                ear.look()
                page = await self._since(run_id, after)
                deleted = bool(page) and page[-1].deleted
                if deleted:
                    page.pop()
                more = len(page) >= _PAGE
                if page:
                    after = page[-1].recorded[-1].seq
                    leg_open = _leg_open(page, leg_open)
                    yield page
                    page = []  # not held while it waits
                if deleted:
                    raise Gone(f"run {run_id} was deleted")
                if not more and not ear.missed:
                    if to_end and not leg_open:
                        return
                    while not await ear.rings():
                        yield []

    async def pages_all(self, after: int = 0, idle: float | None = None) -> AsyncGenerator[list[Batch], None]:
        """As ``follow_all``, everything there is at once; an empty page whenever nothing came for ``idle`` seconds.

        The order is that of the store's positions: commits of different runs may be announced out of order, so
        this reads the store, and the announcements only wake it.
        """
        with self._ear(None, idle) as ear:
            while True:
                ear.look()
                page = await self._tail.since(after)
                if page:
                    after = page[-1].position
                    yield page
                else:
                    while not await ear.rings():
                        yield []

    def batch(self, segment: Segment) -> Batch:
        """A stored segment, decoded, or the batch that was announced for it, whose wire form is shared."""
        announced = self._announced.get(segment.position)
        if announced is not None:
            return announced
        events = self._registry.decode(segment.body) if not segment.deleted else []
        recorded = tuple(
            Recorded(segment.run_id, segment.first_seq + index, segment.at, event) for index, event in enumerate(events)
        )
        return Batch(self._registry, segment.position, segment.run_id, recorded, segment.deleted, len(segment.body))

    def wire(self, recorded: Recorded) -> bytes:
        return self._registry.wire(recorded)

    async def _since(self, run_id: str, after: int) -> list[Batch]:
        recent = self._runs.get(run_id)
        if recent and (recent[0].deleted or recent[0].recorded[0].seq <= after + 1):
            found = _newest(recent, lambda batch: batch.deleted or batch.recorded[-1].seq > after)
        else:
            found = [self.batch(segment) for segment in await self._store.read(run_id, after, _PAGE)]
        if found:
            found[0] = found[0].after(after)
        return found

    def _ear(self, key: str | None, idle: float | None = None) -> Ear:
        bell = self._bells.get(key)
        if bell is None:
            bell = self._bells[key] = Bell()
        return Ear(bell, idle)


class _Recent:
    """The newest batches, bounded in number and in bytes; one at least."""

    def __init__(self, number: int, size: int) -> None:
        self.batches: deque[Batch] = deque()
        self._number = number
        self._most = size
        self._size = 0

    def add(self, batch: Batch) -> Iterator[Batch]:
        """The oldest ones, which there is no room for any more. They are forgotten as they are taken."""
        self.batches.append(batch)
        self._size += batch.size
        while len(self.batches) > self._number or (self._size > self._most and len(self.batches) > 1):
            oldest = self.batches.popleft()
            self._size -= oldest.size
            yield oldest

    def clear(self) -> None:
        self.batches.clear()
        self._size = 0


class _Tail:
    """The end of the log in the store's order, read once for all who follow it."""

    def __init__(self, hub: Hub, store: EventStore, recent: _Recent) -> None:
        self._hub = hub
        self._store = store
        self._recent = recent
        self._batches = recent.batches
        self._begin = 0
        """What lies after this position, up to ``_end``, is in ``_batches``."""
        self._end = 0
        self._reading = asyncio.Lock()
        self.unread = True
        """There may be something after ``_end``."""

    async def since(self, after: int) -> list[Batch]:
        """What lies after a position, oldest first; empty only at the end of the log."""
        if self._begin <= after < self._end:
            return _newest(self._batches, lambda batch: batch.position > after)
        if after == self._end and not self.unread and not self._reading.locked():
            return []
        async with self._reading:
            if after > self._end:  # nobody was at the end until now
                self._recent.clear()
                self._begin = self._end = after
                self.unread = True
            if after == self._end:
                if not self.unread:
                    return []
                self.unread = False
                try:
                    page = await self._read(after)
                except BaseException:  # also when this follower is cancelled: the next one reads
                    self.unread = True
                    raise
                self._extend(page)
                self.unread |= bool(page)
                return page
            if after >= self._begin:
                return _newest(self._batches, lambda batch: batch.position > after)
        return await self._read(after)

    async def _read(self, after: int) -> list[Batch]:
        return [self._hub.batch(segment) for segment in await self._store.read_all(after, _PAGE)]

    def _extend(self, page: list[Batch]) -> None:
        for batch in page:
            self._end = batch.position
            for oldest in self._recent.add(batch):
                self._begin = oldest.position


def _newest(batches: deque[Batch], wanted: Callable[[Batch], bool]) -> list[Batch]:
    """The end of it that is wanted, found from the end, since that is where followers are."""
    found = []
    for batch in reversed(batches):
        if not wanted(batch):
            break
        found.append(batch)
    found.reverse()
    return found


def _leg_open(page: list[Batch], before: bool) -> bool:
    """Whether a leg of the run is open after a page, given whether one was before."""
    for batch in reversed(page):
        if batch.leg_open is not None:
            return batch.leg_open
    return before
