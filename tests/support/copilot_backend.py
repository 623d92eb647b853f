"""A copilot backend on the loopback: real sockets, either wire, and a script for each request.

It keeps every request it got, and can do what backends in trouble do: refuse, break off, drip, say nothing. The steps
of a script are those of the in-memory backend, so that one script plays on both; beyond them there are ``bytes`` (one
network chunk, as they are), ``Drip`` and ``Answer``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, TypeAlias

from tests.support.wires import WIRES

from pilothouse.adapters.backends.memory import Break, Delay, Hold, Reports, events_of
from pilothouse.adapters.backends.memory import Step as MemoryStep

TURN = "/api/chat-completion-streaming"
RESUME = "/api/tools/resume"
REPORT = "/api/tools/mark-complete"
ABORT = "/api/streams/explicit-abort"
STEER = "/api/streams/steer"
TITLE = "/api/generate-chat-title"
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Drip:
    """Bytes in pieces of ``size``, each on its own."""

    data: bytes
    size: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """No stream: a status and a body. Only as the first step."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Step: TypeAlias = MemoryStep | bytes | Drip | Answer


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class CopilotBackend:
    """``wire`` is ``v0`` or ``v1``. Streams are scripted in the order in which they are asked for, whatever their
    route; the last script is used again."""

    def __init__(self, wire: str = "v0") -> None:
        self.wire = wire
        self.url = ""
        self.requests: list[Received] = []
        self.left = 0
        """How many streams their client left before they were over."""
        self.streaming = 0
        self.answers: dict[str, list[Answer]] = {}
        """By route: what the next requests to it are answered with, in order, before it answers as usual."""
        self._scripts: list[Sequence[Step]] = []
        self._streams = 0
        self._released: set[str] = set()
        self._reported: set[str] = set()
        self._changed = asyncio.Event()

    def plays(self, *scripts: Sequence[Step]) -> None:
        """What the streams from now on say: one script each."""
        self._scripts, self._streams = list(scripts), 0

    def release(self, name: str = "") -> None:
        self._released.add(name)
        self._wake()

    def sent(self, path: str) -> list[Any]:
        """The bodies of the requests to a route, in order."""
        return [one.body for one in self.requests if one.path == path]

    def reported(self) -> set[str]:
        """The calls whose end it knows: it was told, and did not refuse to hear it."""
        return self._reported

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until something about it is so. Raises ``TimeoutError``."""
        async with asyncio.timeout(PATIENCE_S):
            await self._until(so)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[CopilotBackend]:
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                await self._connection(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass  # the client went, or the server ends: there is nobody to tell
            finally:
                connections.discard(task)
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            server.close()
            for task in connections:
                task.cancel()
            if connections:
                await asyncio.wait(connections)
            await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while received := await _read_request(reader):
            self.requests.append(received)
            self._wake()
            playing = asyncio.ensure_future(self._respond(received, writer))
            leaving = asyncio.ensure_future(reader.read(1))
            try:
                await asyncio.wait((playing, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not playing.done():
                    self.left += 1
                    self._wake()
                    return
                if not playing.result():
                    return
            finally:
                for one in (playing, leaving):
                    one.cancel()
                    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                        await one

    async def _respond(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can be used again."""
        if queue := self.answers.get(received.path):
            await _answer(writer, queue.pop(0))
        elif received.path == TITLE:
            await _answer(writer, Answer(200, {"title": "A loopback title"}))
        elif received.path in (REPORT, ABORT, STEER):
            if received.path == REPORT:
                self._reported.add(received.body["id"])
                self._wake()
            await _answer(writer, Answer(200, {"success": True}))
        elif not self._scripts:
            await _answer(writer, Answer(404, {"error": "no script"}))
        else:
            script = self._scripts[min(self._streams, len(self._scripts) - 1)]
            self._streams += 1
            self.streaming += 1
            self._wake()
            try:
                return await self._stream(script, writer)
            finally:
                self.streaming -= 1
                self._wake()
        return True

    async def _stream(self, script: Sequence[Step], writer: asyncio.StreamWriter) -> bool:
        if script and isinstance(script[0], Answer):
            await _answer(writer, script[0])
            return True
        wire = WIRES[self.wire]()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for step in script:
            match step:
                case Delay():
                    await asyncio.sleep(step.seconds)
                case Hold():
                    await self._until(partial(self._is_released, step.name))
                case Reports():
                    await self._until(partial(self._are_reported, step.ids))
                case Break():
                    _reset(writer)
                    return False
                case bytes():
                    await _chunk(writer, step)
                case Drip():
                    for start in range(0, len(step.data), step.size):
                        await _chunk(writer, step.data[start : start + step.size])
                case Answer():
                    raise ValueError("an answer comes first, and alone")
                case _:
                    await _chunk(writer, b"".join(map(wire.encode, events_of(step))))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _is_released(self, name: str) -> bool:
        return name in self._released

    def _are_reported(self, ids: Sequence[str]) -> bool:
        return self.reported().issuperset(ids)

    async def _until(self, so: Callable[[], bool]) -> None:
        while not so():
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    line, *fields = head.decode("latin-1").split("\r\n")
    method, path, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in fields if one)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, json.loads(body) if body else None)


async def _answer(writer: asyncio.StreamWriter, answer: Answer) -> None:
    body, kind = answer.body, "text/plain"
    if body is not None and not isinstance(body, bytes):
        body, kind = json.dumps(body).encode(), "application/json"
    headers = {"Content-Type": kind, **answer.headers, "Content-Length": str(len(body or b""))}
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break off as a dying machine does: no end of the body, no end of the connection."""
    found = writer.get_extra_info("socket")
    assert isinstance(found, socket.socket) or hasattr(found, "setsockopt")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
