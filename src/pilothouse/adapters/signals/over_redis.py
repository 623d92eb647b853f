"""Signals through a Redis server, between processes on any machines.

While the server cannot be reached they go on within this process, and the log says so, once for each outage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pilothouse.adapters.signals.memory import BACKLOG, MemorySignals, messages, offer
from pilothouse.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

log = logging.getLogger(__name__)

PREFIX = "pilothouse:"
"""Before every channel and key: others may use the same server."""
WITHIN_S = 2.0
"""Bound of every question."""
_IDLE_S = 15.0
"""How often a connection on which nothing arrives is tried."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_TRIED_AGAIN_S = 1.0
"""After a question that failed, the next ones are answered here for so long."""

T = TypeVar("T")


class RedisSignals:
    """As ``engine.chat_ports.Signals``. Nothing is connected before it is used."""

    def __init__(self, url: str) -> None:
        """Raises ``Unavailable`` without the extra, ``BadInput`` for what is no address of a Redis server."""
        try:  # imported here because it is an extra
            from redis.asyncio import Redis  # noqa: PLC0415
            from redis.asyncio.retry import Retry  # noqa: PLC0415
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.exceptions import RedisError  # noqa: PLC0415
        except ImportError:
            raise Unavailable("signals over Redis: pip install 'pilothouse[redis]'") from None
        self._failures: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self._where = _without_password(url)
        try:
            self._redis: Redis = Redis.from_url(
                url, socket_timeout=WITHIN_S, socket_connect_timeout=WITHIN_S, retry=Retry(NoBackoff(), 0)
            )
        except ValueError as error:
            fix = "as in redis://localhost:6379/0"
            raise BadInput(str(error), field="PILOTHOUSE_REDIS_URL", fix=fix) from None
        self._here = MemorySignals()
        self._lost = False
        self._again_at = 0.0

    async def publish(self, channel: str, message: bytes) -> None:
        await self._ask(
            lambda: self._redis.publish(PREFIX + channel, message), lambda: self._here.publish(channel, message)
        )

    async def keep(self, key: str, value: bytes, ttl_s: float) -> bool:
        kept = self._redis.set
        ttl_ms = max(1, round(ttl_s * 1000))
        found = await self._ask(
            lambda: kept(PREFIX + key, value, nx=True, px=ttl_ms), lambda: self._here.keep(key, value, ttl_s)
        )
        return bool(found)

    async def kept(self, key: str) -> bytes | None:
        found: Any = await self._ask(lambda: self._redis.get(PREFIX + key), lambda: self._here.kept(key))
        # What was kept here during an outage, the server does not know.
        return found if found is not None else await self._here.kept(key)

    async def forget(self, key: str) -> None:
        await self._here.forget(key)
        await self._ask(lambda: self._redis.delete(PREFIX + key), lambda: asyncio.sleep(0))

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(BACKLOG)
        subscribed = asyncio.Event()
        async with self._here.listen(channel) as here:
            tasks = (
                asyncio.create_task(self._follow(channel, queue, subscribed)),
                asyncio.create_task(_pass_on(here, queue, channel)),
            )
            try:
                await subscribed.wait()
                yield messages(queue)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def close(self) -> None:
        await self._redis.aclose()

    async def _follow(self, channel: str, queue: asyncio.Queue[bytes], subscribed: asyncio.Event) -> None:
        """Put what is published there into ``queue``, connecting anew for ever. ``subscribed`` is set once it is, or
        cannot be for now."""
        pause = _FIRST_PAUSE_S
        while True:
            pubsub = self._redis.pubsub()
            try:
                await self._subscribe(pubsub, channel)
                self._found()
                subscribed.set()
                pause = _FIRST_PAUSE_S
                while True:
                    await self._take(pubsub, channel, queue)
            except self._failures as error:
                self._missed(error)
            finally:
                subscribed.set()
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis has no annotation there
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _subscribe(self, pubsub: PubSub, channel: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            await pubsub.subscribe(PREFIX + channel)
            while True:
                told = await pubsub.get_message(timeout=WITHIN_S)
                if told is not None and told["type"] == "subscribe":
                    return

    async def _take(self, pubsub: PubSub, channel: str, queue: asyncio.Queue[bytes]) -> None:
        told = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_IDLE_S)
        if told is None:
            # A connection that broke without a word shows it when something is sent.
            async with asyncio.timeout(WITHIN_S):
                await pubsub.ping()
        elif told["type"] == "message":
            offer(queue, told["data"], channel)

    async def _ask(self, there: Callable[[], Awaitable[T]], here: Callable[[], Awaitable[T]]) -> T:
        if self._lost and asyncio.get_running_loop().time() < self._again_at:
            return await here()  # who waits for an answer must not wait for a server that says nothing each time
        try:
            async with asyncio.timeout(2 * WITHIN_S):
                answer = await there()
        except self._failures as error:
            self._missed(error)
            return await here()
        self._found()
        return answer

    def _missed(self, error: Exception) -> None:
        if not self._lost:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            log.warning("signals.lost: %s cannot be reached, signals stay within this process: %s", self._where, why)
        self._lost = True
        self._again_at = asyncio.get_running_loop().time() + _TRIED_AGAIN_S

    def _found(self) -> None:
        if self._lost:
            log.info("signals.back: %s", self._where)
        self._lost = False


async def _pass_on(messages: AsyncIterator[bytes], queue: asyncio.Queue[bytes], channel: str) -> None:
    async for message in messages:
        offer(queue, message, channel)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
