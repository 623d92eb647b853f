"""How a SQLite file is opened: the pragmas, and why each.

Knows nothing of what is in it. Connections are made on one thread and used on another, one at a time.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pilothouse.errors import Unavailable

BUSY_TIMEOUT_S = 5.0
"""How long a writer waits for another process to let go of the file."""

OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING."""

_CHECKPOINT_PAGES = 1000
"""Folding the write-ahead log into the file makes the commit that does it wait. Measured: at 1,000 pages (4 MB) never
more than 8 ms, at 4,000 up to 20, at 16,000 up to 50, at the same throughput. A stop is a commit: short waits win."""


def connect_writer(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode that may write; makes the file when it is missing.

    Raises ``Unavailable`` when this is not a SQLite database, or one that cannot be opened."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise Unavailable(f"SQLite {'.'.join(map(str, OLDEST_SQLITE))} is needed; this is {sqlite3.sqlite_version}")
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise Unavailable(f"{path} cannot be opened: {error}") from error
    try:
        _use_write_ahead_log(connection)
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        connection.close()
        raise Unavailable(f"{path} cannot be opened as a Pilothouse database: {error}") from error
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. The file must exist."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """The write-ahead log is what lets readers and the writer pass each other; the file remembers it."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    # Switching does not wait for another process that is switching too, but whoever holds this lock has switched or
    # will.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    connection.execute("PRAGMA journal_mode = WAL")
