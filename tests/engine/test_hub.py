"""Following the log: everything once, in order, whoever publishes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import cast

import pytest
from tests.engine.server import quiet, run
from tests.support.trivial import REGISTRY, StepSaid

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.run.events import Event, Recorded, RunCreated
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.segments import Append
from pilothouse.engine.hub import Batch, Hub
from pilothouse.errors import Gone, NotFound


class Writer:
    """Appends as an actor does, and announces it."""

    def __init__(self, store: MemoryEventStore, hub: Hub, run_id: str = "r") -> None:
        self.store, self.hub, self.run_id = store, hub, run_id
        self.row: RunRow | None = None
        self.seq = 0

    async def write(self, *events: Event, announce: bool = True) -> None:
        recorded = tuple(Recorded(self.run_id, self.seq + 1 + n, 0, event) for n, event in enumerate(events))
        for one in recorded:
            self.row = project(self.row, one)
        assert self.row is not None
        append = Append(
            run_id=self.run_id,
            expected_seq=self.seq,
            epoch=1,
            count=len(events),
            at=0,
            body=REGISTRY.encode(events),
            row=self.row,
        )
        position = await self.store.append(append)
        self.seq += len(events)
        if announce:
            self.hub.publish(position, self.run_id, recorded, size=len(append.body))

    async def create(self) -> None:
        await self.write(RunCreated(kind="trivial", name="", owner="", root_run_id=self.run_id))

    async def say(self, *texts: str, announce: bool = True) -> None:
        await self.write(*(StepSaid(text=text) for text in texts), announce=announce)


async def world(random: Random | None = None, memory: int = 2048) -> tuple[MemoryEventStore, Hub]:
    async def point(operation: str) -> None:
        if random is not None:
            for _ in range(random.randint(0, 3)):
                await asyncio.sleep(0)

    store = MemoryEventStore(point=point)
    await store.take_ownership()
    return store, Hub(store, REGISTRY, memory)


def follow(hub: Hub, run_id: str = "r", after: int = 0) -> AsyncGenerator[Batch, None]:
    return cast(AsyncGenerator[Batch, None], hub.follow(run_id, after))


async def seqs(batches: AsyncGenerator[Batch, None], count: int) -> list[int]:
    """The sequence numbers of the next ``count`` events."""
    found: list[int] = []
    async with aclosing(batches):
        async for batch in batches:
            found += [recorded.seq for recorded in batch.recorded]
            if len(found) >= count:
                break
    return found


async def first(batches: AsyncGenerator[Batch, None]) -> Batch:
    async with aclosing(batches):
        return await anext(batches)


@pytest.mark.parametrize("memory", [1, 3, 2048])
@pytest.mark.parametrize("seed", range(8))
def test_followers_get_every_event_once_and_in_order_while_others_publish(seed: int, memory: int) -> None:
    async def test() -> None:
        random = Random(seed)
        store, hub = await world(random, memory)
        one, other = Writer(store, hub, "r"), Writer(store, hub, "s")
        await one.create()
        await other.create()

        async def write(writer: Writer) -> None:
            for _ in range(40):
                await writer.say(*("x" for _ in range(random.randint(1, 3))))
                if random.random() < 0.3:
                    await quiet()
            await writer.say("the last word")

        async def follow_to_the_end(after: int) -> list[int]:
            found: list[int] = []
            async with aclosing(follow(hub, "r", after)) as batches:
                async for batch in batches:
                    found += [recorded.seq for recorded in batch.recorded]
                    if batch.recorded[-1].event == StepSaid(text="the last word"):
                        break
            return found

        async with asyncio.TaskGroup() as group:
            group.create_task(write(one))
            group.create_task(write(other))
            followers = [group.create_task(follow_to_the_end(after)) for after in (0, 1, 7, 20)]
        for after, follower in zip((0, 1, 7, 20), followers, strict=True):
            found = follower.result()
            assert found == list(range(after + 1, one.seq + 1))

    run(test)


def test_the_stream_of_all_runs_is_in_the_order_of_the_log() -> None:
    async def test() -> None:
        store, hub = await world(Random(1))
        writers = [Writer(store, hub, f"r{n}") for n in range(3)]

        async def write(writer: Writer) -> None:
            await writer.create()
            for n in range(10):
                await writer.say(str(n))

        async def follow_all() -> list[int]:
            positions: list[int] = []
            async with aclosing(cast(AsyncGenerator[Batch, None], hub.follow_all())) as batches:
                async for batch in batches:
                    positions.append(batch.position)
                    if len(positions) == 33:
                        break
            return positions

        async with asyncio.TaskGroup() as group:
            follower = group.create_task(follow_all())
            for writer in writers:
                group.create_task(write(writer))
        assert follower.result() == list(range(1, 34))

    run(test)


def test_a_commit_that_was_written_but_reported_as_failed_leaves_no_gap() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        await writer.say("told")
        await writer.say("written, and nobody was told", announce=False)
        await writer.say("told again")
        assert await seqs(follow(hub, "r", 2), 2) == [3, 4]
        assert await seqs(follow(hub), 4) == [1, 2, 3, 4]

    run(test)


def test_who_follows_in_the_middle_of_a_batch_gets_the_rest_of_it() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        await writer.say("a", "b", "c")
        assert await seqs(follow(hub, "r", 2), 2) == [3, 4]

    run(test)


def test_events_are_encoded_once_for_all_followers() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        one, another = [await first(follow(hub)) for _ in range(2)]
        assert one.wires is another.wires

    run(test)


def test_a_run_that_is_deleted_is_gone_for_those_who_follow_and_for_those_who_come_later() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()

        async def follow_for_ever() -> None:
            async for _ in hub.follow("r"):
                pass

        following = asyncio.create_task(follow_for_ever())
        await quiet()
        hub.publish(await store.delete("r", 1, 0), "r", (), deleted=True)
        with pytest.raises(Gone):
            await following
        with pytest.raises(Gone):
            await first(follow(hub))
        with pytest.raises(NotFound):
            await first(follow(hub, "never was"))

    run(test)


def test_what_is_kept_is_bounded_in_bytes_and_the_store_has_the_rest() -> None:
    async def act() -> tuple[list[str], int]:
        store = MemoryEventStore()
        await store.take_ownership()
        hub = Hub(store, REGISTRY, size=10_000)
        writer = Writer(store, hub)
        await writer.create()
        for number in range(50):
            await writer.say(f"{number}" + 1000 * ".")
        found: list[str] = []
        async with aclosing(hub.pages("r", 1)) as pages:
            async for page in pages:
                found += [one.event.text for batch in page for one in batch.recorded if isinstance(one.event, StepSaid)]
                if len(found) == 50:
                    break
        return [text.rstrip(".") for text in found], len(hub._all.batches)

    found, kept = run(act)
    assert found == [str(number) for number in range(50)]
    assert 1 <= kept < 10
