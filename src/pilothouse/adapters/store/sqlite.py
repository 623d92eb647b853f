"""The event store on one SQLite file.

Owns the file's connections and hands each operation to the writer or to a reader. What the operations do is in
``transactions`` and ``queries``, how they are committed in ``writer``; nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.adapters.store import queries as sql
from pilothouse.adapters.store import refusals, transactions
from pilothouse.adapters.store.connections import connect_writer
from pilothouse.adapters.store.readers import Readers
from pilothouse.adapters.store.schema import prepare
from pilothouse.adapters.store.writer import Writer
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document, Segment
from pilothouse.errors import Unavailable

_encode = msgspec.json.Encoder().encode

_BEYOND_ALL = (1 << 63) - 1
"""More than any version: the largest number of the column."""


class SqliteEventStore:
    """Implements ``EventStore``, see ``engine/ports``. Made by ``open``; several processes may have the same file
    open."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """``connection`` is a writing one to ``path``, with the schema in place; the store owns it from here."""
        self.path = path
        self._writer = Writer(connection)
        self._readers = Readers(path)

    @classmethod
    async def open(cls, path: Path | str) -> SqliteEventStore:
        """Open the file, make it when it is missing, bring it to the newest schema.

        Raises ``Unavailable`` when it cannot be opened, belongs to a newer program, or is something else."""
        path = Path(path)
        return cls(path, await asyncio.to_thread(_connect, path))

    async def take_ownership(self) -> int:
        return await self._writer.submit(transactions.take_ownership, durable=True)

    async def claim(self, run_id: str, epoch: int) -> RunRow:
        return await self._writer.submit(partial(transactions.claim, run_id=run_id, epoch=epoch), durable=True)

    async def append(self, append: Append) -> int:
        refusals.check(append)
        work = partial(transactions.append, batch=append, row_json=_encode(append.row).decode())
        return await self._writer.submit(work, durable=append.durable)

    async def delete(self, run_id: str, epoch: int, at: int) -> int:
        return await self._writer.submit(partial(transactions.delete, run_id=run_id, epoch=epoch, at=at), durable=True)

    async def row(self, run_id: str) -> RunRow:
        return await self._readers.read(partial(transactions.row, run_id=run_id))

    async def rows(
        self,
        *,
        kind: str | None = None,
        lifecycles: frozenset[Lifecycle] | None = None,
        owner: str | None = None,
        session_id: str | None = None,
        parent_run_id: str | None = None,
        waiting: bool | None = None,
        owing: bool = False,
        limit: int = 1000,
        before: tuple[int, str] | None = None,
    ) -> list[RunRow]:
        given: dict[str, Any] = {
            "kind": kind,
            "owner": owner,
            "session_id": session_id,
            "parent_run_id": parent_run_id,
        }
        values = {name: value for name, value in given.items() if value is not None}
        conditions = [sql.ROW_CONDITIONS[name] for name in values]
        if waiting is not None:
            conditions.append(sql.ROW_CONDITIONS["waiting" if waiting else "not_waiting"])
        if owing:
            conditions.append(sql.ROW_CONDITIONS["owing"])
        if lifecycles is not None:
            wanted = {f"lifecycle_{i}": str(lifecycle) for i, lifecycle in enumerate(sorted(lifecycles))}
            conditions.append(sql.ROW_CONDITIONS["lifecycles"].format(lifecycles=", ".join(f":{n}" for n in wanted)))
            values |= wanted
        if before is not None:
            conditions.append(sql.ROW_CONDITIONS["before"])
            values |= {"before_at": before[0], "before_id": before[1]}
        query = sql.ROWS.format(conditions=" AND ".join(conditions) or "TRUE")
        found = await self._fetch(query, limit=limit, **values)
        return [transactions.with_epoch(*row) for row in found]

    async def newest(self, kind: str, session_ids: frozenset[str]) -> list[RunRow]:
        found = await self._fetch(sql.NEWEST, kind=kind, session_ids=_encode(list(session_ids)).decode())
        return [transactions.with_epoch(*row) for row in found]

    async def read(self, run_id: str, after_seq: int = 0, limit: int = 1000) -> list[Segment]:
        return await self._readers.read(partial(_read, run_id=run_id, after_seq=after_seq, limit=limit))

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> list[Segment]:
        return _segments(await self._fetch(sql.READ_ALL, after_position=after_position, limit=limit))

    async def last_position(self) -> int:
        return int((await self._fetch(sql.LAST_POSITION))[0][0])

    async def document(self, kind: str, id: str, version: int | None = None) -> Document:
        if version is None:
            found = await self._fetch(sql.DOCUMENT, kind=kind, id=id)
        else:
            found = await self._fetch(sql.DOCUMENT_VERSION, kind=kind, id=id, version=version)
        if not found:
            raise refusals.no_document(kind, id, version)
        return _document(found[0])

    async def document_versions(
        self, kind: str, id: str, *, before: int | None = None, limit: int = 100
    ) -> list[Document]:
        before = _BEYOND_ALL if before is None else before
        found = await self._fetch(sql.DOCUMENT_VERSIONS, kind=kind, id=id, before=before, limit=limit)
        return [_document(one) for one in found]

    async def documents(self, kind: str) -> list[Document]:
        return [_document(found) for found in await self._fetch(sql.DOCUMENTS, kind=kind)]

    async def put_document(self, document: Document) -> Document:
        return await self._writer.submit(partial(transactions.put_document, document=document), durable=True)

    async def delete_document(self, kind: str, id: str) -> None:
        await self._writer.submit(partial(transactions.delete_document, kind=kind, id=id), durable=True)

    async def close(self) -> None:
        """Commit what is queued, then let go of the file. Idempotent."""
        await self._readers.close()
        await self._writer.close()  # last: the connection that closes last folds the write-ahead log into the file

    async def _fetch(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        return await self._readers.read(lambda connection: connection.execute(query, values).fetchall())


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect_writer(path)
    try:
        prepare(connection)
    except sqlite3.Error as error:
        connection.close()
        raise Unavailable(f"{path} cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _read(connection: sqlite3.Connection, run_id: str, after_seq: int, limit: int) -> list[Segment]:
    values = {"run_id": run_id, "after_seq": after_seq, "limit": limit}
    found = _segments(connection.execute(sql.READ, values))
    if not found:
        standing = transactions.standing(connection, run_id)
        if standing.tombstone is not None:
            raise refusals.not_there(run_id, standing)
    return found


def _segments(found: Iterable[tuple[Any, ...]]) -> list[Segment]:
    return [
        Segment(
            position=position, run_id=run_id, first_seq=first_seq, count=count, at=at, body=body, deleted=bool(deleted)
        )
        for position, run_id, first_seq, count, at, body, deleted in found
    ]


def _document(found: tuple[Any, ...]) -> Document:
    kind, id, version, owner, updated_at, body = found
    return Document(kind=kind, id=id, version=version, owner=owner, updated_at=updated_at, body=body)
