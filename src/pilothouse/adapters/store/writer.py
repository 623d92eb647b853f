"""The one writer: a thread with its own connection, and group commit.

Whatever is queued when the thread comes round is committed as one transaction, so that the price of a commit (and of a
sync, when one of the group asks for it) is shared. Does not know what the jobs write.

A job is a function of the connection. It may refuse by raising a ``PilothouseError`` *before its first change*; then it
alone fails. Anything else it raises takes the transaction back: a job that broke by itself is found by running the jobs
of the group one by one, and a refusing disk fails them all. The connection is usable afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pilothouse.errors import PilothouseError, StoreFailed

_log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_GROUP = 256
"""Jobs in one transaction: enough to make a sync cheap, few enough that nobody waits long for his neighbours."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[sqlite3.Connection], Any]
    durable: bool
    future: asyncio.Future[Any]
    outcome: Any = None


class Writer:
    """Owns the writing connection. Started when made, ended by ``close``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._synchronous: str | None = None
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._accepting = threading.Lock()
        self._failure = ""
        """Why nothing is accepted any more; set under the lock, so that nothing is queued behind the last look."""
        # A daemon, because a process that dies without closing must not hang on it; the log is made for that.
        self._thread = threading.Thread(target=self._run, name="pilothouse-store-writer", daemon=True)
        self._thread.start()

    async def submit(self, work: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
        """Run ``work`` in the next transaction; answers what it returned once that is committed, and on disk if
        ``durable``. Whoever is cancelled while waiting no longer hears of it, but it is done all the same.

        Raises what ``work`` refused with, and ``StoreFailed``."""
        if self._closed:
            raise StoreFailed("the store is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._accepting:
            if self._failure:
                raise StoreFailed(self._failure)
            self._queue.put(_Job(work, durable, future))
        return await future

    async def close(self) -> None:
        """Commit what is queued, end the thread and close the connection. Idempotent."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_ = True
        while open_:
            found = [self._queue.get()]
            while len(found) < MAX_GROUP and not self._queue.empty():
                found.append(self._queue.get())
            group = [job for job in found if job is not None]
            open_ = len(group) == len(found)  # nothing is queued behind the None
            if group:
                try:
                    self._commit(group)
                except BaseException as error:
                    # The connection is in no known state, and nobody may wait for a thread that has ended.
                    _log.exception("store.writer_failed")
                    self._fail(group, error)
                    return
                _announce(group)
        self._connection.close()

    def _fail(self, group: list[_Job], error: BaseException) -> None:
        with self._accepting:
            self._failure = f"the log's writer has failed: {error!r}"
        try:
            self._connection.close()
        except sqlite3.Error:
            pass  # the file is let go of with the process
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None:
                group.append(job)
        for job in group:
            job.outcome = StoreFailed(self._failure)
        _announce(group)

    def _commit(self, group: list[_Job]) -> None:
        try:
            self._transact(group)
        except sqlite3.OperationalError as error:  # the disk or the lock, not the job
            self._take_back()
            for job in group:
                job.outcome = _failed(error)
        except Exception as error:
            self._take_back()
            if len(group) == 1:
                group[0].outcome = _failed(error)
            else:
                for job in group:
                    self._commit([job])

    def _transact(self, group: list[_Job]) -> None:
        self._sync(any(job.durable for job in group))
        self._connection.execute("BEGIN IMMEDIATE")
        for job in group:
            try:
                job.outcome = job.work(self._connection)
            except PilothouseError as refusal:
                job.outcome = refusal
        self._connection.execute("COMMIT")

    def _sync(self, durable: bool) -> None:
        """In a write-ahead log a FULL commit syncs everything before it too, and a NORMAL one nothing."""
        wanted = "FULL" if durable else "NORMAL"
        if wanted != self._synchronous:
            self._connection.execute(f"PRAGMA synchronous = {wanted}")
            self._synchronous = wanted

    def _take_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                pass  # SQLite took it back by itself in between


def _failed(error: Exception) -> Exception:
    """What a waiter is told: his own exception, as a shared one would collect the tracebacks of all."""
    if not isinstance(error, sqlite3.Error):
        return error  # a bug in the job: it has one waiter
    failure = StoreFailed(f"the log could not be written: {error}")
    failure.__cause__ = error
    return failure


def _announce(group: list[_Job]) -> None:
    """Wake each event loop once for all of its jobs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.future.get_loop(), []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, jobs)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to hear


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if isinstance(job.outcome, Exception):
            job.future.set_exception(job.outcome)
        else:
            job.future.set_result(job.outcome)
