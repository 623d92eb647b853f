"""The contract of ``Signals``, within a process and through a real Redis server, signed and not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.redis_server import redis_server

from pilothouse.adapters.signals.memory import BACKLOG, MemoryPlace, MemorySignals
from pilothouse.adapters.signals.over_redis import RedisSignals
from pilothouse.adapters.signals.signed import SignedSignals
from pilothouse.engine.chat_ports import Signals

WITHIN_S = 30

Open = Callable[[], Signals]
"""Another process's end of the same signals."""


@pytest.fixture(params=["memory", "signed", "redis", "signed-redis"])
def open_end(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if not request.param.endswith("redis"):
        place = MemoryPlace()
        signed = request.param == "signed"
        yield lambda: SignedSignals(MemorySignals(place), b"secret") if signed else MemorySignals(place)
        return
    with redis_server(tmp_path) as server:
        signed = request.param == "signed-redis"
        yield lambda: SignedSignals(RedisSignals(server.url), b"secret") if signed else RedisSignals(server.url)


def on(open_end: Open, story: Callable[[Signals, Signals], Awaitable[None]]) -> None:
    """Run a story on two ends."""

    async def told() -> None:
        one, other = open_end(), open_end()
        try:
            async with asyncio.timeout(WITHIN_S):
                await story(one, other)
        finally:
            await one.close()
            await other.close()

    asyncio.run(told())


async def after(messages: AsyncIterator[bytes], last: bytes) -> list[bytes]:
    """What arrives up to and with ``last``."""
    found = []
    async for message in messages:
        found.append(message)
        if message == last:
            break
    return found


def test_what_is_published_reaches_whoever_listens_on_either_end_in_order(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        async with one.listen("runs") as here, other.listen("runs") as there, other.listen("else") as elsewhere:
            for n in range(5):
                await one.publish("runs", b"%d" % n)
            assert await after(here, b"4") == [b"0", b"1", b"2", b"3", b"4"]
            assert await after(there, b"4") == [b"0", b"1", b"2", b"3", b"4"]
            await other.publish("else", b"last")
            assert await after(elsewhere, b"last") == [b"last"]

    on(open_end, story)


def test_any_bytes_come_through(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        async with other.listen("bytes") as there:
            await one.publish("bytes", bytes(range(256)))
            await one.publish("bytes", b"")
            assert await after(there, b"") == [bytes(range(256)), b""]

    on(open_end, story)


def test_nothing_is_kept_for_who_listens_later_and_nothing_comes_after_leaving(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        await one.publish("runs", b"early")
        async with other.listen("runs") as there:
            await one.publish("runs", b"now")
            assert await after(there, b"now") == [b"now"]
        await one.publish("runs", b"late")
        async with other.listen("runs") as again:
            await one.publish("runs", b"again")
            assert await after(again, b"again") == [b"again"]

    on(open_end, story)


def test_publishing_to_nobody_is_nothing(open_end: Open) -> None:
    async def story(one: Signals, _: Signals) -> None:
        await one.publish("nobody", b"hello")

    on(open_end, story)


def test_a_listener_that_does_not_listen_holds_up_nobody_and_gets_the_newest(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        async with other.listen("busy") as there, other.listen("busy") as quick:
            for n in range(BACKLOG + 10):
                await one.publish("busy", b"%d" % n)
                if n % 100 == 0:
                    await after(quick, b"%d" % n)
            last = b"%d" % (BACKLOG + 9)
            await after(quick, last)  # so the other one has got all of them too
            found = await after(there, last)
            assert found[-1] == last
            assert found == sorted(found, key=int)
            assert len(found) <= BACKLOG + 1

    on(open_end, story)


def test_of_several_who_keep_one_key_one_wins(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        ends = [one, other] * 10
        won = await asyncio.gather(*(end.keep("tool_call:t:1", b"%d" % n, 60) for n, end in enumerate(ends)))
        assert won.count(True) == 1
        assert await one.kept("tool_call:t:1") == await other.kept("tool_call:t:1") == b"%d" % won.index(True)
        assert await one.keep("tool_call:t:2", b"other", 60)

    on(open_end, story)


def test_what_was_never_kept_is_not_there(open_end: Open) -> None:
    async def story(one: Signals, _: Signals) -> None:
        assert await one.kept("tool_call:t:1") is None

    on(open_end, story)


def test_what_is_forgotten_can_be_kept_anew_and_forgetting_nothing_is_nothing(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        await one.forget("k")
        assert await one.keep("k", b"first", 60)
        await other.forget("k")
        assert await one.kept("k") is None
        assert await other.keep("k", b"second", 60)

    on(open_end, story)


def test_what_is_kept_is_gone_after_its_time_and_the_key_is_free(open_end: Open) -> None:
    async def story(one: Signals, other: Signals) -> None:
        assert await one.keep("short", b"first", 0.05)
        while await other.kept("short") is not None:
            await asyncio.sleep(0.01)
        assert await other.keep("short", b"second", 60)
        assert await one.kept("short") == b"second"

    on(open_end, story)


def test_leaving_while_waiting_for_a_message_ends_at_once(open_end: Open) -> None:
    async def story(one: Signals, _: Signals) -> None:
        entered = asyncio.Event()

        async def listening() -> None:
            async with one.listen("quiet") as messages:
                entered.set()
                async for _ in messages:
                    pass

        task = asyncio.create_task(listening())
        await entered.wait()
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()

    on(open_end, story)
