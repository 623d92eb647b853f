"""What only the store on a file can get wrong: kills, several processes, full disks, bad files."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from pilothouse.adapters.store import sqlite, transactions, writer
from pilothouse.adapters.store.connections import connect_writer
from pilothouse.adapters.store.opening import open_event_store
from pilothouse.adapters.store.schema import prepare
from pilothouse.adapters.store.sqlite import SqliteEventStore
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document
from pilothouse.errors import BadInput, StaleOwner, StoreFailed, Unavailable, WrongSequence

T = TypeVar("T")

# A process that appends to several runs at once and says which appends were acknowledged.
APPENDER = """
import asyncio, sys
from pilothouse.adapters.store.sqlite import SqliteEventStore
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append

async def live(store, run_id, epoch):
    for after in range(100_000):
        durable = after % 3 == 0
        row = RunRow(id=run_id, kind="plan", name=run_id, owner="o", seq=after + 1)
        await store.append(Append(run_id=run_id, expected_seq=after, epoch=epoch, count=1, at=1,
                                  body=b"%d" % after * 50, row=row, durable=durable))
        sys.stdout.write(f"{run_id} {after + 1}\\n")
        sys.stdout.flush()

async def main():
    store = await SqliteEventStore.open(sys.argv[1])
    epoch = await store.take_ownership()
    async with asyncio.TaskGroup() as group:
        for n in range(5):
            group.create_task(live(store, f"{epoch}-{n}", epoch))

