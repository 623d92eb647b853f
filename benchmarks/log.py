"""The event log, beside ``sqlite3`` alone with the same bytes.

Append: a batch of events goes into the log and its run's row into the read model, checked against the run's sequence
number and owner, committed together. The floor inserts the same batch and replaces the same row, unchecked, on one
thread without a loop; where ours may share a commit among appends that come at the same time, so does the floor, among
as many. Replay: every batch of a run read in order and decoded; the floor selects and decodes plain JSON.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import AtLeast, Figure, in_turns_async
from benchmarks.workspace import workspace
from pilothouse.adapters.store.opening import open_event_store
from pilothouse.core.plan.events import LogAppended, NodeMoved, PhaseEnded, PhaseStarted
from pilothouse.core.plan.phases import Phase, PhaseStatus
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.events import Event
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.ports import EventStore

_PAGE = 500
_NODE = "0190a3b0-7c1d-7e31-a3b0-0190a3b07c1d"
_EVENTS: tuple[Event, ...] = (
    PhaseEnded(node_id=_NODE, attempt=1, phase=Phase.SETUP, status=PhaseStatus.SUCCEEDED, place="f00d"),
    NodeMoved(node_id=_NODE, old=NodeStatus.SCHEDULED, new=NodeStatus.RUNNING),
    PhaseStarted(node_id=_NODE, attempt=1, phase=Phase.WORK, key=f"{_NODE}/1/work"),
    LogAppended(node_id=_NODE, attempt=1, phase=Phase.WORK, start=0, end=4096),
)


class _Scale(NamedTuple):
    appends: int
    rounds: int


class _Shape(NamedTuple):
    """``runs`` append at the same time, each one batch after the other."""

    name: str
    runs: int
    durable: bool


_SCALES: dict[Size, _Scale] = {"full": _Scale(2000, 7), "quick": _Scale(500, 3), "tiny": _Scale(20, 1)}
_SHAPES = (
    _Shape("log: synced appends, one run", 1, durable=True),
    _Shape("log: synced appends, 50 runs at once", 50, durable=True),
    _Shape("log: unsynced appends, one run", 1, durable=False),
    _Shape("log: unsynced appends, 50 runs at once", 50, durable=False),
)


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    with workspace() as folder:
        yield from asyncio.run(_measure(folder, scale))


async def _measure(folder: Path, scale: _Scale) -> list[Shown]:
    store = await open_event_store(folder / "ours.db")
    floor = _Floor(folder / "floor.db")
    found: list[Shown] = []
    names = (f"run-{number}" for number in count())
    try:
        for shape in _SHAPES:
            found.append(await _appending(shape, scale, store, floor, names))
        found.append(await _replaying(scale, store, floor, next(names)))
    finally:
        floor.connection.close()
        await store.close()
    return found


async def _appending(shape: _Shape, scale: _Scale, store: EventStore, floor: _Floor, names: Iterator[str]) -> Figure:
    each = max(2, scale.appends // shape.runs)

    async def ours() -> float:
        runs = [next(names) for _ in range(shape.runs)]
        began = time.perf_counter()
        await asyncio.gather(*(_append_all(store, run, each, durable=shape.durable) for run in runs))
        return time.perf_counter() - began

    async def theirs() -> float:
        runs = [next(names) for _ in range(shape.runs)]
        return await asyncio.to_thread(floor.append_all, runs, each, shape.durable)

    mine, bare = await in_turns_async(scale.rounds, ours, theirs)
    return Figure(shape.name, mine, bare, "sqlite3 with the same bytes and as many to a commit", AtLeast(0.5))


async def _append_all(store: EventStore, run: str, batches: int, *, durable: bool) -> None:
    for batch in _batches(run, batches, durable=durable):
        await store.append(batch)


async def _replaying(scale: _Scale, store: EventStore, floor: _Floor, run: str) -> Figure:
    await _append_all(store, run, scale.appends, durable=False)
    floor.append_all([run], scale.appends, durable=False)

    async def ours() -> float:
        began = time.perf_counter()
        after = found = 0
        while segments := await store.read(run, after, _PAGE):
            for segment in segments:
                found += len(REGISTRY.decode(segment.body))
            after = segments[-1].last_seq
        took = time.perf_counter() - began
        assert found == scale.appends * len(_EVENTS)
        return took

    async def theirs() -> float:
        return await asyncio.to_thread(floor.replay, run)

    mine, bare = await in_turns_async(scale.rounds, ours, theirs)
    return Figure("log: replay of one run", mine, bare, "sqlite3 select and plain JSON", AtLeast(0.5))


def _batches(run: str, number: int, *, durable: bool) -> Iterator[Append]:
    """The same batch again and again, encoded anew each time as an actor does it."""
    for index in range(number):
        seq = index * len(_EVENTS)
        yield Append(
            run_id=run,
            expected_seq=seq,
            epoch=1,
            count=len(_EVENTS),
            at=index,
            body=REGISTRY.encode(_EVENTS),
            row=_row(run, seq + len(_EVENTS)),
            durable=durable,
        )


def _row(run: str, seq: int) -> RunRow:
    return RunRow(
        id=run,
        kind="plan",
        name="A plan",
        owner="local",
        root_run_id=run,
        lifecycle=Lifecycle.RUNNING,
        seq=seq,
        counts={"pending": 40, "running": 4, "succeeded": 6},
        detail={"repoPath": "/home/someone/repository", "targetBranch": "feature/search", "nodes": 50, "progress": 12},
    )


class _Floor:
    """Two tables and nothing to check."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, row TEXT)")
        self.connection.execute(
            "CREATE TABLE log (position INTEGER PRIMARY KEY, run TEXT, first INTEGER, body BLOB, UNIQUE (run, first))"
        )

    def append_all(self, runs: Sequence[str], batches: int, durable: bool) -> float:
        began = time.perf_counter()
        execute = self.connection.execute
        execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        encode = msgspec.json.encode
        for index in range(batches):
            seq = index * len(_EVENTS)
            execute("BEGIN IMMEDIATE")
            for run in runs:
                row = encode(_row(run, seq + len(_EVENTS))).decode()
                execute("INSERT INTO rows VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET row = excluded.row", (run, row))
                execute("INSERT INTO log (run, first, body) VALUES (?, ?, ?)", (run, seq + 1, REGISTRY.encode(_EVENTS)))
            execute("COMMIT")
        return time.perf_counter() - began

    def replay(self, run: str) -> float:
        began = time.perf_counter()
        decode = msgspec.json.Decoder(list[dict[str, Any]]).decode
        for (body,) in self.connection.execute("SELECT body FROM log WHERE run = ? ORDER BY first", (run,)):
            decode(body)
        return time.perf_counter() - began
