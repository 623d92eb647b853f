"""What each write of the store does to the database, as functions of a connection within a transaction.

Each refuses, by raising, before its first change; see ``writer``. Does not begin, commit or wait.
"""

from __future__ import annotations

import sqlite3

import msgspec

from pilothouse.adapters.store import queries as sql
from pilothouse.adapters.store import refusals
from pilothouse.adapters.store.refusals import Standing
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document

_decode_row = msgspec.json.Decoder(RunRow).decode


def take_ownership(connection: sqlite3.Connection) -> int:
    return int(connection.execute(sql.TAKE_OWNERSHIP).fetchone()[0])


def append(connection: sqlite3.Connection, batch: Append, row_json: str) -> int:
    """The check and the change of the run are one statement. Nothing after it can refuse, so a group of appends needs
    no savepoints. Answers the position."""
    row = batch.row
    values = {
        "id": batch.run_id,
        "updated_at": row.updated_at,
        "lifecycle": row.lifecycle.value,
        "waiting": bool(row.waits),
        "seq": batch.expected_seq + batch.count,
        "epoch": batch.epoch,
        "row": row_json,
    }
    if batch.expected_seq:
        values["expected_seq"] = batch.expected_seq
        changed = connection.execute(sql.ADVANCE_RUN, values)
    else:
        values |= {
            "kind": row.kind,
            "owner": row.owner,
            "session_id": row.session_id,
            "parent_run_id": row.parent_run_id,
            "root_run_id": row.root_run_id,
            "link": row.link,
            "created_at": row.created_at,
        }
        changed = connection.execute(sql.CREATE_RUN, values)
    if not changed.rowcount:
        refusal = refusals.not_appendable(standing(connection, batch.run_id), batch)
        raise refusal or AssertionError("an append was refused for no reason")
    return _add_segment(connection, batch.run_id, batch.expected_seq + 1, batch.count, batch.at, batch.body)


def claim(connection: sqlite3.Connection, run_id: str, epoch: int) -> RunRow:
    refusal = refusals.not_owned(run_id, standing(connection, run_id), epoch)
    if refusal is not None:
        raise refusal
    connection.execute(sql.CLAIM, {"id": run_id, "epoch": epoch})
    return row(connection, run_id)


def delete(connection: sqlite3.Connection, run_id: str, epoch: int, at: int) -> int:
    """Answers the tombstone's position."""
    stands = standing(connection, run_id)
    if stands.tombstone is not None:
        return stands.tombstone
    refusal = refusals.not_owned(run_id, stands, epoch)
    if refusal is not None:
        raise refusal
    connection.execute(sql.DELETE_SEGMENTS, {"id": run_id})
    connection.execute(sql.DELETE_RUN, {"id": run_id})
    return _add_segment(connection, run_id, 0, 0, at, b"", deleted=True)


def put_document(connection: sqlite3.Connection, document: Document) -> Document:
    values = msgspec.structs.asdict(document)
    if document.version:
        touched = connection.execute(sql.KEEP_DOCUMENT_VERSION, values).rowcount
        if touched:
            connection.execute(sql.REPLACE_DOCUMENT, values)
    else:
        touched = connection.execute(sql.CREATE_DOCUMENT, values).rowcount
    if not touched:
        raise refusals.document_moved(document)
    return msgspec.structs.replace(document, version=document.version + 1)


def delete_document(connection: sqlite3.Connection, kind: str, id: str) -> None:
    connection.execute(sql.DELETE_DOCUMENT, {"kind": kind, "id": id})
    connection.execute(sql.DELETE_DOCUMENT_VERSIONS, {"kind": kind, "id": id})


def row(connection: sqlite3.Connection, run_id: str) -> RunRow:
    """Raises ``NotFound``, ``Gone``. Also what a read runs, outside of any transaction."""
    found = connection.execute(sql.ROW, {"id": run_id}).fetchone()
    if found is None:
        raise refusals.not_there(run_id, standing(connection, run_id))
    return with_epoch(*found)


def with_epoch(row_json: str, epoch: int) -> RunRow:
    """The epoch is the one thing of a row that changes without an append: by a claim."""
    found = _decode_row(row_json)
    return found if found.epoch == epoch else msgspec.structs.replace(found, epoch=epoch)


def standing(connection: sqlite3.Connection, run_id: str) -> Standing:
    return Standing(*connection.execute(sql.STANDING, {"id": run_id}).fetchone())


def _add_segment(
    connection: sqlite3.Connection,
    run_id: str,
    first_seq: int,
    count: int,
    at: int,
    body: bytes,
    *,
    deleted: bool = False,
) -> int:
    values = {"run_id": run_id, "first_seq": first_seq, "count": count, "at": at, "deleted": deleted, "body": body}
    position = connection.execute(sql.ADD_SEGMENT, values).lastrowid
    assert position is not None
    return position