asyncio.run(main())
"""


def run(story: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(30):
            return await story

    return asyncio.run(bounded())


def batch(run_id: str, after: int = 0, *, epoch: int = 1, body: bytes = b"[]", durable: bool = True) -> Append:
    row = RunRow(id=run_id, kind="plan", name=run_id, owner="o", seq=after + 1, created_at=1)
    return Append(run_id=run_id, expected_seq=after, epoch=epoch, count=1, at=1, body=body, row=row, durable=durable)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pilothouse.db"


@pytest.mark.parametrize("lines", [1, 10, 60, 150, 400])
def test_a_process_killed_in_the_middle_loses_nothing_it_acknowledged(path: Path, lines: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", APPENDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        acknowledged: dict[str, int] = {}
        said = [process.stdout.readline() for _ in range(lines)]
    finally:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=20)
    for line in [*said, *rest.splitlines(keepends=True)]:
        if line.endswith("\n"):
            run_id, seq = line.split()
            acknowledged[run_id] = int(seq)

    async def story() -> None:
        store = await SqliteEventStore.open(path)
        for run_id, seq in acknowledged.items():
            segments = await store.read(run_id, limit=1_000_000)
            assert [segment.first_seq for segment in segments] == list(range(1, len(segments) + 1))
            assert len(segments) >= seq
            assert (await store.row(run_id)).seq == len(segments)
            assert [segment.body for segment in segments] == [b"%d" % n * 50 for n in range(len(segments))]
        assert await store.take_ownership() == 2
        await store.close()

    run(story())


def test_of_two_processes_the_second_owner_wins(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        while not process.stdout.readline().startswith("1-0 "):
            assert process.poll() is None

        async def story() -> None:
            store = await SqliteEventStore.open(path)
            epoch = await store.take_ownership()
            assert epoch == 2
            claimed = await store.claim("1-0", epoch)
            await store.append(batch("1-0", claimed.seq, epoch=epoch))
            await store.close()

        run(story())
        _, errors = process.communicate(timeout=20)
        assert "StaleOwner" in errors
    finally:
        process.kill()
        process.wait(timeout=20)


def test_several_processes_may_make_the_same_database_at_once(path: Path) -> None:
    opener = f"import asyncio; from {sqlite.__name__} import SqliteEventStore as S; asyncio.run(S.open({str(path)!r}))"
    processes = [subprocess.Popen([sys.executable, "-c", opener], stderr=subprocess.PIPE) for _ in range(6)]
    results = [(process.communicate(timeout=30)[1], process.returncode) for process in processes]
    assert results == [(b"", 0)] * 6


def test_reads_go_on_while_another_process_holds_the_file_for_writing(path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(path)
        await store.append(batch("a"))
        holder = connect_writer(path)
        holder.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.append(batch("a", 1)))
        assert [segment.first_seq for segment in await store.read("a")] == [1]
        assert not waiting.done()
        holder.execute("ROLLBACK")
        assert await waiting == 2
        holder.close()
        await store.close()

    run(story())


def test_a_lock_that_is_not_let_go_fails_the_append_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.adapters.store.connections.BUSY_TIMEOUT_S", 0.05)

    async def story() -> None:
        store = await SqliteEventStore.open(path)
        holder = connect_writer(path)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="locked"):
            await store.append(batch("a"))
        holder.execute("ROLLBACK")
        holder.close()
        assert await store.append(batch("a")) == 1
        await store.close()

    run(story())


def test_a_full_disk_fails_what_does_not_fit_and_the_store_goes_on_when_there_is_room(path: Path) -> None:
    async def story() -> None:
        connection = connect_writer(path)
        prepare(connection)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        store = SqliteEventStore(path, connection)
        await store.append(batch("a"))
        before = (await store.rows(), await store.read_all())
        with pytest.raises(StoreFailed, match="full"):
            await store.append(batch("a", 1, body=b"x" * 100_000))
        assert (await store.rows(), await store.read_all()) == before
        await store._writer.submit(lambda c: None, durable=False)  # the thread lives
        connection.execute("PRAGMA max_page_count = 100000")
        await store.append(batch("a", 1, body=b"x" * 100_000))
        assert (await store.row("a")).seq == 2
        await store.close()

    run(story())


def test_an_open_file_is_only_readable_for_readers(path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(path)
        with pytest.raises(StoreFailed, match="readonly"):
            await store._fetch("DELETE FROM runs")
        await store.close()

    run(story())


def test_a_job_that_breaks_takes_nobody_with_it(path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM runs")
        raise ZeroDivisionError

    async def story() -> None:
        store = await SqliteEventStore.open(path)
        await store.append(batch("before"))
        results = await asyncio.gather(
            store.append(batch("a")),
            store._writer.submit(broken, durable=False),
            store.append(batch("a")),
            store.append(batch("b")),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [int, ZeroDivisionError, WrongSequence, int]
        assert {row.id for row in await store.rows()} == {"before", "a", "b"}
        await store.close()

    run(story())


def test_a_writer_that_breaks_fails_whoever_waits_and_whoever_comes_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: writer.Writer) -> None:
        raise MemoryError

    async def story() -> None:
        store = await SqliteEventStore.open(path)
        monkeypatch.setattr(writer.Writer, "_take_back", broken)
        monkeypatch.setattr(transactions, "append", lambda *_, **__: 1 / 0)
        outcomes = await asyncio.gather(*(store.append(batch(f"r{n}")) for n in range(5)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreFailed] * 5
        with pytest.raises(StoreFailed):
            await store.take_ownership()
        await store.close()

    run(story())


def test_what_is_queued_is_committed_together_and_the_loop_is_woken_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    announce = writer._announce

    def counting(group: list[writer._Job]) -> None:
        groups.append(len(group))
        announce(group)

    monkeypatch.setattr(writer, "_announce", counting)

    async def story() -> None:
        store = await SqliteEventStore.open(path)
        holder = connect_writer(path)
        holder.execute("BEGIN IMMEDIATE")  # the first append waits for the lock, the others queue up behind it
        appends = [asyncio.ensure_future(store.append(batch(f"run-{n}"))) for n in range(100)]
        await asyncio.sleep(0)
        assert groups == []
        holder.execute("ROLLBACK")
        holder.close()
        await asyncio.gather(*appends)
        assert sum(groups) == 100
        assert len(groups) <= 2
        await store.close()

    run(story())


def test_a_group_is_synced_only_when_one_of_it_asks(path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(path)

        def synchronous(connection: sqlite3.Connection) -> int:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0])

        for durable, expected in ((False, 1), (True, 2), (False, 1)):
            assert await store._writer.submit(synchronous, durable=durable) == expected
        await store.close()

    run(story())


def test_what_is_queued_when_the_store_closes_is_still_written(path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(path)
        appends = [asyncio.ensure_future(store.append(batch(f"run-{n}"))) for n in range(50)]
        await asyncio.sleep(0)
        await store.close()
        assert sorted(await asyncio.gather(*appends)) == list(range(1, 51))
        assert not path.with_name("pilothouse.db-wal").exists()

    run(story())


def test_a_writer_whose_loop_has_ended_goes_on(path: Path) -> None:
    store = run(SqliteEventStore.open(path))

    async def leave() -> None:
        asyncio.ensure_future(store.append(batch("a")))  # noqa: RUF006  # nobody is to wait for it
        await asyncio.sleep(0)

    run(leave())

    async def later() -> None:
        await store.append(batch("b"))
        assert {row.id for row in await store.rows()} == {"a", "b"}
        await store.close()

    run(later())


def test_earlier_versions_of_a_document_are_kept_until_it_is_deleted(path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(path)
        for version in range(3):
            body = str(version).encode()
            await store.put_document(Document(kind="repo", id="r", version=version, owner="o", updated_at=1, body=body))
        query = "SELECT version, body FROM document_versions ORDER BY version"
        assert await store._fetch(query) == [(1, b"0"), (2, b"1")]
        await store.delete_document("repo", "r")
        assert await store._fetch(query) == []
        await store.close()

    run(story())


def test_an_owner_that_lost_a_run_is_told_so_before_anything_else(path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(path)
        await store.append(batch("a", epoch=2))
        with pytest.raises(StaleOwner):
            await store.append(batch("a", 7, epoch=1))
        await store.close()

    run(story())


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 100, b"short"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(Unavailable):
        run(SqliteEventStore.open(path))
    assert path.read_bytes() == content


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        run(SqliteEventStore.open(tmp_path / "no" / "such" / "folder.db"))


def test_a_path_may_have_any_characters(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteEventStore.open(tmp_path / "a b?c#d%41'ü.db")
        await store.append(batch("a"))
        assert len(await store.read_all()) == 1
        await store.close()

    run(story())


def test_a_url_or_a_path_opens_the_store(tmp_path: Path) -> None:
    async def story() -> None:
        for url in (str(tmp_path / "x.db"), tmp_path / "x.db", f"sqlite:///{tmp_path}/x.db"):
            store = await open_event_store(url)
            assert store.path == tmp_path / "x.db"
            await store.close()

    run(story())


@pytest.mark.parametrize("url", ["postgresql://localhost/x", "postgres://localhost/x", "postgresql+psycopg://h/x"])
def test_postgres_is_refused_as_not_built_yet(url: str) -> None:
    with pytest.raises(Unavailable, match="not built yet"):
        run(open_event_store(url))


@pytest.mark.parametrize("url", ["mysql://h/x", "sqlite://", "sqlite:///", "sqlite://x.db"])
def test_a_url_of_no_known_database_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput):
        run(open_event_store(url))


@pytest.mark.parametrize(
    ("question", "index"),
    [
        ("SELECT row FROM runs WHERE session_id = 's' ORDER BY created_at DESC, id DESC", "ix_runs_session"),
        ("SELECT row FROM runs WHERE parent_run_id = 's' ORDER BY created_at DESC, id DESC", "ix_runs_parent"),
        ("SELECT row FROM runs WHERE waiting ORDER BY created_at DESC, id DESC", "ix_runs_waiting"),
        ("SELECT row FROM runs WHERE TRUE ORDER BY created_at DESC, id DESC", "ix_runs_created"),
        ("SELECT row FROM runs WHERE lifecycle IN ('RUNNING', 'PAUSED')", "ix_runs_lifecycle"),
    ],
)
def test_lists_use_their_indexes(path: Path, question: str, index: str) -> None:
    async def story() -> list[tuple[Any, ...]]:
        store = await SqliteEventStore.open(path)
        try:
            return await store._fetch(f"EXPLAIN QUERY PLAN {question}")
        finally:
            await store.close()

    plan = " ".join(str(step[-1]) for step in run(story()))
    assert index in plan
    assert "TEMP B-TREE" not in plan


def test_the_epoch_of_a_row_is_the_column_not_the_text() -> None:
    row = RunRow(id="a", kind="k", name="n", owner="o", epoch=1)
    text = msgspec.json.encode(row).decode()
    assert transactions.with_epoch(text, 7).epoch == 7
