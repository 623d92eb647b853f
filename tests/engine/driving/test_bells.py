"""Waiting: nothing that is new is missed, silence is noticed, and who leaves is forgotten."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.server import run

from pilothouse.engine.driving.bells import PACE_S, Bell, Ear


def test_what_comes_between_looking_and_waiting_is_not_missed() -> None:
    async def test() -> None:
        bell = Bell()
        with Ear(bell) as ear:
            ear.look()
            assert not ear.missed
            bell.ring()
            assert ear.missed
            assert await ear.rings() is True
            ear.look()
            assert not ear.missed and not ear.rings().done()

    run(test)


def test_all_who_wait_are_woken_in_the_order_in_which_they_came() -> None:
    async def test() -> None:
        bell, woken = Bell(), list[int]()

        async def wait(number: int) -> None:
            with Ear(bell) as ear:
                assert await ear.rings()
                woken.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(wait(number))
            await asyncio.sleep(0)
            bell.ring()
        assert woken == list(range(5))

    run(test)


def test_after_silence_it_rings_at_once_and_in_a_burst_once_a_pace() -> None:
    async def test() -> None:
        bell = Bell()
        with Ear(bell) as ear:
            for _ in range(2):
                await asyncio.sleep(1)
                ear.look()
                first = ear.rings()
                bell.ring()
                assert first.done()
                ear.look()
                again = ear.rings()
                for _ in range(3):
                    bell.ring()
                await asyncio.sleep(PACE_S / 2)
                assert not again.done()
                await asyncio.sleep(PACE_S)
                assert again.done()
                assert ear.rings().done()  # who has missed something does not wait at all

    run(test)


def test_silence_is_told_as_often_as_it_lasts_and_ends_with_the_next_ring() -> None:
    async def test() -> None:
        bell, loop = Bell(), asyncio.get_running_loop()
        began = loop.time()
        with Ear(bell, 15) as ear:
            ear.look()
            assert [await ear.rings() for _ in range(3)] == [False] * 3
            assert loop.time() - began == pytest.approx(45)
            waiting = ear.rings()
            bell.ring()
            assert await waiting is True

    run(test)


def test_silence_is_counted_from_the_last_that_came() -> None:
    async def test() -> None:
        bell, loop = Bell(), asyncio.get_running_loop()
        began = loop.time()
        with Ear(bell, 15) as ear:
            for _ in range(5):
                ear.look()
                waiting = ear.rings()
                await asyncio.sleep(10)
                bell.ring()
                assert await waiting is True
            ear.look()
            assert await ear.rings() is False
            assert loop.time() - began == pytest.approx(65)

    run(test)


def test_who_is_busy_for_longer_than_a_silence_is_told_of_none() -> None:
    async def test() -> None:
        bell = Bell()
        with Ear(bell, 15) as ear:
            ear.look()
            waiting = ear.rings()
            bell.ring()
            assert await waiting is True
            await asyncio.sleep(100)
            ear.look()
            waiting = ear.rings()
            await asyncio.sleep(14)
            assert not waiting.done()
            await asyncio.sleep(2)
            assert waiting.result() is False

    run(test)


def test_who_leaves_is_forgotten_however_they_leave() -> None:
    async def test() -> None:
        bell = Bell()

        async def wait(seconds: float | None) -> None:
            with Ear(bell, seconds) as ear:
                ear.look()
                while not await ear.rings():
                    pass

        waiting = [asyncio.create_task(wait(seconds)) for seconds in (None, 60, 3)]
        await asyncio.sleep(10)
        assert len(bell._waiting) == 3
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        assert not bell._waiting

    run(test)


def test_who_is_leaving_when_it_rings_keeps_it_from_nobody() -> None:
    async def test() -> None:
        bell = Bell()
        leaving, staying = [asyncio.ensure_future(Ear(bell).rings()) for _ in range(2)]
        leaving.cancel()
        bell.ring()
        assert await staying is True and leaving.cancelled()

    run(test)
