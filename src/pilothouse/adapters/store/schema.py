"""Brings a database to this program's schema, and refuses one that belongs to a newer program.

Opening must be fast, so the revision is compared with a plain query first. A new database is made from ``schema.sql``,
which is what the migrations lead to (a test holds them equal); only an older one needs the migrations themselves, and
Alembic with them.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pilothouse.adapters.store.queries import REVISION, TABLES
from pilothouse.errors import Unavailable

REVISION_NEEDED = "0001"
"""The revision this program speaks. Revisions are numbers of four digits, so that they compare as text."""

SCHEMA_FILE = Path(__file__).with_name("schema.sql")


def prepare(connection: sqlite3.Connection) -> None:
    """Make the database ready for use. One transaction: a crash in the middle leaves what was there before.

    Raises ``Unavailable`` when it belongs to a newer program or to something else."""
    if _revision(connection) == REVISION_NEEDED:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        revision = _revision(connection)  # again: another process may have come first
        if revision is None:
            _create(connection)
        elif revision < REVISION_NEEDED:
            _upgrade(connection)
        if connection.in_transaction:
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _revision(connection: sqlite3.Connection) -> str | None:
    """None: the database is empty."""
    tables = {name for (name,) in connection.execute(TABLES)}
    if not tables:
        return None
    found = connection.execute(REVISION).fetchone() if "alembic_version" in tables else None
    if found is None:
        raise Unavailable("the file is a SQLite database, but not one of Pilothouse")
    revision = str(found[0])
    if revision > REVISION_NEEDED:
        raise Unavailable(
            f"the database has revision {revision}, this program knows {REVISION_NEEDED}: "
            "it was used by a newer Pilothouse; use that one"
        )
    return revision


def _create(connection: sqlite3.Connection) -> None:
    # Not executescript: it would commit first, and with that give the lock away.
    for statement in SCHEMA_FILE.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.execute(statement)


def _upgrade(connection: sqlite3.Connection) -> None:
    # Imported here because it costs more than everything else a start does, and is hardly ever needed.
    from pilothouse.adapters.store.migrations.migrate import migrate  # noqa: PLC0415

    migrate(connection)
