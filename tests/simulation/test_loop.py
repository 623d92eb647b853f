"""The loop of virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.loop import Deadlock, Exhausted, VirtualLoop


def test_time_jumps_to_the_next_timer() -> None:
    loop = VirtualLoop()

    async def wait() -> list[float]:
        await asyncio.sleep(3600)
        first = loop.time()
        async with asyncio.timeout(10):
            await asyncio.sleep(2)
        return [first, loop.time()]

    assert loop.run_until_complete(wait()) == [3600, 3602]


def test_timers_of_the_same_moment_go_off_in_the_order_they_were_set() -> None:
    loop, order = VirtualLoop(), list[int]()

    async def wait(number: int) -> None:
        await asyncio.sleep(1)
        order.append(number)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(wait(number))

    loop.run_until_complete(all_of_them())
    assert order == list(range(20))


def test_waiting_for_what_can_never_happen_is_a_deadlock() -> None:
    loop = VirtualLoop()

    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        loop.run_until_complete(wait())


def test_spinning_is_noticed() -> None:
    loop = VirtualLoop(steps=1000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Exhausted):
        loop.run_until_complete(spin())


def test_a_time_out_ends_a_wait() -> None:
    async def wait() -> None:
        async with asyncio.timeout(5):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        VirtualLoop().run_until_complete(wait())
