"""Following the log: everything once, in order, whoever publishes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from random import Random
from typing import cast

import pytest
from tests.engine.server import quiet, run
from tests.support.trivial import REGISTRY, StepSaid

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.run.events import (
    Event,
    Recorded,
    RunCreated,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
)
from pilothouse.core.run.lifecycle import MOVES, TERMINAL_EVENTS, Lifecycle
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.segments import Append
from pilothouse.engine.driving.hub import _PAGE, LEG_OPEN_AFTER, Batch, Hub
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


def test_an_empty_page_tells_of_silence_and_nothing_is_lost_by_it() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        async with aclosing(hub.pages("r", 1, 15)) as pages:
            assert [await anext(pages) for _ in range(2)] == [[], []]
            await writer.say("a", "b")
            assert [recorded.seq for batch in await anext(pages) for recorded in batch.recorded] == [2, 3]
            assert await anext(pages) == []

    run(test)


async def pages_to_the_end(hub: Hub, after: int = 0) -> list[int]:
    async with asyncio.timeout(60), aclosing(hub.pages("r", after, to_end=True)) as pages:
        return [recorded.seq async for page in pages for batch in page for recorded in batch.recorded]


@pytest.mark.parametrize("memory", [1, 2048])
def test_pages_to_the_end_go_over_all_legs_wherever_they_begin(memory: int) -> None:
    async def test() -> None:
        store, hub = await world(Random(1), memory)
        writer = Writer(store, hub)
        await writer.create()
        for leg in range(1, 4):
            await writer.write(RunStarted(leg=1) if leg == 1 else RunResumed(leg=leg))
            for _ in range(_PAGE):
                await writer.say("x")
            await writer.write(RunFailed(error="no"))
            if leg == 2:
                await writer.say("one more word")
        for after in (*range(0, writer.seq, 100), writer.seq):
            assert await pages_to_the_end(hub, after) == list(range(after + 1, writer.seq + 1))

    run(test)


def test_pages_to_the_end_wait_for_it() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        following = asyncio.create_task(pages_to_the_end(hub))
        await quiet()
        await writer.write(RunStarted(leg=1))
        await quiet()
        assert not following.done()
        await writer.write(RunFailed(error="no"))
        assert await following == [1, 2, 3]

    run(test)


def test_pages_to_the_end_go_on_with_a_leg_that_is_opened_while_the_last_page_is_dealt_with() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        await writer.write(RunStarted(leg=1), RunFailed(error="no"))
        found: list[int] = []
        async with aclosing(hub.pages("r", to_end=True)) as pages:
            async for page in pages:
                found += [recorded.seq for batch in page for recorded in batch.recorded]
                if writer.seq == 3:
                    await writer.write(RunResumed(leg=2))
                elif writer.seq == 4:
                    await writer.write(RunFinished())
        assert found == [1, 2, 3, 4, 5]

    run(test)


def test_a_deleted_run_ends_pages_after_what_there_was() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()
        found: list[int] = []
        with pytest.raises(Gone):
            async with aclosing(hub.pages("r")) as pages:
                async for page in pages:
                    found += [recorded.seq for batch in page for recorded in batch.recorded]
                    if writer.seq == 1:
                        await writer.write(RunStarted(leg=1), RunFailed(error="no"))
                        hub.publish(await store.delete("r", 1, 0), "r", (), deleted=True)
        assert found == [1, 2, 3]

    run(test)


def test_whether_a_leg_is_open_is_known_after_each_event_that_changes_it() -> None:
    assert {event.type_name() for event, is_open in LEG_OPEN_AFTER.items() if not is_open} == TERMINAL_EVENTS
    opens = {event for row in MOVES.values() for event, targets in row.items() if Lifecycle.RUNNING in targets}
    assert {event.type_name() for event, is_open in LEG_OPEN_AFTER.items() if is_open} == opens


def test_who_stops_following_leaves_nothing_behind() -> None:
    async def test() -> None:
        store, hub = await world()
        writer = Writer(store, hub)
        await writer.create()

        async def follow_for_a_minute(pages: AsyncGenerator[list[Batch], None]) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(60), aclosing(pages):
                    async for _ in pages:
                        pass

        following = [follow_for_a_minute(pages) for pages in (hub.pages("r", 1, 15), hub.pages("r"), hub.pages_all())]
        async with asyncio.TaskGroup() as group:
            for each in following:
                group.create_task(each)
            await quiet()
            assert set(hub._bells) == {"r", None}
        assert not hub._bells

    run(test)
