"""What was said in a conversation, folded from the logs of its turns.

Messages are stored nowhere else. Those of turns that have ended are remembered for a while, as many as memory should
hold; those of a turn that goes on are asked of whoever drives it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from pilothouse.core.chat.blocks import messages_of
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.state import TurnState
from pilothouse.core.run.contract import Kind
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chats.documents import ChatDocuments
from pilothouse.engine.chats.turns import TURN
from pilothouse.engine.driving.folding import fold
from pilothouse.engine.ports import EventStore
from pilothouse.errors import Busy, NotFound

_PAGE = 100
_REMEMBERED_BYTES = 32 << 20
_LONGEST = 1000
"""Turns that a backend is told of at most."""


class PastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What later turns need of one. ``pending``: the calls that were left to whoever sent the message, name by id, and
    ``checkpoint_id`` where the backend waits for their results."""

    messages: tuple[Message, ...]
    backend: str = ""
    conversation_id: str = ""
    workflow_id: str = ""
    title: str = ""
    pending: dict[str, str] = {}
    checkpoint_id: str = ""


Live: TypeAlias = Callable[[RunRow], Awaitable[PastTurn]]


class ChatHistory:
    """Messages by chat and by turn. ``remembered``: bytes of JSON of ended turns that are kept in memory."""

    def __init__(
        self,
        store: EventStore,
        registry: Registry,
        kind: Kind[TurnState],
        documents: ChatDocuments,
        remembered: int = _REMEMBERED_BYTES,
    ) -> None:
        self._store = store
        self._registry = registry
        self._kind = kind
        self._documents = documents
        self._limit = remembered
        self._remembered: OrderedDict[str, tuple[int, int, PastTurn]] = OrderedDict()
        """By turn: the sequence number it is as of, its size, and what is known of it."""
        self._bytes = 0

    @property
    def remembered(self) -> int:
        """Bytes of JSON that are kept."""
        return self._bytes

    async def rows(self, chat_id: str, before: RunRow | None = None) -> AsyncIterator[RunRow]:
        """The turns of a chat, newest first; with ``before`` only those before it."""
        key = None if before is None else (before.created_at, before.id)
        while True:
            page = await self._store.rows(kind=TURN, session_id=chat_id, limit=_PAGE, before=key)
            for row in page:
                yield row
            if len(page) < _PAGE:
                return
            key = (page[-1].created_at, page[-1].id)

    async def newest(self, chat_id: str) -> RunRow | None:
        """The last turn of a chat."""
        return (await self.newest_of((chat_id,))).get(chat_id)

    async def newest_of(self, chat_ids: Iterable[str]) -> dict[str, RunRow]:
        """The last turns of several, by chat, of those that have one."""
        found = await self._store.newest(TURN, frozenset(chat_ids))
        return {row.session_id: row for row in found if row.session_id is not None}

    async def turn(self, row: RunRow) -> PastTurn:
        """A turn as of its row. Raises ``Gone``, ``StoreFailed``."""
        known = self._remembered.get(row.id)
        if known is not None and known[0] == row.seq:
            self._remembered.move_to_end(row.id)
            return known[2]
        turn = past_turn(await fold(self._store, self._registry, self._kind, row))
        if row.lifecycle in TERMINAL:
            self._remember(row, turn)
        return turn

    async def before(self, turn_id: str, chat_id: str) -> tuple[Message, ...]:
        """What a model is told of what was said before a turn, oldest first. A summary stands for all that was before
        the turn it was made in."""
        row = await self._store.row(turn_id)
        turns: list[tuple[Message, ...]] = []
        async for earlier in self.rows(chat_id, row):
            turns.append((await self.turn(earlier)).messages)
            if any(message.compaction for message in turns[-1]) or len(turns) == _LONGEST:
                break
        else:
            turns.append(_since_summary(await self._documents.beginning(chat_id)))
        return tuple(message for turn in reversed(turns) for message in turn)

    async def until(self, chat_id: str, turn_id: str) -> list[Message]:
        """Everything up to and including a turn that has ended. Raises ``NotFound`` for one that is not of this chat,
        ``Busy`` for one that goes on."""
        beginning = await self._documents.beginning(chat_id)
        if any(message.turn_id == turn_id for message in beginning):
            last = max(index for index, message in enumerate(beginning) if message.turn_id == turn_id)
            return beginning[: last + 1]
        row = await self._store.row(turn_id)
        if row.kind != TURN or row.session_id != chat_id:
            raise NotFound(f"there is no turn {turn_id} in this conversation")
        if row.lifecycle not in TERMINAL:
            raise Busy("this turn is going on; fork when it has ended", active_turn_id=turn_id)
        earlier = [message for found in await self._own(chat_id, row, None, self.turn) for message in found]
        return [*beginning, *earlier, *(await self.turn(row)).messages]

    async def page(self, chat_id: str, before: str | None, limit: int | None, live: Live) -> list[Message]:
        """The messages of the last ``limit`` turns (None: of all), before one of them where that is given, oldest
        first; ``live`` is asked for one that goes on. Raises ``NotFound`` when it is not of this chat."""
        beginning = await self._documents.beginning(chat_id)
        cut = next((index for index, message in enumerate(beginning) if message.turn_id == before), None)
        if before is not None and cut is not None:
            own: list[tuple[Message, ...]] = []
            beginning = beginning[:cut]
        else:
            row = None if before is None else await self._store.row(before)
            if row is not None and row.session_id != chat_id:
                raise NotFound(f"there is no turn {before} in this conversation")
            own = await self._own(chat_id, row, limit, live)
        kept = _last_turns(beginning, None if limit is None else limit - len(own))
        return [*kept, *(message for messages in own for message in messages)]

    async def _own(
        self, chat_id: str, before: RunRow | None, limit: int | None, live: Live
    ) -> list[tuple[Message, ...]]:
        """Of the last turns, oldest first."""
        turns: list[tuple[Message, ...]] = []
        if limit == 0:
            return turns
        async for row in self.rows(chat_id, before):
            turn = await (self.turn if row.lifecycle in TERMINAL else live)(row)
            turns.append(turn.messages)
            if len(turns) == limit:
                break
        turns.reverse()
        return turns

    def _remember(self, row: RunRow, turn: PastTurn) -> None:
        self.forget(row.id)
        size = len(msgspec.json.encode(turn))
        self._remembered[row.id] = (row.seq, size, turn)
        self._bytes += size
        while self._bytes > self._limit:
            self.forget(next(iter(self._remembered)))

    def forget(self, turn_id: str) -> None:
        known = self._remembered.pop(turn_id, None)
        if known is not None:
            self._bytes -= known[1]


def past_turn(state: TurnState) -> PastTurn:
    """What is known of a turn as it stands."""
    pending = {call.id: call.name for call in state.calls.values() if call.status is CallStatus.PENDING}
    return PastTurn(
        messages=messages_of(state),
        backend=state.facts.backend,
        conversation_id=state.conversation_id,
        workflow_id=state.workflow_id,
        title=state.title,
        pending=pending,
        checkpoint_id=state.last.paused_at if state.last is not None and pending else "",
    )


def _last_turns(messages: list[Message], limit: int | None) -> list[Message]:
    if limit is None:
        return messages
    turns = list(dict.fromkeys(message.turn_id for message in messages))
    wanted = set(turns[max(0, len(turns) - limit) :])
    return [message for message in messages if message.turn_id in wanted]


def _since_summary(messages: list[Message]) -> tuple[Message, ...]:
    """From the turn on in which the last summary was made."""
    summarized = [message.turn_id for message in messages if message.compaction]
    if not summarized:
        return tuple(messages)
    first = next(index for index, message in enumerate(messages) if message.turn_id == summarized[-1])
    return tuple(messages[first:])
