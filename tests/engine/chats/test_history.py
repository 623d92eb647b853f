"""What is remembered of turns that have ended, and for how long."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from tests.engine.conversations import THE_LOCAL_USER, ended, run, say, world

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.chat.backend import Completed, Said
from pilothouse.core.chat.kind import TurnKind
from pilothouse.core.chat.state import TurnState
from pilothouse.engine.chats.documents import ChatDocuments
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.kinds import REGISTRY


class Folds(TurnKind):
    """Counts the logs that were folded."""

    def __init__(self) -> None:
        self.count = 0

    def initial(self, run_id: str) -> TurnState:
        self.count += 1
        return super().initial(run_id)


def test_a_turn_that_has_ended_is_folded_once_and_forgotten_when_memory_is_short() -> None:
    async def journey() -> None:
        made = world(says=[Said("word " * 100), Completed()])
        async with made.engine() as services:
            sent = await say(services)
            await ended(services, sent.turn_id)
            turns = [sent.turn_id]
            for _ in range(4):
                turns.append((await say(services, chat_id=sent.chat_id)).turn_id)
                await ended(services, turns[-1])
            store, kind = MemoryEventStore(made.store), Folds()
            history = ChatHistory(store, REGISTRY, kind, ChatDocuments(store, made.clock), remembered=3_000)
            rows = [row async for row in history.rows(sent.chat_id)]
            assert [row.id for row in rows] == turns[::-1]
            for _ in range(3):
                first = await history.turn(rows[0])
            assert (kind.count, first.messages[1].content) == (1, "word " * 100)
            for row in rows:
                await history.turn(row)
            assert history.remembered <= 3_000
            before = kind.count
            await history.turn(rows[0])
            assert kind.count == before + 1, "it was let go for those read after it"
            history.forget(rows[0].id)

    run(journey)


def test_memory_is_freed_when_a_turn_has_ended() -> None:
    async def journey() -> None:
        made = world(says=[Said("x" * 100_000), Completed()])
        async with made.engine() as services:
            sent = await say(services)
            actor: Any = weakref.ref(services.supervisor.live[sent.turn_id])
            await ended(services, sent.turn_id)
            assert services.supervisor.live == {}
            gc.collect()
            assert actor() is None, "nothing holds on to who drove it"
            assert (await services.chats.result(sent.turn_id, THE_LOCAL_USER)).content == "x" * 100_000

    run(journey)
