"""Which event store a database URL means."""

from __future__ import annotations

from pathlib import Path

from pilothouse.adapters.store.sqlite import SqliteEventStore
from pilothouse.errors import BadInput, Unavailable


async def open_event_store(url: str | Path) -> SqliteEventStore:
    """Open the store at a path or a ``sqlite:///…`` URL.

    Raises ``Unavailable`` for one that cannot be opened and for ``postgresql://``, ``BadInput`` for any other
    scheme."""
    if isinstance(url, Path) or "://" not in url:
        return await SqliteEventStore.open(url)
    scheme, _, rest = url.partition("://")
    if scheme.split("+")[0] in ("postgresql", "postgres"):
        raise Unavailable("a Postgres database is not built yet; leave the database URL out to use SQLite")
    if scheme != "sqlite" or not rest.startswith("/") or rest == "/":
        raise BadInput(f"{scheme}://… is not a database Pilothouse knows", field="databaseUrl", fix="sqlite:///PATH")
    return await SqliteEventStore.open(rest[1:])
