"""API keys: made, shown once, listed, revoked, and recognised when they come back.

Keeps digests, never keys. When a key was last used, and how often of late, is known in memory; the former is written
down now and then, in a document of its own, because each version of a document is kept.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from hmac import compare_digest

import msgspec

from pilothouse.core.auth.keys import RANDOM_BYTES, digest, make_key, read_key
from pilothouse.core.auth.principals import Kind, Principal, Scope, check_name
from pilothouse.core.auth.rates import Bucket, Rate, per_minute, take
from pilothouse.core.auth.refusals import InvalidKey, TooManyRequests
from pilothouse.core.run.segments import Document
from pilothouse.engine.ports import Clock, EventStore
from pilothouse.errors import BadInput, NotFound, StoreFailed

log = logging.getLogger(__name__)

KIND = "key"
USE = "key-use"
"""When a key was last used: {"at": milliseconds}."""

NOTE_EVERY_MS = 60_000
"""How often at most it is written down that a key is used."""

DEFAULT_RATE = per_minute(1200)
_LONGEST_NAME = 100


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A key at a glance, without what it hides. ``last_used_at`` may be a minute old after a restart."""

    id: str
    name: str
    user: str
    scopes: tuple[Scope, ...]
    created_at: int
    last_used_at: int | None = None


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """What its maker is told, once: ``key`` is kept nowhere."""

    info: KeyInfo
    key: str


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    scopes: tuple[Scope, ...]
    created_at: int
    digest: str


class _Use(msgspec.Struct, frozen=True):
    at: int


class Keys:
    """Keys by id."""

    def __init__(
        self, store: EventStore, clock: Clock, random: Callable[[int], bytes], rate: Rate = DEFAULT_RATE
    ) -> None:
        """``random`` answers so many bytes that nobody can foresee; ``rate`` is each key's own."""
        self._store = store
        self._clock = clock
        self._random = random
        self._rate = rate
        self._buckets: dict[str, Bucket] = {}
        self._used: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._revoked: set[str] = set()

    async def create(self, name: str, user: str, scopes: tuple[Scope, ...]) -> NewKey:
        """A new key, by which whoever shows it is ``user``. Raises ``BadInput``."""
        if not (name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME):
            raise BadInput("is no name", field="name", fix=f"up to {_LONGEST_NAME} characters that can be printed")
        check_name(user)
        key = make_key(self._random(RANDOM_BYTES))
        now = self._clock.now_ms()
        stored = _Stored(name=name, scopes=scopes, created_at=now, digest=digest(key))
        document = _document(KIND, key.id, user, now, stored)
        await self._store.put_document(document)
        return NewKey(info=_info(document, stored, None), key=key.text)

    async def list(self, only: str | None = None) -> builtins.list[KeyInfo]:
        """Keys that were not revoked, the oldest first; with ``only`` those of one user."""
        used = {use.id: msgspec.json.decode(use.body, type=_Use).at for use in await self._store.documents(USE)}
        used |= self._used
        found = [
            _info(document, _stored(document), used.get(document.id))
            for document in await self._store.documents(KIND)
            if only in (None, document.owner)
        ]
        return sorted(found, key=lambda key: (key.created_at, key.id))

    async def revoke(self, key_id: str) -> None:
        """From here on the key opens nothing, and what it opened is closed. Raises ``NotFound``."""
        await self._find(key_id)
        await self._store.delete_document(KIND, key_id)
        self._revoked.add(key_id)
        await self._store.delete_document(USE, key_id)
        for memory in (self._buckets, self._used, self._noted):
            memory.pop(key_id, None)

    async def recognise(self, text: str) -> Principal:
        """Who shows this key; counts as a use of it. Raises ``InvalidKey``, ``TooManyRequests``."""
        key = read_key(text)
        try:
            document = await self._find(key.id)
        except NotFound:
            raise _unknown() from None
        stored = _stored(document)
        if not compare_digest(stored.digest, digest(key)):
            raise _unknown()
        self._count(key.id)
        await self._note(key.id)
        if not self.stands(key.id):  # revoked just now
            raise _unknown()
        return Principal(document.owner, Kind.KEY, frozenset(stored.scopes), key.id)

    def stands(self, key_id: str) -> bool:
        """Whether a key that was recognised has not been revoked since."""
        return key_id not in self._revoked

    async def _find(self, key_id: str) -> Document:
        try:
            return await self._store.document(KIND, key_id)
        except NotFound:
            raise NotFound(f"there is no key {key_id}") from None

    def _count(self, key_id: str) -> None:
        self._buckets[key_id], wait = take(self._buckets.get(key_id), self._rate, self._clock.now_ms())
        if wait:
            raise TooManyRequests(wait)

    async def _note(self, key_id: str) -> None:
        """Remember that it is used; write it down when that is due. That must not keep anybody out."""
        now = self._used[key_id] = self._clock.now_ms()
        if now - self._noted.get(key_id, 0) < NOTE_EVERY_MS:
            return
        self._noted[key_id] = now
        try:
            await self._store.delete_document(USE, key_id)  # with its earlier versions
            await self._store.put_document(_document(USE, key_id, "", now, _Use(at=now)))
            if not self.stands(key_id):
                await self._store.delete_document(USE, key_id)
        except StoreFailed as error:
            log.warning("key.use-not-noted", exc_info=error)


def _unknown() -> InvalidKey:
    return InvalidKey("this API key is unknown or was revoked")


def _document(kind: str, key_id: str, owner: str, now: int, body: msgspec.Struct) -> Document:
    return Document(kind=kind, id=key_id, version=0, owner=owner, updated_at=now, body=msgspec.json.encode(body))


def _stored(document: Document) -> _Stored:
    return msgspec.json.decode(document.body, type=_Stored)


def _info(document: Document, stored: _Stored, last_used_at: int | None) -> KeyInfo:
    return KeyInfo(
        id=document.id,
        name=stored.name,
        user=document.owner,
        scopes=stored.scopes,
        created_at=stored.created_at,
        last_used_at=last_used_at,
    )
