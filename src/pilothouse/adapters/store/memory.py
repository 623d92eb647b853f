"""The event store's twin in memory: the same contract, deterministic, and a disk that can lose power.

``MemoryWorld`` is what lies on the disk and outlives a process; ``MemoryEventStore`` is one process's client of it.
What a commit without ``durable`` wrote is the world's *unsynced tail* until the next durable commit or checkpoint:
``crash`` loses some of it, from some commit on, as a power cut does with a write-ahead log that was not synced. No
threads, and no awaits but of the hook by which a simulation brings delays and failures in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from operator import attrgetter
from random import Random
from typing import TypeVar

import msgspec

from pilothouse.adapters.store import refusals
from pilothouse.adapters.store.refusals import Standing
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document, Segment
from pilothouse.errors import StoreFailed

T = TypeVar("T")

Point = Callable[[str], Awaitable[None]]
"""Called with ``<operation>.begin`` and ``<operation>.committed``. What it raises the operation raises: before the
commit nothing has happened, after it everything has."""


def _age(row: RunRow) -> tuple[int, str]:
    return row.created_at, row.id


@dataclass(slots=True)
class _Run:
    row: RunRow
    segments: list[Segment] = field(default_factory=list)


class MemoryWorld:
    """What is on the disk."""

    def __init__(self) -> None:
        self.owner_epoch = 0
        self.runs: dict[str, _Run] = {}
        self.tombstones: dict[str, Segment] = {}
        self.log: list[Segment] = []
        self.position = 0
        self.documents: dict[tuple[str, str], Document] = {}
        self.document_versions: dict[tuple[str, str], list[Document]] = {}
        self._unsynced: list[tuple[Segment, RunRow | None]] = []
        """Appends since the last sync, each with the row before it. All else that is written is durable."""

    def checkpoint(self) -> None:
        """Sync what has been written."""
        self._unsynced.clear()

    def crash(self, random: Random) -> int:
        """The power fails: of the unsynced tail a beginning is kept, whole batches in commit order. Answers how many
        batches were lost. A process that merely dies loses nothing."""
        lost = len(self._unsynced) - random.randint(0, len(self._unsynced))
        for _ in range(lost):
            segment, before = self._unsynced.pop()
            self._take_back(segment, before)
        self.checkpoint()
        return lost

    def standing(self, run_id: str) -> Standing:
        if run_id in self.tombstones:
            return Standing(tombstone=self.tombstones[run_id].position)
        run = self.runs.get(run_id)
        return Standing() if run is None else Standing(run.row.seq, run.row.epoch)

    def write(self, append: Append) -> int:
        """An append that was found to be allowed. Answers its position."""
        segment = self._next_segment(append.run_id, append.expected_seq + 1, append.count, append.at, append.body)
        run = self.runs.get(append.run_id)
        self._unsynced.append((segment, None if run is None else run.row))
        row = msgspec.structs.replace(append.row, epoch=append.epoch)
        if run is None:
            run = self.runs[append.run_id] = _Run(row)
        run.row = row
        run.segments.append(segment)
        if append.durable:
            self.checkpoint()
        return segment.position

    def delete(self, run_id: str, at: int) -> int:
        """Answers the tombstone's position."""
        del self.runs[run_id]
        self.log = [segment for segment in self.log if segment.run_id != run_id]
        self.tombstones[run_id] = self._next_segment(run_id, 0, 0, at, b"", deleted=True)
        self.checkpoint()
        return self.position

    def _next_segment(
        self, run_id: str, first_seq: int, count: int, at: int, body: bytes, *, deleted: bool = False
    ) -> Segment:
        self.position += 1
        segment = Segment(
            position=self.position, run_id=run_id, first_seq=first_seq, count=count, at=at, body=body, deleted=deleted
        )
        self.log.append(segment)
        return segment

    def _take_back(self, segment: Segment, before: RunRow | None) -> None:
        assert self.log.pop() is segment
        self.position -= 1  # as SQLite does: its counter is a row of the same transaction
        run = self.runs[segment.run_id]
        run.segments.pop()
        if before is None:
            del self.runs[segment.run_id]
        else:
            run.row = before


