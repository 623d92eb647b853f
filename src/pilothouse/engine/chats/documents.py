"""What is kept of conversations beside their turns: a document each, what a user always answers, feedback, and what a
fork began with.

Knows neither principals nor turns. Whoever changes a document says how, and it is done to whatever stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from pilothouse.core.chat.message import Message
from pilothouse.core.run.segments import Document
from pilothouse.core.tools.spec import Permit
from pilothouse.engine.chats.values import Feedback
from pilothouse.engine.ports import Clock, EventStore
from pilothouse.errors import NotFound, WrongSequence

CHAT = "chat"
_PERMITS = "permits"
_FEEDBACK = "feedback"
_BEGINNING = "chat-beginning"

_TRIES = 20
"""Of a change when others change the same document meanwhile."""

TITLE_LENGTH = 60


class Titled(StrEnum):
    """Where a title is from: what comes later in this list replaces what comes before."""

    PROVISIONAL = "provisional"
    """The first words of the first message."""
    BACKEND = "backend"
    USER = "user"


class ChatDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As it is stored. Times are milliseconds since the epoch."""

    created_at: int
    said_at: int = 0
    """When the last message was sent."""
    title: str = ""
    titled: Titled = Titled.PROVISIONAL
    model: str = ""
    mode: str = ""
    workflow_id: str = ""
    workspace: str = ""
    permits: dict[str, Permit] = {}
    archived: bool = False
    forked_from: str = ""

    def entitled(self, title: str, by: Titled) -> ChatDocument:
        """With that title, unless a better one stands."""
        rank = list(Titled)
        if not title or rank.index(by) < rank.index(self.titled):
            return self
        return msgspec.structs.replace(self, title=title, titled=by)


class KeptChat(msgspec.Struct, frozen=True, kw_only=True):
    """A document with where it stands."""

    id: str
    owner: str
    version: int
    updated_at: int
    chat: ChatDocument


class _Permits(msgspec.Struct, frozen=True, kw_only=True):
    tools: dict[str, Permit] = {}


T = TypeVar("T", bound=msgspec.Struct)


class ChatDocuments:
    """Conversations by id."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, id: str, owner: str, chat: ChatDocument) -> KeptChat:
        """Idempotent: one that exists stays as it is."""
        try:
            return _kept(await self._put(CHAT, id, owner, 0, chat))
        except WrongSequence:
            return await self.get(id)

    async def get(self, id: str) -> KeptChat:
        """Raises ``NotFound``."""
        try:
            return _kept(await self._store.document(CHAT, id))
        except NotFound:
            raise NotFound(f"there is no chat {id}") from None

    async def all(self) -> list[KeptChat]:
        return [_kept(document) for document in await self._store.documents(CHAT)]

    async def change(self, id: str, change: Callable[[ChatDocument], ChatDocument]) -> KeptChat:
        """Where ``change`` changes nothing, no version is made. Raises ``NotFound``."""
        for _ in range(_TRIES):
            kept = await self.get(id)
            changed = change(kept.chat)
            if changed == kept.chat:
                return kept
            try:
                return _kept(await self._put(CHAT, id, kept.owner, kept.version, changed))
            except WrongSequence:
                continue
        raise WrongSequence(f"chat {id} is changed by too many at once; try again")

    async def delete(self, id: str) -> None:
        await self._store.delete_document(_BEGINNING, id)
        await self._store.delete_document(CHAT, id)

    async def begin_with(self, id: str, owner: str, messages: Sequence[Message]) -> None:
        """What a fork has before its own turns: kept as it was, so that it outlives what it was forked from."""
        document = Document(
            kind=_BEGINNING,
            id=id,
            version=0,
            owner=owner,
            updated_at=self._clock.now_ms(),
            body=msgspec.json.encode(messages),
        )
        await self._store.put_document(document)

    async def beginning(self, id: str) -> list[Message]:
        try:
            document = await self._store.document(_BEGINNING, id)
        except NotFound:
            return []
        return msgspec.json.decode(document.body, type=list[Message])

    async def permits(self, owner: str) -> dict[str, Permit]:
        """What a user always answers, by tool."""
        return (await self._permits(owner))[1].tools

    async def set_permit(self, owner: str, tool: str, permit: Permit | None) -> None:
        for _ in range(_TRIES):
            version, kept = await self._permits(owner)
            tools = {name: value for name, value in kept.tools.items() if name != tool}
            if permit is not None:
                tools[tool] = permit
            if tools == kept.tools:
                return
            try:
                await self._put(_PERMITS, owner, owner, version, _Permits(tools=tools))
                return
            except WrongSequence:
                continue
        raise WrongSequence("what is always answered is changed by too many at once; try again")

    async def _permits(self, owner: str) -> tuple[int, _Permits]:
        try:
            document = await self._store.document(_PERMITS, owner)
        except NotFound:
            return 0, _Permits()
        return document.version, msgspec.json.decode(document.body, type=_Permits)

    async def put_feedback(self, feedback: Feedback) -> None:
        """The last word counts."""
        for _ in range(_TRIES):
            try:
                version = (await self._store.document(_FEEDBACK, feedback.turn_id)).version
            except NotFound:
                version = 0
            try:
                await self._put(_FEEDBACK, feedback.turn_id, feedback.by, version, feedback)
                return
            except WrongSequence:
                continue
        raise WrongSequence("feedback is given by too many at once; try again")

    async def delete_feedback(self, turn_id: str) -> None:
        await self._store.delete_document(_FEEDBACK, turn_id)

    async def feedback(self, turn_id: str) -> Feedback | None:
        try:
            document = await self._store.document(_FEEDBACK, turn_id)
        except NotFound:
            return None
        return msgspec.json.decode(document.body, type=Feedback)

    async def _put(self, kind: str, id: str, owner: str, version: int, body: msgspec.Struct) -> Document:
        return await self._store.put_document(
            Document(
                kind=kind,
                id=id,
                version=version,
                owner=owner,
                updated_at=self._clock.now_ms(),
                body=msgspec.json.encode(body),
            )
        )


def first_words(message: str) -> str:
    """A title, for want of a better one."""
    line = " ".join(message.split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def _kept(document: Document) -> KeptChat:
    return KeptChat(
        id=document.id,
        owner=document.owner,
        version=document.version,
        updated_at=document.updated_at,
        chat=msgspec.json.decode(document.body, type=ChatDocument),
    )
