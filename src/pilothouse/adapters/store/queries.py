"""Every SQL statement the store runs, named and described.

Nothing here is executed. Parameters are named; the columns come in the order the callers read them in. ``tables`` has
the schema these speak of. A statement with a doubt about who else writes says in its WHERE what must hold, and the
number of rows it touched is the answer.
"""

from __future__ import annotations

TAKE_OWNERSHIP = """
INSERT INTO meta (name, value) VALUES ('owner_epoch', 1)
ON CONFLICT (name) DO UPDATE SET value = meta.value + 1
RETURNING value
"""
"""The next owner epoch."""

CLAIM = "UPDATE runs SET epoch = :epoch WHERE id = :id AND epoch <= :epoch"
"""Give a run to an epoch. No row: there is no such run, or a newer epoch holds it."""

CREATE_RUN = """
INSERT INTO runs (id, kind, owner, session_id, parent_run_id, root_run_id, link,
                  created_at, updated_at, lifecycle, waiting, seq, epoch, row)
SELECT :id, :kind, :owner, :session_id, :parent_run_id, :root_run_id, :link,
       :created_at, :updated_at, :lifecycle, :waiting, :seq, :epoch, :row
WHERE NOT EXISTS (SELECT 1 FROM segments WHERE run_id = :id AND first_seq = 0)
ON CONFLICT (id) DO NOTHING
"""
"""The first append of a run. No row: it exists, or it was deleted."""

ADVANCE_RUN = """
UPDATE runs
SET updated_at = :updated_at, lifecycle = :lifecycle, waiting = :waiting, seq = :seq, epoch = :epoch, row = :row
WHERE id = :id AND seq = :expected_seq AND epoch <= :epoch
"""
"""Every later append: the read model moves and the sequence number is checked in one step. No row: see ``STANDING``."""

ADD_SEGMENT = """
INSERT INTO segments (run_id, first_seq, count, at, deleted, body)
VALUES (:run_id, :first_seq, :count, :at, :deleted, :body)
"""
"""One batch, or one tombstone; the position is the row id it gets."""

STANDING = """
SELECT (SELECT seq FROM runs WHERE id = :id),
       (SELECT epoch FROM runs WHERE id = :id),
       (SELECT position FROM segments WHERE run_id = :id AND first_seq = 0)
"""
"""Where a run stands: its last sequence number and its epoch, or the position of its tombstone."""

DELETE_SEGMENTS = "DELETE FROM segments WHERE run_id = :id"
"""All batches of a run."""

DELETE_RUN = "DELETE FROM runs WHERE id = :id"
"""The read model of a run."""

ROW = "SELECT row, epoch FROM runs WHERE id = :id"
"""One run."""

ROWS = "SELECT row, epoch FROM runs WHERE {conditions} ORDER BY created_at DESC, id DESC LIMIT :limit"
"""Runs, newest first. ``conditions`` are some of ``ROW_CONDITIONS``."""

ROW_CONDITIONS = {
    "kind": "kind = :kind",
    "owner": "owner = :owner",
    "session_id": "session_id = :session_id",
    "parent_run_id": "parent_run_id = :parent_run_id",
    "lifecycles": "lifecycle IN ({lifecycles})",
    "waiting": "waiting",
    "not_waiting": "NOT waiting",
    "owing": "json_extract(row, '$.detail.owed') > 0",
    "before": "(created_at, id) < (:before_at, :before_id)",
}
"""What a list of runs can be narrowed by; ``lifecycles`` is filled with as many parameters as there are."""

NEWEST = """
SELECT runs.row, runs.epoch FROM json_each(:session_ids) AS asked JOIN runs ON runs.id = (
    SELECT id FROM runs WHERE session_id = asked.value AND kind = :kind ORDER BY created_at DESC, id DESC LIMIT 1)
ORDER BY runs.created_at DESC, runs.id DESC
"""
"""The newest run of a kind of each of some sessions, which are a JSON array."""

READ = """
SELECT position, run_id, first_seq, count, at, body, deleted FROM segments
WHERE run_id = :run_id
  AND first_seq >= coalesce(
      (SELECT max(first_seq) FROM segments WHERE run_id = :run_id AND first_seq BETWEEN 1 AND :after_seq + 1), 1)
  AND first_seq + count > :after_seq + 1
ORDER BY first_seq LIMIT :limit
"""
"""Batches of a run that hold events after a sequence number, from the one it lies in."""

READ_ALL = """
SELECT position, run_id, first_seq, count, at, body, deleted FROM segments
WHERE position > :after_position ORDER BY position LIMIT :limit
"""
"""Batches and tombstones of all runs after a position."""

LAST_POSITION = "SELECT coalesce(max(position), 0) FROM segments"
"""Where the log ends."""

DOCUMENT = "SELECT kind, id, version, owner, updated_at, body FROM documents WHERE kind = :kind AND id = :id"
"""One document."""

_EVERY_VERSION = """
SELECT kind, id, version, owner, updated_at, body FROM documents
WHERE kind = :kind AND id = :id AND {condition}
UNION ALL
SELECT kind, id, version, owner, updated_at, body FROM document_versions
WHERE kind = :kind AND id = :id AND {condition}
"""

DOCUMENT_VERSION = _EVERY_VERSION.format(condition="version = :version")
"""One version of a document, whether it stands or was replaced."""

DOCUMENT_VERSIONS = _EVERY_VERSION.format(condition="version < :before") + "ORDER BY version DESC LIMIT :limit"
"""The versions of a document, newest first."""

DOCUMENTS = "SELECT kind, id, version, owner, updated_at, body FROM documents WHERE kind = :kind ORDER BY id"
"""All documents of a kind."""

KEEP_DOCUMENT_VERSION = """
INSERT INTO document_versions (kind, id, version, owner, updated_at, body)
SELECT kind, id, version, owner, updated_at, body FROM documents
WHERE kind = :kind AND id = :id AND version = :version
"""
"""Keep what is about to be replaced. No row: it is not the version that stands."""

REPLACE_DOCUMENT = """
UPDATE documents SET version = version + 1, owner = :owner, updated_at = :updated_at, body = :body
WHERE kind = :kind AND id = :id AND version = :version
"""
"""The next version of a document."""

CREATE_DOCUMENT = """
INSERT INTO documents (kind, id, version, owner, updated_at, body)
VALUES (:kind, :id, 1, :owner, :updated_at, :body)
ON CONFLICT (kind, id) DO NOTHING
"""
"""The first version of a document. No row: there is one."""

DELETE_DOCUMENT = "DELETE FROM documents WHERE kind = :kind AND id = :id"
"""A document as it is now."""

DELETE_DOCUMENT_VERSIONS = "DELETE FROM document_versions WHERE kind = :kind AND id = :id"
"""What it was before."""

REVISION = "SELECT version_num FROM alembic_version"
"""The revision of the schema."""

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
"""The tables of a SQLite database."""

SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, name"
"""The statements a SQLite database was made with, tables first."""
