"""The contract of ``EventStore``, on the real store and on its twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from pilothouse.adapters.store.memory import MemoryEventStore, MemoryWorld
from pilothouse.adapters.store.sqlite import SqliteEventStore
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.engine.ports import EventStore
from pilothouse.errors import Gone, NotFound, StaleOwner, StoreFailed, WrongSequence

WITHIN_S = 30


class Disk(Protocol):
    """One disk; every ``open`` is another process's client of it."""

    def open(self) -> AbstractAsyncContextManager[EventStore]: ...


class SqliteDisk:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "pilothouse.db"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EventStore]:
        store = await SqliteEventStore.open(self._path)
        try:
            yield store
        finally:
            await store.close()


class MemoryDisk:
    def __init__(self) -> None:
        self._world = MemoryWorld()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EventStore]:
        store = MemoryEventStore(self._world)
        try:
            yield store
        finally:
            await store.close()


@pytest.fixture(params=["sqlite", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return SqliteDisk(tmp_path) if request.param == "sqlite" else MemoryDisk()


def on(disk: Disk, story: Callable[[EventStore], Awaitable[None]]) -> None:
    """Run a story on one open store."""

    async def told() -> None:
        async with asyncio.timeout(WITHIN_S), disk.open() as store:
            await story(store)

    asyncio.run(told())


def batch(
    run_id: str,
    after: int = 0,
    *,
    count: int = 1,
    epoch: int = 1,
    body: bytes | None = None,
    durable: bool = False,
    **row: Any,
) -> Append:
    """An append after sequence number ``after``; ``row`` are fields of the read model."""
    fields: dict[str, Any] = {"id": run_id, "kind": "plan", "name": run_id, "owner": "local", "seq": after + count}
    return Append(
        run_id=run_id,
        expected_seq=after,
        epoch=epoch,
        count=count,
        at=1000 + after,
        body=f"{run_id}:{after}+{count}".encode() if body is None else body,
        row=RunRow(**fields | row),
        durable=durable,
    )


def test_what_is_appended_is_read_back_as_it_was(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        position = await store.append(batch("a", count=3, name="Überfluss ∞", created_at=7, detail={"x": [1, None]}))
        (segment,) = await store.read("a")
        assert (segment.position, segment.run_id, segment.first_seq, segment.last_seq) == (position, "a", 1, 3)
        assert (segment.at, segment.body, segment.deleted) == (1000, b"a:0+3", False)
        row = await store.row("a")
        assert (row.name, row.seq, row.epoch, row.detail) == ("Überfluss ∞", 3, 1, {"x": [1, None]})

    on(disk, story)


@pytest.mark.parametrize("body", [b"", "жёлтый 🚢".encode(), b"\x00\xff not even text", b"x" * 2_000_000])
def test_a_body_is_any_bytes(disk: Disk, body: bytes) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a", body=body))
        assert (await store.read("a"))[0].body == body

    on(disk, story)


def test_sequence_numbers_have_no_gaps(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        after = 0
        for count in (1, 4, 2, 1):
            await store.append(batch("a", after, count=count))
            after += count
        expected = 1
        for segment in await store.read("a"):
            assert segment.first_seq == expected
            expected = segment.last_seq + 1
        assert expected == 9 == (await store.row("a")).seq + 1

    on(disk, story)


@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_an_append_that_does_not_follow_is_refused_and_leaves_nothing(disk: Disk, after: int) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a", count=2))
        before = (await store.rows(), await store.read_all())
        with pytest.raises(WrongSequence):
            await store.append(batch("a", after, count=5, name="never"))
        assert (await store.rows(), await store.read_all()) == before
        await store.append(batch("a", 2))

    on(disk, story)


def test_an_append_to_a_run_that_was_never_created_is_refused(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        with pytest.raises(WrongSequence):
            await store.append(batch("a", 3))
        with pytest.raises(NotFound):
            await store.row("a")
        assert await store.read("a") == []

    on(disk, story)


def test_of_appends_that_race_for_one_place_exactly_one_wins(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a"))
        rivals = [store.append(batch("a", 1, body=str(n).encode())) for n in range(20)]
        results = await asyncio.gather(*rivals, return_exceptions=True)
        (won,) = (n for n, result in enumerate(results) if isinstance(result, int))
        assert all(isinstance(result, WrongSequence) for n, result in enumerate(results) if n != won)
        assert [segment.body for segment in await store.read("a", 1)] == [str(won).encode()]

    on(disk, story)


def test_an_append_that_contradicts_itself_is_a_bug(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for wrong in (
            msgspec.structs.replace(batch("a"), run_id="b"),
            msgspec.structs.replace(batch("a"), count=2),
            batch("a", count=0),
        ):
            with pytest.raises(ValueError):
                await store.append(wrong)
        assert await store.read_all() == []

    on(disk, story)


def test_positions_rise_in_commit_order_across_runs_and_reopening(disk: Disk) -> None:
    async def story() -> None:
        positions: list[int] = []
        for lap in range(3):
            async with disk.open() as store:
                for run_id in ("a", "b", "c"):
                    positions.append(await store.append(batch(run_id, lap)))
                assert await store.last_position() == positions[-1]
        assert positions == sorted(set(positions))
        async with disk.open() as store:
            assert [segment.position for segment in await store.read_all()] == positions
            assert [segment.position for segment in await store.read_all(positions[3], 2)] == positions[4:6]

    asyncio.run(story())


def test_a_position_is_never_given_twice_even_when_what_was_last_is_deleted(disk: Disk) -> None:
    async def story() -> None:
        async with disk.open() as store:
            await store.append(batch("a"))
            last = await store.append(batch("b"))
            tombstone = await store.delete("b", 1, 5)
            assert tombstone > last
        async with disk.open() as store:
            assert await store.append(batch("a", 1)) > tombstone

    asyncio.run(story())


def test_an_empty_store_ends_at_position_zero(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        assert await store.last_position() == 0
        assert await store.read_all() == []
        assert await store.rows() == []

    on(disk, story)


def test_a_reopened_store_says_the_same(disk: Disk) -> None:
    async def everything(store: EventStore) -> Any:
        return (await store.rows(), await store.read_all(), await store.documents("repo"), await store.last_position())

    async def story() -> None:
        async with disk.open() as store:
            for run_id in "abc":
                await store.append(batch(run_id))
            await store.claim("a", 4)
            await store.delete("c", 1, 9)
            await store.put_document(Document(kind="repo", id="r", version=0, owner="o", updated_at=1, body=b"{}"))
            before = await everything(store)
        async with disk.open() as store:
            assert await everything(store) == before

    asyncio.run(story())


def test_many_runs_append_at_once_and_each_log_is_whole(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        async def live(run_id: str) -> None:
            for after in range(20):
                await store.append(batch(run_id, after, durable=after % 7 == 0))

        async with asyncio.TaskGroup() as group:
            for n in range(30):
                group.create_task(live(f"run-{n:02}"))
        for row in await store.rows():
            assert row.seq == 20
            assert [segment.first_seq for segment in await store.read(row.id)] == list(range(1, 21))
        positions = [segment.position for segment in await store.read_all()]
        assert len(positions) == 600
        assert positions == sorted(set(positions))

    on(disk, story)


def test_one_refused_append_does_not_touch_its_neighbours(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        appends = [store.append(batch(f"run-{n}", after=3 if n % 3 == 0 else 0)) for n in range(30)]
        results = await asyncio.gather(*appends, return_exceptions=True)
        refused = [n for n, result in enumerate(results) if isinstance(result, WrongSequence)]
        assert refused == list(range(0, 30, 3))
        assert len(await store.rows()) == 20

    on(disk, story)


def test_a_segment_is_read_from_the_one_the_sequence_number_lies_in(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for after in range(0, 20, 5):
            await store.append(batch("a", after, count=5))
        await store.append(batch("b", count=50))
        for after in range(22):
            firsts = [segment.first_seq for segment in await store.read("a", after)]
            assert firsts == [first for first in (1, 6, 11, 16) if first + 4 > after]
        assert [segment.first_seq for segment in await store.read("a", 7, limit=2)] == [6, 11]

    on(disk, story)


# Owners.


def test_every_owner_epoch_is_greater_than_all_before(disk: Disk) -> None:
    async def story() -> None:
        epochs = []
        for _ in range(3):
            async with disk.open() as store:
                epochs += [await store.take_ownership(), await store.take_ownership()]
        assert epochs == sorted(set(epochs))
        assert epochs[0] > 0

    asyncio.run(story())


def test_a_claimed_run_refuses_its_old_owner(disk: Disk) -> None:
    async def story() -> None:
        async with disk.open() as first, disk.open() as second:
            old = await first.take_ownership()
            await first.append(batch("a", epoch=old))
            new = await second.take_ownership()
            row = await second.claim("a", new)
            assert (row.epoch, row.seq) == (new, 1)
            for refused in (first.append(batch("a", 1, epoch=old)), first.claim("a", old), first.delete("a", old, 5)):
                with pytest.raises(StaleOwner):
                    await refused
            assert (await first.row("a")).epoch == new
            await second.append(batch("a", 1, epoch=new))
            assert [segment.last_seq for segment in await first.read("a")] == [1, 2]

    asyncio.run(story())


def test_a_claim_is_repeatable_and_an_append_of_a_newer_owner_claims(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a", epoch=1))
        assert await store.claim("a", 2) == await store.claim("a", 2)
        await store.append(batch("a", 1, epoch=5))
        with pytest.raises(StaleOwner):
            await store.append(batch("a", 2, epoch=4))
        assert (await store.row("a")).epoch == 5

    on(disk, story)


def test_a_run_that_never_was_cannot_be_claimed_or_deleted(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for refused in (store.claim("a", 1), store.delete("a", 1, 5)):
            with pytest.raises(NotFound):
                await refused

    on(disk, story)


# Lists.


def test_lists_are_newest_first_and_page_without_gap_or_repeat(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for n in range(25):
            await store.append(batch(f"run-{n:02}", created_at=n // 3))
        everything = await store.rows()
        keys = [(row.created_at, row.id) for row in everything]
        assert keys == sorted(keys, reverse=True)
        paged: list[RunRow] = []
        while page := await store.rows(
            limit=4, before=(paged[-1].created_at, paged[-1].id) if paged else None, kind="plan"
        ):
            paged += page
        assert paged == everything

    on(disk, story)


def test_lists_can_be_narrowed_by_every_column_alone_and_together(disk: Disk) -> None:
    wait = Wait(id="w", kind=WaitKind.REVIEW)
    rows: dict[str, dict[str, Any]] = {
        "plain": {},
        "other-kind": {"kind": "turn"},
        "other-owner": {"owner": "ada"},
        "in-session": {"session_id": "s1"},
        "child": {"parent_run_id": "plain"},
        "running": {"lifecycle": Lifecycle.RUNNING},
        "waits": {"lifecycle": Lifecycle.RUNNING, "waits": (wait,)},
        "ended": {"lifecycle": Lifecycle.FAILED, "session_id": "s1"},
        "owes": {"lifecycle": Lifecycle.SUCCEEDED, "detail": {"owed": 2}},
        "owes-nothing": {"lifecycle": Lifecycle.SUCCEEDED, "detail": {"owed": 0}},
    }
    questions: list[tuple[dict[str, Any], set[str]]] = [
        ({"kind": "turn"}, {"other-kind"}),
        ({"owner": "ada"}, {"other-owner"}),
        ({"session_id": "s1"}, {"in-session", "ended"}),
        ({"parent_run_id": "plain"}, {"child"}),
        ({"waiting": True}, {"waits"}),
        ({"waiting": False}, set(rows) - {"waits"}),
        ({"lifecycles": frozenset({Lifecycle.RUNNING, Lifecycle.FAILED})}, {"running", "waits", "ended"}),
        ({"lifecycles": frozenset()}, set()),
        ({"session_id": "s1", "lifecycles": frozenset({Lifecycle.FAILED}), "kind": "plan"}, {"ended"}),
        ({"session_id": "nobody's"}, set()),
        ({"owing": True}, {"owes"}),
        ({"owing": True, "lifecycles": frozenset({Lifecycle.STOPPED})}, set()),
        ({"kind": ""}, set()),
    ]

    async def story(store: EventStore) -> None:
        for run_id, fields in rows.items():
            await store.append(batch(run_id, **fields))
        for question, expected in questions:
            assert {row.id for row in await store.rows(**question)} == expected, question

    on(disk, story)


def test_the_newest_run_of_each_of_several_sessions_is_found_in_one_go(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for run_id, session_id, created_at, kind in [
            ("a", "s1", 1, "turn"),
            ("b", "s1", 3, "turn"),
            ("c", "s1", 3, "turn"),
            ("d", "s1", 9, "plan"),
            ("e", "s2", 2, "turn"),
            ("f", "s3", 2, "turn"),
            ("g", None, 2, "turn"),
        ]:
            await store.append(batch(run_id, session_id=session_id, created_at=created_at, kind=kind))
        await store.append(batch("c", 1, session_id="s1", created_at=3, kind="turn", lifecycle=Lifecycle.RUNNING))
        found = await store.newest("turn", frozenset({"s1", "s2", "nobody's"}))
        assert found == [await store.row("c"), await store.row("e")]
        assert await store.newest("turn", frozenset()) == []

    on(disk, story)


def test_a_list_follows_the_read_model_of_the_last_append(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        wait = Wait(id="w", kind=WaitKind.APPROVAL, question="May I?", options=("yes", "no"), detail={"n": 1})
        await store.append(batch("a", lifecycle=Lifecycle.RUNNING, waits=(wait,)))
        assert [row.waits for row in await store.rows(waiting=True)] == [(wait,)]
        await store.append(batch("a", 1, lifecycle=Lifecycle.SUCCEEDED, counts={"SUCCEEDED": 3}))
        assert await store.rows(waiting=True) == []
        assert await store.rows(lifecycles=frozenset({Lifecycle.RUNNING})) == []
        assert [row.counts for row in await store.rows(lifecycles=frozenset({Lifecycle.SUCCEEDED}))] == [
            {"SUCCEEDED": 3}
        ]

    on(disk, story)


# Deletion.


def test_a_deleted_run_is_gone_and_its_tombstone_stands_in_the_log(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a", count=2))
        await store.append(batch("b"))
        await store.append(batch("a", 2))
        position = await store.delete("a", 1, 77)
        for refused in (
            store.row("a"),
            store.read("a"),
            store.claim("a", 9),
            store.append(batch("a", 3)),
            store.append(batch("a")),
        ):
            with pytest.raises(Gone):
                await refused
        assert [row.id for row in await store.rows()] == ["b"]
        kept, tombstone = await store.read_all()
        assert kept.run_id == "b"
        assert (tombstone.position, tombstone.run_id, tombstone.deleted) == (position, "a", True)
        assert (tombstone.at, tombstone.body, tombstone.count) == (77, b"", 0)

    on(disk, story)


def test_deleting_twice_answers_the_same_tombstone_whoever_asks(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a", epoch=3))
        position = await store.delete("a", 3, 5)
        assert await store.delete("a", 3, 6) == position
        assert await store.delete("a", 1, 7) == position
        assert len(await store.read_all()) == 1

    on(disk, story)


# Documents.


def document(version: int, body: bytes = b"{}", id: str = "r", kind: str = "repo") -> Document:
    return Document(kind=kind, id=id, version=version, owner="local", updated_at=version, body=body)


def test_a_document_is_replaced_only_by_who_knows_its_version(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        first = await store.put_document(document(0, b"1"))
        assert first.version == 1
        second = await store.put_document(document(1, b"2"))
        assert second == await store.document("repo", "r") == msgspec.structs.replace(document(1, b"2"), version=2)
        for stale in (0, 1, 3):
            with pytest.raises(WrongSequence):
                await store.put_document(document(stale, b"lost"))
        assert (await store.document("repo", "r")).body == b"2"

    on(disk, story)


def test_a_document_that_is_not_there_has_no_second_version(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        with pytest.raises(WrongSequence):
            await store.put_document(document(1))
        with pytest.raises(NotFound):
            await store.document("repo", "r")

    on(disk, story)


def test_every_version_of_a_document_can_be_read(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for version in range(4):
            await store.put_document(document(version, b"%d" % version))
        await store.put_document(document(0, b"other", id="s"))
        for version in range(1, 5):
            assert (await store.document("repo", "r", version)).body == b"%d" % (version - 1)
        for absent in (-1, 0, 5):
            with pytest.raises(NotFound):
                await store.document("repo", "r", absent)
        versions = await store.document_versions("repo", "r")
        assert [found.version for found in versions] == [4, 3, 2, 1]
        assert versions[0] == await store.document("repo", "r")
        assert [found.version for found in await store.document_versions("repo", "r", before=4, limit=2)] == [3, 2]
        assert await store.document_versions("repo", "none") == []
        await store.delete_document("repo", "r")
        assert await store.document_versions("repo", "r") == []
        with pytest.raises(NotFound):
            await store.document("repo", "r", 2)

    on(disk, story)


def test_documents_of_a_kind_come_by_id(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        for id in ("b", "c", "a"):
            await store.put_document(document(0, id=id))
        await store.put_document(document(0, id="0", kind="outline"))
        assert [found.id for found in await store.documents("repo")] == ["a", "b", "c"]
        assert await store.documents("none") == []

    on(disk, story)


def test_a_deleted_document_may_begin_again(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        await store.put_document(document(0))
        await store.put_document(document(1))
        for _ in range(2):
            await store.delete_document("repo", "r")
        with pytest.raises(NotFound):
            await store.document("repo", "r")
        assert (await store.put_document(document(0))).version == 1
        assert (await store.put_document(document(1))).version == 2

    on(disk, story)


# Ends.


def test_a_closed_store_refuses_and_closing_twice_is_no_error(disk: Disk) -> None:
    async def story() -> None:
        async with disk.open() as store:
            await store.append(batch("a"))
        await store.close()
        for refused in (store.append(batch("a", 1)), store.row("a"), store.read_all()):
            with pytest.raises(StoreFailed):
                await refused

    asyncio.run(story())


def test_an_append_whose_waiter_was_cancelled_is_done_all_the_same_or_not_at_all(disk: Disk) -> None:
    async def story(store: EventStore) -> None:
        await store.append(batch("a"))
        waiter = asyncio.ensure_future(store.append(batch("a", 1)))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        await store.append(batch("b"))  # behind it in the same queue
        segments = await store.read("a")
        assert (await store.row("a")).seq == segments[-1].last_seq
        await store.append(batch("a", segments[-1].last_seq))

    on(disk, story)
