"""From a message to a turn in the log: once for each message, and one at a time in a conversation.

What may be said of a message is ``sending``'s to check.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.auth.policy import Action
from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.chat.inputs import Say
from pilothouse.core.run.events import RunCreated
from pilothouse.engine.chats.documents import ChatDocument, ChatDocuments, first_words
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.chats.reading import ChatReading
from pilothouse.engine.chats.sending import Sending, check_name, check_size
from pilothouse.engine.chats.turns import TURN, ChatTurns
from pilothouse.engine.chats.values import Send, Sent
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.keyed import keyed_id
from pilothouse.engine.ports import Clock, EventStore, Ids
from pilothouse.errors import NotFound


class ChatStarting:
    """Starts turns."""

    def __init__(
        self,
        reading: ChatReading,
        sending: Sending,
        supervisor: Supervisor,
        store: EventStore,
        documents: ChatDocuments,
        history: ChatHistory,
        turns: ChatTurns,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._reading = reading
        self._sending = sending
        self._supervisor = supervisor
        self._store = store
        self._documents = documents
        self._history = history
        self._turns = turns
        self._clock = clock
        self._ids = ids

    async def send(self, send: Send, principal: Principal) -> Sent:
        check_size(send)
        if send.message_id is None:
            return await self._send(send, self._ids.new(), self._ids.new(), self._ids.new(), principal)
        message_id = check_name(send.message_id, "messageId")
        # Of its own kind: the same key may have been given with a plan, whose ids come from it too.
        turn_id = keyed_id(f"{principal.name}\0turn", message_id)
        new_chat = keyed_id(principal.name, f"chat\0{message_id}")
        async with self._turns.locked(turn_id):  # of two that come at once, the second finds the first
            try:
                row = await self._store.row(turn_id)
            except NotFound:
                return await self._send(send, turn_id, message_id, new_chat, principal)
        return Sent(turn_id=turn_id, chat_id=row.session_id or "", message_id=message_id, created=False)

    async def _send(self, send: Send, turn_id: str, message_id: str, new_chat: str, principal: Principal) -> Sent:
        kept = None if send.chat_id is None else await self._reading.kept(send.chat_id, principal, Action.SEND)
        chat_id = kept.id if kept else new_chat
        async with self._turns.locked(chat_id):
            await self._turns.require_idle(chat_id)
            newest = await self._history.newest(chat_id)
            last = await self._history.turn(newest) if newest else None
            chat = kept.chat if kept else self._new_chat(send)
            owner = kept.owner if kept else principal.name
            settled = await self._sending.settled(send, chat, last, principal)
            permits = await self._documents.permits(owner)
            received = await self._sending.received(send, message_id, settled, last, permits, principal)
            if kept is None:
                await self._documents.create(chat_id, owner, settled)
            else:
                await self._documents.change(chat_id, lambda now: self._said(now, chat, settled))
            await self._start(turn_id, chat_id, owner, received)
        return Sent(turn_id=turn_id, chat_id=chat_id, message_id=message_id, created=True)

    def _new_chat(self, send: Send) -> ChatDocument:
        return ChatDocument(created_at=self._clock.now_ms(), title=first_words(send.message))

    def _said(self, now: ChatDocument, seen: ChatDocument, settled: ChatDocument) -> ChatDocument:
        """What a message says of its chat, on top of whatever was changed since it was looked at."""
        said = {
            name: getattr(settled, name)
            for name in ChatDocument.__struct_fields__
            if name not in ("title", "titled") and getattr(settled, name) != getattr(seen, name)
        }
        titled = now.entitled(settled.title, settled.titled) if settled.title != seen.title else now
        return msgspec.structs.replace(titled, **said, said_at=self._clock.now_ms())

    async def _start(self, turn_id: str, chat_id: str, owner: str, received: TurnReceived) -> None:
        created = RunCreated(
            kind=TURN,
            name=first_words(received.message) or "Results of tools",
            owner=owner,
            session_id=chat_id,
            root_run_id=turn_id,
            cause="headless" if received.headless else "chat",
        )
        await self._supervisor.create(TURN, turn_id, Say(created=created, received=received))
