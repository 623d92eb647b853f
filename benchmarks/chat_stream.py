"""How fast a turn takes in what a backend streams, beside the least that does the same.

Ours is a whole engine over the store on disk: a backend's chunks are decoded, decided, logged and folded, and a reader
gets the chat document's events as bytes. The floor reads the same chunks with msgspec, inserts one row per chunk into
SQLite and writes the same text as server-sent events; it knows one kind of event and forgets everything. No sockets on
either side: those are ``chat_latency``'s.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import AtLeast, Figure, in_turns_async
from benchmarks.workspace import engine, workspace
from pilothouse.adapters.backends.memory import MemoryBackend
from pilothouse.core.auth.principals import THE_LOCAL_USER
from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.chat.wire import WireReader
from pilothouse.engine.chats.chats import Send
from pilothouse.engine.services import Services
from pilothouse.interfaces.http.chat_streams import turn_stream

CHUNK = 64 << 10
FLOOR = "msgspec, one SQLite insert per chunk, and the same text as server-sent events"
_WORDS = ("the ", "answer", " to ", "everything", ", ", "as far as ", "anybody", " knows", ".\n", "naïve ", "✓ ")
_KEEPALIVE_S = 60.0


class _Scale(NamedTuple):
    events: int
    rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(200_000, 7), "quick": _Scale(200_000, 3), "tiny": _Scale(500, 1)}


class Replay(MemoryBackend):
    """Says what chunks of the untyped wire say."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        super().__init__()
        self._chunks = chunks

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        reader = WireReader()
        for chunk in self._chunks:
            yield reader.feed(chunk)


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    chunks = content(scale.events)
    with workspace() as folder:
        mine, bare = asyncio.run(_measure(folder, scale, chunks))
    yield Figure(f"chat-stream: {scale.events} content events, a whole turn", mine, bare, FLOOR, AtLeast(0.5))


async def _measure(folder: Path, scale: _Scale, chunks: Sequence[bytes]) -> list[list[float]]:
    async with replaying(folder / "data", chunks) as services:
        return await in_turns_async(
            scale.rounds,
            partial(_ours, services),
            partial(asyncio.to_thread, _floor, folder / "floor.db", chunks),
        )


def content(events: int) -> list[bytes]:
    """A stream of so many content events and a last word, as a network brings it when it is fast."""
    encode = msgspec.json.encode
    told: list[dict[str, Any]] = [
        *({"type": "content", "data": _WORDS[number % len(_WORDS)]} for number in range(events)),
        {"type": "done", "data": {"responseId": "r1"}},
    ]
    stream = b"".join(b"data: %b\n\n" % encode(one) for one in told)
    return [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]


@asynccontextmanager
async def replaying(data_dir: Path, chunks: Sequence[bytes]) -> AsyncIterator[Services]:
    """A whole engine whose backend says the same in every turn."""

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[Replay]:
        yield Replay(chunks)

    with patch("pilothouse.adapters.backends.opening.open_backend", opened):
        async with engine(data_dir) as services:
            yield services


async def _ours(services: Services) -> float:
    began = time.perf_counter()
    sent = await services.chats.send(Send(message="Tell me everything"), THE_LOCAL_USER)
    size = 0
    async for part in turn_stream(services.queries, sent.turn_id, 0, _KEEPALIVE_S):
        size += len(part)
    took = time.perf_counter() - began
    result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER)
    assert result.success, result.error
    assert size > len(result.content)
    return took


class _Event(msgspec.Struct):
    type: str
    data: Any = None


def _floor(path: Path, chunks: Sequence[bytes]) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY, body BLOB)")
    decode, encode = msgspec.json.Decoder(_Event).decode, msgspec.json.Encoder().encode
    began = time.perf_counter()
    rest = b""
    size = 0
    for number, chunk in enumerate(chunks):
        *blocks, rest = (rest + chunk).split(b"\n\n")
        found = [decode(block[6:]) for block in blocks]
        text = "".join([event.data for event in found if event.type == "content"])
        body = encode({"type": "content", "data": text, "eventId": number, "streamId": "stream"})
        connection.execute("INSERT INTO log (body) VALUES (?)", (body,))
        size += len(b"id: %d\ndata: %b\n\n" % (number, body))
    took = time.perf_counter() - began
    connection.close()
    assert size
    return took
