"""Signals that only those can give who share a secret, over a place where others may write too.

What is published or kept carries when it was made, where it is meant for, and a MAC over all of it. What does not, is
too old or came before, is nobody's: it is dropped, and the log says so. It hides nothing, and who can write there can
still keep signals from arriving.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import struct
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pilothouse.adapters.signals.memory import MemorySignals
from pilothouse.adapters.signals.over_redis import RedisSignals

log = logging.getLogger(__name__)

FRESH_S = 60.0
"""How old a message may be, or how far clocks may differ: for so long it is remembered that it came."""
_MOST_REMEMBERED = 20_000
"""Messages that each listener remembers; more within ``FRESH_S`` and the oldest of them could be repeated."""
_SAID_EVERY_S = 60.0
"""How often the log says of one reason."""
_UNSIGNED = "it is not signed with this server's secret"
_MAC = hashlib.sha256().digest_size
_HEAD = struct.Struct(">d16s")
"""Seconds since 1970 at which it was made (of what is kept: until which it counts), and what makes it unlike others."""


class SignedSignals:
    """As ``engine.chat_ports.Signals``, through ``signals``."""

    def __init__(
        self, signals: MemorySignals | RedisSignals, secret: bytes, now: Callable[[], float] = time.time
    ) -> None:
        """``secret``: of all who signal to each other. ``now`` in seconds since 1970, much the same everywhere."""
        self._signals = signals
        self._key = hmac.digest(secret, b"pilothouse signals", "sha256")
        self._now = now
        self._said: dict[str, tuple[float, int]] = {}
        """When the log said of a reason, and how often it was met since."""

    async def publish(self, channel: str, message: bytes) -> None:
        await self._signals.publish(channel, self._sealed(f"message {channel}", message, self._now()))

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._signals.listen(channel) as messages:
            yield self._heard(channel, messages)

    async def keep(self, key: str, value: bytes, ttl_s: float) -> bool:
        sealed = self._sealed(f"kept {key}", value, self._now() + ttl_s)
        if await self._signals.keep(key, sealed, ttl_s):
            return True
        found = await self._signals.kept(key)
        if found is not None:
            if self._of_ours(key, found) is not None:
                return False
            await self._signals.forget(key)  # nobody's: it must not stand in the way of ours
        return await self._signals.keep(key, sealed, ttl_s)

    async def kept(self, key: str) -> bytes | None:
        sealed = await self._signals.kept(key)
        return None if sealed is None else self._of_ours(key, sealed)

    def _of_ours(self, key: str, sealed: bytes) -> bytes | None:
        opened = self._opened(f"kept {key}", sealed)
        if opened is None:
            self._dropped(key, _UNSIGNED)
            return None
        until, _, value = opened
        if not self._now() <= until:
            self._dropped(key, "it was kept beyond its time")
            return None
        return value

    async def forget(self, key: str) -> None:
        await self._signals.forget(key)

    async def close(self) -> None:
        await self._signals.close()

    async def _heard(self, channel: str, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        came: OrderedDict[bytes, float] = OrderedDict()
        async for sealed in messages:
            now = self._now()
            while came and (next(iter(came.values())) < now - 2 * FRESH_S or len(came) > _MOST_REMEMBERED):
                came.popitem(last=False)
            opened = self._opened(f"message {channel}", sealed)
            if opened is None:
                self._dropped(channel, _UNSIGNED)
                continue
            made, nonce, message = opened
            if not abs(now - made) <= FRESH_S:
                self._dropped(channel, "it is too old", f"made {now - made:.0f} s ago, by the clock of who sent it")
            elif nonce in came:
                self._dropped(channel, "it came before")
            else:
                came[nonce] = now
                yield message

    def _sealed(self, place: str, content: bytes, at: float) -> bytes:
        body = _HEAD.pack(at, secrets.token_bytes(16)) + content
        return self._mac(place, body) + body

    def _opened(self, place: str, sealed: bytes) -> tuple[float, bytes, bytes] | None:
        body = sealed[_MAC:]
        if len(body) < _HEAD.size or not hmac.compare_digest(sealed[:_MAC], self._mac(place, body)):
            return None
        at, nonce = _HEAD.unpack_from(body)
        return at, nonce, body[_HEAD.size :]

    def _mac(self, place: str, body: bytes) -> bytes:
        where = place.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, len(where).to_bytes(4, "big") + where + body, "sha256")

    def _dropped(self, where: str, why: str, more: str = "") -> None:
        """Say so in the log: at once, and then once in a while how often. Who floods us must not flood it too."""
        now = self._now()
        since, count = self._said.get(why, (now - _SAID_EVERY_S, 0))
        if now - since < _SAID_EVERY_S:
            self._said[why] = since, count + 1
            return
        again = f"; {count} more since this was said last" if count else ""
        log.warning("signals.rejected: %s: %s%s%s", where, why, f" ({more})" if more else "", again)
        self._said[why] = now, 0
