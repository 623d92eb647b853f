"""What crosses the store port: batches of the log as they lie in it, and versioned documents.

One batch is one segment: the common fields once, the events as one JSON array. The store never looks inside.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.run.rows import RunRow


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """One append. ``expected_seq`` is the run's last sequence number (0: the run is created by this append);
    the events get ``expected_seq + 1 …``. ``row`` is the read model after them; ``epoch`` is the appender's."""

    run_id: str
    expected_seq: int
    epoch: int
    count: int
    at: int
    body: bytes
    row: RunRow
    durable: bool = True
    """Synced to disk before the append returns."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stored batch. ``position`` orders the whole log in commit order. A tombstone (``deleted``) stands for a run
    that was deleted with all its segments; its body is empty."""

    position: int
    run_id: str
    first_seq: int
    count: int
    at: int
    body: bytes
    deleted: bool = False

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.count - 1


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A versioned document (a registered repository, later a workflow or an outline). ``body`` is JSON."""

    kind: str
    id: str
    version: int
    owner: str
    updated_at: int
    body: bytes
