"""Whatever is done to the real store and its twin, both say the same; and what a power cut may take from the twin."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pilothouse.adapters.store.memory import MemoryEventStore, MemoryWorld
from pilothouse.adapters.store.sqlite import SqliteEventStore
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.segments import Append, Document
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.engine.ports import EventStore
from pilothouse.errors import PilothouseError, StoreFailed

RUNS = st.sampled_from(["a", "b", "c", "ü"])
EPOCHS = st.integers(1, 3)
LIFECYCLES = st.sampled_from(list(Lifecycle))


def batch(run_id: str, after: int, count: int, epoch: int, lifecycle: Lifecycle, waits: int, body: bytes) -> Append:
    row = RunRow(
        id=run_id,
        kind="plan" if run_id < "c" else "turn",
        name=run_id,
        owner="local",
        session_id="s" if run_id == "b" else None,
        lifecycle=lifecycle,
        seq=after + count,
        created_at=len(run_id.encode()),
        waits=tuple(Wait(id=str(n), kind=WaitKind.REVIEW) for n in range(waits)),
    )
    return Append(run_id=run_id, expected_seq=after, epoch=epoch, count=count, at=after, body=body, row=row)


class Twins(RuleBasedStateMachine):
    """Every step is done to both; answers and refusals must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.real: EventStore = self.runner.run(SqliteEventStore.open(self.folder / "x.db"))
        self.twin: EventStore = MemoryEventStore()
        self.seqs: dict[str, int] = {}

    def teardown(self) -> None:
        self.runner.run(self.real.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def outcome(self, doing: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.runner.run(doing)
        except PilothouseError as error:
            return type(error), str(error)

    def both(self, method: str, *args: Any, **kwargs: Any) -> Any:
        answers = [self.outcome(getattr(store, method)(*args, **kwargs)) for store in (self.real, self.twin)]
        assert answers[0] == answers[1]
        return answers[0]

    @rule(
        run_id=RUNS,
        off=st.sampled_from([0, 0, 0, 0, -1, 1]),
        count=st.integers(1, 3),
        epoch=EPOCHS,
        lifecycle=LIFECYCLES,
        waits=st.integers(0, 2),
        body=st.binary(max_size=8),
    )
    def append(
        self, run_id: str, off: int, count: int, epoch: int, lifecycle: Lifecycle, waits: int, body: bytes
    ) -> None:
        after = max(0, self.seqs.get(run_id, 0) + off)
        if isinstance(self.both("append", batch(run_id, after, count, epoch, lifecycle, waits, body)), int):
            self.seqs[run_id] = after + count

    @rule(appends=st.lists(st.tuples(RUNS, st.integers(0, 1), EPOCHS), max_size=6))
    def append_together(self, appends: list[tuple[str, int, int]]) -> None:
        batches = [
            batch(run_id, max(0, self.seqs.get(run_id, 0) - off), 1, epoch, Lifecycle.RUNNING, 0, b"together")
            for run_id, off, epoch in appends
        ]

        async def together(store: EventStore) -> list[Any]:
            results = await asyncio.gather(*(store.append(one) for one in batches), return_exceptions=True)
            return [(type(r), str(r)) for r in results]

        real, twin = (self.runner.run(together(store)) for store in (self.real, self.twin))
        assert real == twin
        for one, (kind, _) in zip(batches, real, strict=True):
            if kind is int:
                self.seqs[one.run_id] = one.expected_seq + 1

    @rule(run_id=RUNS, epoch=EPOCHS)
    def claim(self, run_id: str, epoch: int) -> None:
        self.both("claim", run_id, epoch)

    @rule(run_id=RUNS, epoch=EPOCHS)
    def delete(self, run_id: str, epoch: int) -> None:
        self.both("delete", run_id, epoch, 5)

    @rule()
    def take_ownership(self) -> None:
        self.both("take_ownership")

    @rule(id=st.sampled_from("xy"), version=st.integers(0, 3), body=st.binary(max_size=3))
    def put_document(self, id: str, version: int, body: bytes) -> None:
        self.both("put_document", Document(kind="repo", id=id, version=version, owner="o", updated_at=1, body=body))

    @rule(id=st.sampled_from("xy"), version=st.integers(0, 3))
    def document(self, id: str, version: int) -> None:
        self.both("document", "repo", id, version)

    @rule(id=st.sampled_from("xy"))
    def delete_document(self, id: str) -> None:
        self.both("delete_document", "repo", id)

    @rule(run_id=RUNS, after=st.integers(0, 9), limit=st.integers(1, 3))
    def read(self, run_id: str, after: int, limit: int) -> None:
        self.both("read", run_id, after, limit)

    @rule(after=st.integers(0, 20), limit=st.integers(1, 4))
    def read_all(self, after: int, limit: int) -> None:
        self.both("read_all", after, limit)

    @rule(
        kind=st.none() | st.just("plan"),
        lifecycles=st.none() | st.frozensets(LIFECYCLES),
        session_id=st.none() | st.just("s"),
        waiting=st.none() | st.booleans(),
        owing=st.booleans(),
        limit=st.integers(1, 4),
        before=st.none() | st.tuples(st.integers(0, 3), RUNS),
    )
    def rows(self, **question: Any) -> None:
        self.both("rows", **question)

    @rule(kind=st.sampled_from(["plan", "turn"]), session_ids=st.frozensets(st.sampled_from(["s", "t"])))
    def newest(self, kind: str, session_ids: frozenset[str]) -> None:
        self.both("newest", kind, session_ids)

    @rule()
    @precondition(lambda self: self.seqs)
    def reopen(self) -> None:
        self.runner.run(self.real.close())
        self.real = self.runner.run(SqliteEventStore.open(self.folder / "x.db"))

    @invariant()
    def the_same_is_seen(self) -> None:
        for run_id in self.seqs:
            self.both("row", run_id)
        self.both("last_position")
        self.both("documents", "repo")
        self.both("document_versions", "repo", "x")


Twins.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
test_both_stores_say_the_same_whatever_is_done = Twins.TestCase


# Power cuts, which only the twin can have on demand.


def simple(run_id: str, after: int, durable: bool) -> Append:
    row = RunRow(id=run_id, kind="k", name="n", owner="o", seq=after + 1)
    return Append(
        run_id=run_id, expected_seq=after, epoch=1, count=1, at=1, body=str(after).encode(), row=row, durable=durable
    )


def test_a_power_cut_takes_only_the_end_of_what_was_not_synced() -> None:
    async def story(seed: int) -> int:
        random = Random(seed)
        world = MemoryWorld()
        store = MemoryEventStore(world)
        seqs = dict.fromkeys("abc", 0)
        last_durable = 0
        for _ in range(30):
            run_id = random.choice("abc")
            durable = random.random() < 0.2
            position = await store.append(simple(run_id, seqs[run_id], durable))
            seqs[run_id] += 1
            last_durable = position if durable else last_durable
        before = await store.read_all()
        lost = world.crash(random)
        after = await MemoryEventStore(world).read_all()
        assert after == before[: len(before) - lost]
        assert len(after) >= last_durable
        survivor = MemoryEventStore(world)
        assert sum(row.seq for row in await survivor.rows()) == len(after)
        for row in await survivor.rows():
            assert [segment.first_seq for segment in await survivor.read(row.id)] == list(range(1, row.seq + 1))
            await survivor.append(simple(row.id, row.seq, True))
        assert world.crash(random) == 0
        return lost

    losses = [asyncio.run(story(seed)) for seed in range(200)]
    assert losses == [asyncio.run(story(seed)) for seed in range(200)]  # the same seed, the same loss
    assert min(losses) == 0
    assert max(losses) > 3


@pytest.mark.parametrize("sync", ["durable append", "checkpoint", "claim"])
def test_whatever_syncs_makes_all_before_it_safe(sync: str) -> None:
    async def story() -> None:
        world = MemoryWorld()
        store = MemoryEventStore(world)
        for after in range(5):
            await store.append(simple("a", after, False))
        if sync == "durable append":
            await store.append(simple("b", 0, True))
        elif sync == "claim":
            await store.claim("a", 2)
        else:
            world.checkpoint()
        for seed in range(20):
            assert world.crash(Random(seed)) == 0
        assert (await store.row("a")).seq == 5

    asyncio.run(story())


def test_the_hook_fails_an_append_before_or_after_its_commit() -> None:
    async def story(where: str) -> int:
        async def point(name: str) -> None:
            if name == where:
                raise StoreFailed("the disk is gone")

        world = MemoryWorld()
        with pytest.raises(StoreFailed):
            await MemoryEventStore(world, point).append(simple("a", 0, True))
        return len(await MemoryEventStore(world).read_all())

    assert asyncio.run(story("append.begin")) == 0
    assert asyncio.run(story("append.committed")) == 1


def test_earlier_versions_of_a_document_are_kept_in_the_twin_too() -> None:
    async def story() -> None:
        world = MemoryWorld()
        store = MemoryEventStore(world)
        for version in range(3):
            await store.put_document(
                Document(kind="r", id="x", version=version, owner="o", updated_at=1, body=b"%d" % version)
            )
        assert [(d.version, d.body) for d in world.document_versions[("r", "x")]] == [(1, b"0"), (2, b"1")]
        await store.delete_document("r", "x")
        assert not world.document_versions

    asyncio.run(story())
