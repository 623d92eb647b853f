"""Why a store says no: the rules of the append contract, and their sentences, for every implementation.

Pure: takes where a run stands, answers the error or nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from pilothouse.core.run.segments import Append, Document
from pilothouse.errors import Gone, NotFound, PilothouseError, StaleOwner, WrongSequence


class Standing(NamedTuple):
    """Where a run stands. All None: there never was one."""

    seq: int | None = None
    """Its last sequence number."""
    epoch: int | None = None
    """The owner that holds it."""
    tombstone: int | None = None
    """Where in the log it was deleted."""


def check(append: Append) -> None:
    """Raises ``ValueError`` for an append that contradicts itself: a bug of whoever made it."""
    row = append.row
    if append.count < 1 or append.expected_seq < 0:
        raise ValueError("an append holds at least one event and follows on sequence number 0 or more")
    if (row.id, row.seq) != (append.run_id, append.expected_seq + append.count):
        raise ValueError(f"the row of {row.id} at {row.seq} is not that of {append.run_id} after this append")


def not_appendable(standing: Standing, append: Append) -> PilothouseError | None:
    refusal = not_owned(append.run_id, standing, append.epoch)
    if refusal is not None and not isinstance(refusal, NotFound):
        return refusal
    last = standing.seq or 0
    if last != append.expected_seq:
        return WrongSequence(f"run {append.run_id} is at {last}, not at {append.expected_seq}")
    return None


def not_owned(run_id: str, standing: Standing, epoch: int) -> PilothouseError | None:
    """Why ``epoch`` may not have the run."""
    if standing.tombstone is not None or standing.epoch is None:
        return not_there(run_id, standing)
    if standing.epoch > epoch:
        return StaleOwner(f"run {run_id} belongs to owner {standing.epoch}, not to {epoch} any more")
    return None


def not_there(run_id: str, standing: Standing) -> Gone | NotFound:
    """Which kind of absence it is."""
    if standing.tombstone is not None:
        return Gone(f"run {run_id} was deleted")
    return NotFound(f"there is no run {run_id}")


def no_document(kind: str, id: str, version: int | None = None) -> NotFound:
    which = "" if version is None else f"version {version} of "
    return NotFound(f"there is no {which}{kind} {id}")


def document_moved(document: Document) -> WrongSequence:
    return WrongSequence(f"{document.kind} {document.id} is not at version {document.version}")
