"""Server-sent events: how a stream is written, kept alive, and ended.

A writer fetches what there is and sends it in as few writes as possible; while a slow client takes its time nothing is
queued for it, and a gone one is noticed at once. What is sent is the business of ``streams``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilothouse.errors import Gone, PilothouseError

log = logging.getLogger(__name__)

KEEPALIVE_S = 15.0
CONNECTED = b": connected\n\n"
KEEPALIVE = b": keepalive\n\n"

_WRITE = 64 << 10
"""Bytes of one write, about: more would only lie in this process' buffers."""

_SHARES = 16
"""After so many writes others have their turn, however much of a stream is there already."""


class OpenStreams:
    """The streams of a server, so that all can be ended when it stops. Otherwise they would keep it from stopping."""

    def __init__(self) -> None:
        self._writers: set[asyncio.Task[None]] = set()
        self._ended = False

    def end(self) -> None:
        """End every stream properly, and any that is opened after this at once."""
        self._ended = True
        for writer in self._writers:
            writer.cancel()

    @contextmanager
    def including(self, writer: asyncio.Task[None]) -> Iterator[None]:
        self._writers.add(writer)
        if self._ended:
            writer.cancel()
        try:
            yield
        finally:
            self._writers.discard(writer)


_UNTRACKED = OpenStreams()
"""For applications that no server of ours serves."""


class EventStream(Response):
    """A stream of events; ``chunks`` are bytes in the wire format."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        self.status_code = 200
        self.background = None
        self._chunks = chunks
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.get("state", {})
        streams: OpenStreams = state.get("streams", _UNTRACKED)
        stands: Callable[[], bool] = state.get("stands", _always)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._write(send, stands))
            leaver = group.create_task(_until_gone(receive))
            writer.add_done_callback(lambda _: leaver.cancel())
            leaver.add_done_callback(lambda _: writer.cancel())
            with streams.including(writer):
                await asyncio.wait((writer,))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send, stands: Callable[[], bool]) -> None:
        try:
            written = 0
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    if not stands():  # what let the client in was revoked meanwhile
                        return
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    written += 1
                    if written % _SHARES == 0:
                        await asyncio.sleep(0)
        except Gone:
            pass  # who comes back for more is told
        except PilothouseError as error:
            log.error("stream.broken", exc_info=error)


def _always() -> bool:
    return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(data: bytes, id: str | int | None = None, event: str = "") -> bytes:
    """One event. ``data`` is one line."""
    head = (f"event: {event}\n" if event else "") + (f"id: {id}\n" if id is not None else "")
    return b"%bdata: %b\n\n" % (head.encode("ascii"), data)


def writes(frames: list[bytes]) -> Iterable[bytes]:
    """What is to be sent, joined into few writes; what comes in one piece is not taken apart."""
    return frames if len(frames) < 2 else _joined(frames)


def _joined(frames: list[bytes]) -> Iterator[bytes]:
    joined: list[bytes] = []
    size = 0
    for each in frames:
        joined.append(each)
        size += len(each)
        if size >= _WRITE:
            yield b"".join(joined)
            joined, size = [], 0
    if joined:
        yield b"".join(joined)
