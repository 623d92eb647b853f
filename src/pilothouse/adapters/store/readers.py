"""Reads, on connections that cannot write, on a few threads: the writer never stands in their way.

A read sees every commit that was acknowledged before it began. Does not know what is read.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pilothouse.adapters.store.connections import connect_reader
from pilothouse.errors import StoreFailed

T = TypeVar("T")

_THREADS = 2
"""SQLite reads from the page cache; more threads would only take turns."""


class Readers:
    """A small pool of reading threads, each with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="pilothouse-store-reader")
        self._mine = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._closed = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Raises ``StoreFailed`` when the database cannot be read, and what ``work`` raises."""
        if self._closed:
            raise StoreFailed("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    async def close(self) -> None:
        """Wait for the reads under way and close the connections. Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        while self._connections:
            self._connections.pop().close()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if not hasattr(self._mine, "connection"):
                self._mine.connection = connect_reader(self._path)
                self._connections.append(self._mine.connection)
            return work(self._mine.connection)
        except sqlite3.Error as error:
            raise StoreFailed(f"the log could not be read: {error}") from error
