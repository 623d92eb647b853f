"""The schema: what a Pilothouse database looks like at its newest revision.

Owns names, types, keys and indexes, chosen so that the same schema works on SQLite and on Postgres. Reads and writes
nothing: the SQL that runs is in ``queries``, and what brings a database here is in ``migrations``. Importing SQLAlchemy
takes longer than opening a database does, so nothing that runs at every start imports this module; tests hold it, the
migrations and ``schema.sql`` to each other.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite makes a column an alias of its rowid, which is what AUTOINCREMENT needs, only when it is called INTEGER.
POSITION = BigInteger().with_variant(Integer, "sqlite")
DOCUMENT = JSON().with_variant(JSONB, "postgresql")

meta = Table(
    "meta",
    metadata,
    Column("name", Text, nullable=False),
    Column("value", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
)
"""Counters of the database as a whole: ``owner_epoch``."""

runs = Table(
    "runs",
    metadata,
    Column("id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("session_id", Text),
    Column("parent_run_id", Text),
    Column("root_run_id", Text, nullable=False),
    Column("link", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("lifecycle", Text, nullable=False),
    Column("waiting", Boolean, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("row", DOCUMENT, nullable=False),
    PrimaryKeyConstraint("id"),
)
"""The read model. ``row`` is the whole of it; the other columns repeat what is asked by. ``seq`` and ``epoch`` are what
an append is checked against. The columns up to ``created_at`` never change, so their indexes cost an append nothing."""

# Lists are newest first by (created_at, id), whatever they are filtered by.
Index("ix_runs_created", runs.c.created_at, runs.c.id)
Index("ix_runs_lifecycle", runs.c.lifecycle)
for column, name in ((runs.c.session_id, "ix_runs_session"), (runs.c.parent_run_id, "ix_runs_parent")):
    given = column.is_not(None)
    Index(name, column, runs.c.created_at, runs.c.id, sqlite_where=given, postgresql_where=given)
Index("ix_runs_waiting", runs.c.created_at, runs.c.id, sqlite_where=text("waiting"), postgresql_where=text("waiting"))

segments = Table(
    "segments",
    metadata,
    Column("position", POSITION, nullable=False, autoincrement=True),
    Column("run_id", Text, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("position"),
    UniqueConstraint("run_id", "first_seq"),
    sqlite_autoincrement=True,
)
"""The log: one row per batch. A tombstone is a row with ``first_seq`` 0, which no batch has, so that the unique key
finds it too. There is no foreign key to ``runs``: the tombstone outlives the run."""

documents = Table(
    "documents",
    metadata,
    Column("kind", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("kind", "id"),
)
"""Versioned documents as they are now."""

document_versions = Table(
    "document_versions",
    metadata,
    *(Column(c.name, c.type, nullable=False) for c in documents.columns),
    PrimaryKeyConstraint("kind", "id", "version"),
)
"""What ``documents`` held before, gone with the document itself."""
