"""What the two kinds of streams carry: one run's events by ``seq``, and everybody's by position in the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing

import msgspec

from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.driving.hub import Batch
from pilothouse.engine.queries import Queries
from pilothouse.errors import Gone, NotFound
from pilothouse.interfaces.http.sse import CONNECTED, KEEPALIVE, frame, writes
from pilothouse.interfaces.http.wire import position_cursor


def is_over(row: RunRow, after: int) -> bool:
    """Whether a stream that has sent everything up to ``after`` has nothing left to wait for."""
    return row.lifecycle in TERMINAL and row.seq <= after


async def run_stream(queries: Queries, run_id: str, after: int, keepalive: float) -> AsyncGenerator[bytes, None]:
    """A run's events after ``after``, to the end of its last leg."""
    yield CONNECTED
    async with aclosing(queries.pages(run_id, after, keepalive, to_end=True)) as pages:
        async for page in pages:
            if not page:
                yield KEEPALIVE
            for chunk in writes([_of_run(batch) for batch in page]):
                yield chunk


def _of_run(batch: Batch) -> bytes:
    if (found := batch.rendered.get("run")) is None:
        frames = (
            b"id: %d\ndata: %b\n\n" % (recorded.seq, wire)
            for recorded, wire in zip(batch.recorded, batch.wires, strict=True)
        )
        found = batch.rendered["run"] = b"".join(frames)
    return found


class Wanted:
    """Which batches a client of the multiplexed stream asked for, and may see; None: no matter."""

    def __init__(
        self,
        queries: Queries,
        run_id: str | None = None,
        kind: str | None = None,
        sees: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        """``sees`` says whether a run is there for the client."""
        self._queries = queries
        self._run_id = run_id
        self._kind = kind
        self._kinds: dict[str, str] = {}
        self._sees = sees
        self.all = run_id is None and kind is None and sees is None

    async def __call__(self, batch: Batch) -> bool:
        if self._run_id is not None and batch.run_id != self._run_id:
            return False
        if self._sees is not None and not await self._sees(batch.run_id):
            return False
        if self._kind is None:
            return True
        if batch.deleted:
            # The kind of a run that is gone may be unknown by now: better one word too many than a run that stays.
            return self._kinds.pop(batch.run_id, self._kind) == self._kind
        if batch.run_id not in self._kinds:
            try:
                self._kinds[batch.run_id] = (await self._queries.run(batch.run_id)).kind
            except (Gone, NotFound):
                return False
        return self._kinds[batch.run_id] == self._kind


async def all_streams(queries: Queries, after: int, wanted: Wanted, keepalive: float) -> AsyncGenerator[bytes, None]:
    """Everything after position ``after``, for ever."""
    cursor = position_cursor(after)
    yield CONNECTED + frame(msgspec.json.encode({"cursor": cursor}), cursor, "hello")
    sent = after
    async with aclosing(queries.pages_all(after, keepalive)) as pages:
        async for page in pages:
            if page:
                chosen = page if wanted.all else [batch for batch in page if await wanted(batch)]
                for chunk in writes([_of_all(batch) for batch in chosen]):
                    yield chunk
                after = page[-1].position
                sent = chosen[-1].position if chosen else sent
            elif sent < after:
                # An id without data dispatches nothing, and saves a filtered client from reading it all once more.
                yield b"id: %b\n" % position_cursor(after).encode("ascii") + KEEPALIVE
                sent = after
            else:
                yield KEEPALIVE


def _of_all(batch: Batch) -> bytes:
    if (found := batch.rendered.get("all")) is None:
        found = batch.rendered["all"] = b"".join(_position_frames(batch))
    return found


def _position_frames(batch: Batch) -> Iterator[bytes]:
    """The id comes with the last one: a stream that breaks off inside a batch is continued with the whole batch."""
    cursor = position_cursor(batch.position)
    if batch.deleted:
        yield frame(msgspec.json.encode({"type": "RUN_DELETED", "runId": batch.run_id}), cursor)
        return
    last = len(batch.wires) - 1
    for index, wire in enumerate(batch.wires):
        yield frame(wire, cursor if index == last else None)
