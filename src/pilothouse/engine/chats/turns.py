"""One live turn per conversation: whoever begins one, or goes on with one, does so alone.

The rows are the truth; a lock keeps two that come at once from both finding that nothing goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from pilothouse.core.run.lifecycle import OPEN
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.ports import EventStore
from pilothouse.errors import BadInput, Busy, Refused

TURN = "turn"
"""The kind of run."""
LONGEST_STEERING = 100_000
"""Characters."""


class ChatTurns:
    """The turns of conversations, as far as they exclude each other."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def locked(self, key: str) -> AsyncIterator[None]:
        """While nobody else is within the same key, a chat's id or a turn's."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            yield

    async def live(self, chat_id: str) -> RunRow | None:
        """The turn of a chat that goes on."""
        found = await self._store.rows(kind=TURN, session_id=chat_id, lifecycles=OPEN, limit=1)
        return found[0] if found else None

    async def require_idle(self, chat_id: str) -> None:
        """Raises ``Busy``."""
        if (live := await self.live(chat_id)) is not None:
            way = f"wait for its end, or stop it: pilothouse runs stop {live.id}"
            raise Busy(f"a turn of this conversation is going on ({way})", active_turn_id=live.id)

    @asynccontextmanager
    async def going_on(self, row: RunRow) -> AsyncIterator[None]:
        """While an ended turn is brought to go on. Raises ``Busy``, and ``Refused`` for any but the last one of its
        conversation: what was said since does not know of it."""
        chat_id = row.session_id or row.id
        async with self.locked(chat_id):
            newest = await self._store.rows(kind=TURN, session_id=chat_id, limit=1)
            if newest and newest[0].id != row.id:
                await self.require_idle(chat_id)
                way = f"say it again: pilothouse chat --chat {chat_id} MESSAGE"
                raise Refused(f"something was said since, and only the last turn of a conversation can go on ({way})")
            yield


def check_steering(content: str) -> None:
    """Raises ``BadInput`` for what cannot be said to a turn that goes on."""
    if not content.strip():
        raise BadInput("is empty", field="content", fix="say something")
    if len(content) > LONGEST_STEERING:
        fix = f"at most {LONGEST_STEERING} characters"
        raise BadInput("is too long to be said in between", field="content", fix=fix)
