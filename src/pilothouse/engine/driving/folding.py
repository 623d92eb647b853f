"""The state of a run, folded from its log: for who drives it, and for who only looks."""

from __future__ import annotations

from typing import TypeVar

from pilothouse.core.run.contract import Kind
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.ports import EventStore
from pilothouse.errors import StoreFailed

S = TypeVar("S")

_PAGE = 500


async def fold(store: EventStore, registry: Registry, kind: Kind[S], row: RunRow) -> S:
    """A run's state as of its row. Raises ``Gone``, and ``StoreFailed`` when this version can make nothing of its
    log."""
    state = kind.initial(row.id)
    after = 0
    while after < row.seq and (segments := await store.read(row.id, after, _PAGE)):
        for segment in segments:
            for index, event in enumerate(registry.decode(segment.body)):
                seq = segment.first_seq + index
                if after < seq <= row.seq:
                    try:
                        state = kind.evolve(state, Recorded(row.id, seq, segment.at, event))
                    except Exception as error:  # whatever rules make of a log that breaks them
                        raise StoreFailed(f"event {seq} of run {row.id} cannot follow: {error}") from error
        after = segments[-1].last_seq
    return state
