"""A Redis server that goes away: signals stay within the process, the log says so once, and they come back."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from tests.support.redis_server import redis_server

from pilothouse.adapters.signals.memory import MemorySignals
from pilothouse.adapters.signals.opening import open_signals
from pilothouse.adapters.signals.over_redis import RedisSignals
from pilothouse.errors import BadInput, Unavailable

WITHIN_S = 30


async def heard(signals: RedisSignals, by: RedisSignals, channel: str = "c") -> None:
    """Until what one end publishes arrives at the other."""
    async with by.listen(channel) as messages:

        async def knock() -> None:
            while True:
                await signals.publish(channel, b"knock")
                await asyncio.sleep(0.02)

        knocking = asyncio.create_task(knock())
        try:
            async for _ in messages:
                return
        finally:
            knocking.cancel()


def test_while_the_server_is_gone_signals_stay_here_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pilothouse.adapters.signals")
    with redis_server(tmp_path) as server:

        async def story() -> None:
            one, other = RedisSignals(server.url), RedisSignals(server.url)
            async with asyncio.timeout(WITHIN_S), one.listen("c") as here, other.listen("c") as there:
                await one.publish("c", b"before")
                assert await anext(here) == await anext(there) == b"before"
                await asyncio.to_thread(server.stop)

                await one.publish("c", b"during")
                assert await anext(here) == b"during"
                assert await one.keep("k", b"mine", 60)
                assert not await one.keep("k", b"again", 60)
                assert await one.kept("k") == b"mine"
                lost = [record for record in caplog.records if record.message.startswith("signals.lost")]
                assert 1 <= len(lost) <= 2  # one of each end, at most
                assert f"127.0.0.1:{server.port}" in lost[0].message

                await asyncio.to_thread(server.start)
                await heard(one, by=other)
                await heard(other, by=one)
                assert await one.kept("k") == b"mine"
                assert any(record.message.startswith("signals.back") for record in caplog.records)
            await one.close()
            await other.close()

        asyncio.run(story())


def test_a_server_that_was_never_there_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        signals = RedisSignals("redis://ann:planted-secret@127.0.0.1:1/0")
        async with asyncio.timeout(WITHIN_S), signals.listen("c") as messages:
            await signals.publish("c", b"hello")
            assert await anext(messages) == b"hello"
        await signals.close()

    asyncio.run(story())
    assert "signals.lost: redis://127.0.0.1:1/0" in caplog.text
    assert "planted-secret" not in caplog.text


def test_a_server_that_takes_connections_and_says_nothing_is_asked_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pilothouse.adapters.signals.over_redis.WITHIN_S", 0.1)
    monkeypatch.setattr("pilothouse.adapters.signals.over_redis._TRIED_AGAIN_S", 3600.0)
    taken = 0

    async def story() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal taken
            taken += 1
            await reader.read()
            writer.close()

        async with asyncio.timeout(WITHIN_S), await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            signals = RedisSignals(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
            for n in range(20):
                assert await signals.keep(f"k{n}", b"mine", 60)
            await signals.close()

    asyncio.run(story())
    assert taken == 1


def test_without_an_address_there_is_no_server_and_with_a_wrong_one_it_is_said() -> None:
    assert isinstance(open_signals(None, b""), MemorySignals)
    assert isinstance(open_signals("", b""), MemorySignals)
    with pytest.raises(BadInput, match="PILOTHOUSE_REDIS_URL"):
        open_signals("http://localhost", b"s")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(Unavailable, match=r"pip install 'pilothouse\[redis\]'"):
        open_signals("redis://localhost", b"s")
