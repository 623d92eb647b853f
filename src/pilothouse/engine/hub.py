"""From those who append to those who tail: what was committed, in order, without a gap.

Keeps a short memory of recent batches, each event encoded once; whoever is further behind reads the store. A
follower that is slow or gone costs nobody else anything: nothing is queued for it, it comes and fetches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from pilothouse.core.run.events import Recorded
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.segments import Segment
from pilothouse.engine.ports import EventStore
from pilothouse.errors import Gone

_PAGE = 200
"""Segments read from the store at a time."""


class Batch:
    """One committed batch. ``wires`` are its events in wire form, encoded on first use and then shared."""

    __slots__ = ("_registry", "_wires", "deleted", "position", "recorded", "run_id")

    def __init__(
        self,
        registry: Registry,
        position: int,
        run_id: str,
        recorded: tuple[Recorded, ...],
        deleted: bool = False,
    ) -> None:
        self.position = position
        self.run_id = run_id
        self.recorded = recorded
        self.deleted = deleted
        self._registry = registry
        self._wires: tuple[bytes, ...] | None = None

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

    def __init__(self, store: EventStore, registry: Registry, memory: int = 2048) -> None:
        """``memory``: batches kept over all runs."""
        self._store = store
        self._registry = registry
        self._memory = memory
        self._all: deque[Batch] = deque()
        self._runs: dict[str, deque[Batch]] = {}
        self._bells: dict[str | None, dict[asyncio.Event, None]] = {}

    def publish(self, position: int, run_id: str, recorded: tuple[Recorded, ...], deleted: bool = False) -> None:
        """Committed at ``position``. Called in the order the appends returned, which for one run is its own order."""
        batch = Batch(self._registry, position, run_id, recorded, deleted)
        self._all.append(batch)
        self._runs.setdefault(run_id, deque()).append(batch)
        if len(self._all) > self._memory:
            oldest = self._all.popleft()
            of_run = self._runs[oldest.run_id]
            of_run.popleft()
            if not of_run:
                del self._runs[oldest.run_id]
        for key in (run_id, None):
            for bell in self._bells.get(key, ()):
                bell.set()

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """Every batch of a run after sequence number ``after``, for ever. Raises ``NotFound``, ``Gone``."""
        await self._store.row(run_id)
        with self._bell(run_id) as bell:
            while True:
                bell.clear()
                for batch in await self._since(run_id, after):
                    if batch.deleted:
                        raise Gone(f"run {run_id} was deleted")
                    after = batch.recorded[-1].seq
                    yield batch
                    bell.set()
                await bell.wait()

    async def follow_all(self, after: int = 0) -> AsyncIterator[Batch]:
        """Every batch of all runs after position ``after``, for ever, tombstones included.

        The order is that of the store's positions: commits of different runs may be announced out of order, so
        this reads the store, and the announcements only wake it.
        """
        with self._bell(None) as bell:
            while True:
                bell.clear()
                segments = await self._store.read_all(after, _PAGE)
                for segment in segments:
                    after = segment.position
                    yield self.batch(segment)
                if not segments:
                    await bell.wait()

    def batch(self, segment: Segment) -> Batch:
        """A stored segment, decoded."""
        events = self._registry.decode(segment.body) if not segment.deleted else []
        recorded = tuple(
            Recorded(segment.run_id, segment.first_seq + index, segment.at, event) for index, event in enumerate(events)
        )
        return Batch(self._registry, segment.position, segment.run_id, recorded, segment.deleted)

    async def _since(self, run_id: str, after: int) -> list[Batch]:
        recent = self._runs.get(run_id)
        if recent and (recent[0].deleted or recent[0].recorded[0].seq <= after + 1):
            return [batch.after(after) for batch in recent if batch.deleted or batch.recorded[-1].seq > after]
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