class MemoryEventStore:
    """Implements ``EventStore``, see ``engine/ports``, on a ``MemoryWorld``. Any number may share one."""

    def __init__(self, world: MemoryWorld | None = None, point: Point | None = None) -> None:
        self.world = world or MemoryWorld()
        self._point = point
        self._closed = False

    async def take_ownership(self) -> int:
        await self._begin("take_ownership")
        self.world.owner_epoch += 1
        self.world.checkpoint()
        return await self._committed("take_ownership", self.world.owner_epoch)

    async def claim(self, run_id: str, epoch: int) -> RunRow:
        await self._begin("claim")
        refusal = refusals.not_owned(run_id, self.world.standing(run_id), epoch)
        if refusal is not None:
            raise refusal
        run = self.world.runs[run_id]
        run.row = msgspec.structs.replace(run.row, epoch=epoch)
        self.world.checkpoint()
        return await self._committed("claim", run.row)

    async def append(self, append: Append) -> int:
        refusals.check(append)
        await self._begin("append")
        refusal = refusals.not_appendable(self.world.standing(append.run_id), append)
        if refusal is not None:
            raise refusal
        return await self._committed("append", self.world.write(append))

    async def delete(self, run_id: str, epoch: int, at: int) -> int:
        await self._begin("delete")
        standing = self.world.standing(run_id)
        if standing.tombstone is not None:
            return standing.tombstone
        refusal = refusals.not_owned(run_id, standing, epoch)
        if refusal is not None:
            raise refusal
        return await self._committed("delete", self.world.delete(run_id, at))

    async def row(self, run_id: str) -> RunRow:
        await self._begin("row")
        return self._run(run_id).row

    async def rows(
        self,
        *,
        kind: str | None = None,
        lifecycles: frozenset[Lifecycle] | None = None,
        owner: str | None = None,
        session_id: str | None = None,
        parent_run_id: str | None = None,
        waiting: bool | None = None,
        owing: bool = False,
        limit: int = 1000,
        before: tuple[int, str] | None = None,
    ) -> list[RunRow]:
        await self._begin("rows")
        found = [
            run.row
            for run in self.world.runs.values()
            if kind in (None, run.row.kind)
            and (lifecycles is None or run.row.lifecycle in lifecycles)
            and owner in (None, run.row.owner)
            and session_id in (None, run.row.session_id)
            and parent_run_id in (None, run.row.parent_run_id)
            and waiting in (None, bool(run.row.waits))
            and (not owing or run.row.detail.get("owed", 0) > 0)
            and (before is None or (run.row.created_at, run.row.id) < before)
        ]
        return sorted(found, key=_age, reverse=True)[:limit]

    async def newest(self, kind: str, session_ids: frozenset[str]) -> list[RunRow]:
        await self._begin("newest")
        found: dict[str, RunRow] = {}
        for run in self.world.runs.values():
            session_id = run.row.session_id or ""
            if run.row.kind == kind and session_id in session_ids:
                found[session_id] = max(run.row, found.get(session_id, run.row), key=_age)
        return sorted(found.values(), key=_age, reverse=True)

    async def read(self, run_id: str, after_seq: int = 0, limit: int = 1000) -> list[Segment]:
        await self._begin("read")
        if run_id not in self.world.runs and run_id not in self.world.tombstones:
            return []
        segments = self._run(run_id).segments
        start = bisect_right(segments, after_seq, key=attrgetter("last_seq"))
        return segments[start : start + limit]

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> list[Segment]:
        await self._begin("read_all")
        start = bisect_right(self.world.log, after_position, key=attrgetter("position"))
        return self.world.log[start : start + limit]

    async def last_position(self) -> int:
        await self._begin("last_position")
        return self.world.log[-1].position if self.world.log else 0

    async def document(self, kind: str, id: str, version: int | None = None) -> Document:
        await self._begin("document")
        for found in self._versions(kind, id):
            if version in (None, found.version):
                return found
        raise refusals.no_document(kind, id, version)

    async def document_versions(
        self, kind: str, id: str, *, before: int | None = None, limit: int = 100
    ) -> list[Document]:
        await self._begin("document_versions")
        return [found for found in self._versions(kind, id) if before is None or found.version < before][:limit]

    async def documents(self, kind: str) -> list[Document]:
        await self._begin("documents")
        return [document for key, document in sorted(self.world.documents.items()) if key[0] == kind]

    async def put_document(self, document: Document) -> Document:
        await self._begin("put_document")
        key = (document.kind, document.id)
        standing = self.world.documents.get(key)
        if document.version != (standing.version if standing else 0):
            raise refusals.document_moved(document)
        if standing is not None:
            self.world.document_versions.setdefault(key, []).append(standing)
        stored = self.world.documents[key] = msgspec.structs.replace(document, version=document.version + 1)
        self.world.checkpoint()
        return await self._committed("put_document", stored)

    async def delete_document(self, kind: str, id: str) -> None:
        await self._begin("delete_document")
        self.world.documents.pop((kind, id), None)
        self.world.document_versions.pop((kind, id), None)
        self.world.checkpoint()
        await self._committed("delete_document", None)

    async def close(self) -> None:
        """This client is refused from here on; the world stays."""
        self._closed = True

    def _versions(self, kind: str, id: str) -> list[Document]:
        """Newest first."""
        standing = self.world.documents.get((kind, id))
        return [standing, *reversed(self.world.document_versions.get((kind, id), ()))] if standing else []

    def _run(self, run_id: str) -> _Run:
        run = self.world.runs.get(run_id)
        if run is None:
            raise refusals.not_there(run_id, self.world.standing(run_id))
        return run

    async def _begin(self, operation: str) -> None:
        if self._closed:
            raise StoreFailed("the store is closed")
        if self._point is not None:
            await self._point(f"{operation}.begin")

    async def _committed(self, operation: str, answer: T) -> T:
        if self._point is not None:
            await self._point(f"{operation}.committed")
        return answer
