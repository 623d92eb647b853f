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
    """Make the database ready for use. A crash in the middle leaves what was there before.

    Raises ``Unavailable`` when it belongs to a newer program or to something else."""
    revision = _revision(connection)
    if revision is None:
        revision = _create(connection)
    if revision < REVISION_NEEDED:
        # Imported here because it costs more than everything else a start does, and is hardly ever needed.
        from pilothouse.adapters.store.migrations.migrate import migrate  # noqa: PLC0415

        migrate(connection)


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


def _create(connection: sqlite3.Connection) -> str:
    """Answers the revision that is there now: another process may have come first."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        revision = _revision(connection)
        if revision is None:
            # Not executescript: it would commit first, and with that give the lock away.
            for statement in SCHEMA_FILE.read_text(encoding="utf-8").split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            revision = REVISION_NEEDED
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return revision
