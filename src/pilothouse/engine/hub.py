"""From those who append to those who tail: what was committed, in order, without a gap.

Keeps a short memory of recent batches, each event encoded once; whoever is further behind reads the store. A
follower that is slow or gone costs nobody else anything: nothing is queued for it, it comes and fetches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from pilothouse.core.run.events import Recorded
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.segments import Segment
from pilothouse.engine.ports import EventStore
from pilothouse.errors import Gone

_PAGE = 200
"""Segments read from the store at a time."""
PACE_S = 0.001
"""Between two pages of a burst: what comes meanwhile is one page."""
MEMORY = 2048
"""Batches that are kept, over all runs."""
MEMORY_BYTES = 32 << 20
"""What they may come to, as they are stored: some hold a whole answer."""


class Batch:
    """One committed batch. ``wires`` are its events in wire form, encoded on first use and then shared."""

    __slots__ = ("_registry", "_wires", "deleted", "position", "recorded", "rendered", "run_id", "shown", "size")

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
        self._registry = registry
        self._wires: tuple[bytes, ...] | None = None
        self.rendered: bytes | None = None
        """What the stream of all runs sends for it, once one has made that: all who follow it send the same."""
        self.shown: tuple[bytes, ...] | None = None
        """The same of the streams of its turn, an event each; empty where clients are shown nothing."""

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
        self._bells: dict[str | None, dict[asyncio.Event, None]] = {}
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
            for bell in self._bells.get(key, ()):
                bell.set()

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
        with self._bell(run_id) as bell:
            while True:
                bell.clear()
                found = await self._since(run_id, after)
                for batch in found:
                    if batch.deleted:
                        raise Gone(f"run {run_id} was deleted")
                    after = batch.recorded[-1].seq
                    yield batch
                if not found:
                    await bell.wait()

    async def follow_all(self, after: int = 0) -> AsyncIterator[Batch]:
        """Every batch of all runs after position ``after``, for ever, tombstones included."""
        with self._bell(None) as bell:
            while True:
                bell.clear()
                found = await self._tail.since(after)
                for batch in found:
                    after = batch.position
                    yield batch
                if not found:
                    await bell.wait()

    async def pages(self, run_id: str, after: int = 0, idle: float | None = None) -> AsyncGenerator[list[Batch], None]:
        """As ``follow``, everything there is at once; an empty page whenever nothing came for ``idle`` seconds."""
        await self._store.row(run_id)
        with self._bell(run_id) as bell, _Quiet(bell, idle) as quiet:
            while True:
                bell.clear()
                found = await self._since(run_id, after)
                page = [batch for batch in found if not batch.deleted]
                if page:
                    after = page[-1].recorded[-1].seq
                    yield page
                if len(page) < len(found):
                    raise Gone(f"run {run_id} was deleted")
                if not page and not await quiet.rings():
                    yield []

    async def pages_all(self, after: int = 0, idle: float | None = None) -> AsyncGenerator[list[Batch], None]:
        """As ``follow_all``, everything there is at once; an empty page whenever nothing came for ``idle`` seconds.

        The order is that of the store's positions: commits of different runs may be announced out of order, so
        this reads the store, and the announcements only wake it.
        """
        with self._bell(None) as bell, _Quiet(bell, idle) as quiet:
            while True:
                bell.clear()
                page = await self._tail.since(after)
                if page:
                    after = page[-1].position
                    yield page
                elif not await quiet.rings():
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
            newest = _newest(recent, lambda batch: batch.deleted or batch.recorded[-1].seq > after)
            return [batch.after(after) for batch in newest]
        segments = await self._store.read(run_id, after, _PAGE)
        return [self.batch(segment).after(after) for segment in segments]

    @contextmanager
    def _bell(self, key: str | None) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        bells = self._bells.setdefault(key, {})
        bells[bell] = None
        try:
            yield bell
        finally:
            del bells[bell]
            if not bells:
                self._bells.pop(key, None)


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
    found = list(takewhile(wanted, reversed(batches)))
    found.reverse()
    return found


class _Quiet:
    """A follower's waiting: for the bell, or for so many seconds without it. In a burst it comes back after a pause, so
    that what comes meanwhile is one page; after silence nothing waits.

    One timer serves for everything that comes before it ends, because one per event and follower costs more than all
    the rest."""

    def __init__(self, bell: asyncio.Event, seconds: float | None) -> None:
        self._bell = bell
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._since = self._rang = self._loop.time()
        self._over = False

    def __enter__(self) -> _Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def rings(self) -> bool:
        """Wait for the bell; False when the seconds went by without it."""
        self._since, self._over = self._loop.time(), False
        if self._seconds is not None and self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)
        await self._bell.wait()
        if self._over:
            return False
        now = self._loop.time()
        if now - self._rang < PACE_S:
            await asyncio.sleep(PACE_S)
            now = self._loop.time()
        self._rang = now
        return True

    def _look(self) -> None:
        assert self._seconds is not None
        rest = self._since + self._seconds - self._loop.time()
        self._timer = self._loop.call_later(rest, self._look) if rest > 0 else None
        if self._timer is None:
            self._over = True
            self._bell.set()
