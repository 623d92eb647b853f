"""Signals within one process, which need no server: what a single owner uses, and the twin of those over Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)

BACKLOG = 1000
"""Messages that wait for a listener; of more the oldest are dropped, since each only says to look."""
_SWEEP_AT = 1000


class MemoryPlace:
    """What the processes that signal to each other share."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now`` in seconds."""
        self.now = now
        self.listeners: dict[str, set[asyncio.Queue[bytes]]] = {}
        self.kept: dict[str, tuple[bytes, float]] = {}


class MemorySignals:
    """As ``engine.chat_ports.Signals``."""

    def __init__(self, place: MemoryPlace | None = None) -> None:
        self._place = place or MemoryPlace()

    async def publish(self, channel: str, message: bytes) -> None:
        for queue in self._place.listeners.get(channel, ()):
            offer(queue, message, channel)

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(BACKLOG)
        listeners = self._place.listeners.setdefault(channel, set())
        listeners.add(queue)
        try:
            yield messages(queue)
        finally:
            listeners.discard(queue)
            if not listeners:
                self._place.listeners.pop(channel, None)

    async def keep(self, key: str, value: bytes, ttl_s: float) -> bool:
        kept, now = self._place.kept, self._place.now()
        if len(kept) >= _SWEEP_AT:
            for old in [name for name, (_, ends) in kept.items() if ends <= now]:
                del kept[old]
        if await self.kept(key) is not None:
            return False
        kept[key] = (value, now + ttl_s)
        return True

    async def kept(self, key: str) -> bytes | None:
        value, ends = self._place.kept.get(key, (b"", 0.0))
        return value if ends > self._place.now() else None

    async def forget(self, key: str) -> None:
        self._place.kept.pop(key, None)

    async def close(self) -> None:
        """Nothing is held."""


def offer(queue: asyncio.Queue[bytes], message: bytes, channel: str) -> None:
    """Put a message there; when it is full, in the place of the oldest."""
    if queue.full():
        queue.get_nowait()
        log.debug("signals.dropped: %s", channel)
    queue.put_nowait(message)


async def messages(queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await queue.get()
