"""As much of HTTP/1.1 as model clients speak: requests with a body, answers whole or streamed, connections kept alive.

A server of our own because tests need what frameworks forbid: resetting a connection in the middle of an answer, and
knowing that a client has left while its answer is held back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from tests.support.models.asked import Json

_PHRASES = {status.value: status.phrase for status in HTTPStatus}

MAX_HEAD = 64 * 1024


class ClientGone(Exception):
    """The client closed its connection before it had its whole answer."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """The next request of a connection; None when the client has none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Request(method, path, headers, await _read_chunks(reader))
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass  # trailers say nothing of use here
    return body


class Reply:
    """The answer to one request."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._request = request
        self._reader = reader
        self._writer = writer
        self.status: int | None = None
        """Once the answer has begun."""

    async def send_json(self, body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        payload = json.dumps(body).encode()
        self._begin(
            status, {"content-type": "application/json", "content-length": str(len(payload)), **(headers or {})}
        )
        await self._write(b"" if self._request.method == "HEAD" else payload)

    async def send_event(self, event: bytes) -> None:
        if self.status is None:
            streamed = {
                "content-type": "text/event-stream",
                "cache-control": "no-cache",
                "transfer-encoding": "chunked",
            }
            self._begin(200, streamed)
        await self._write(b"%x\r\n%s\r\n" % (len(event), event))

    async def end_events(self) -> None:
        await self._write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Cut the connection, losing what was not sent yet."""
        self._writer.transport.abort()

    async def while_connected(self, waiting: Coroutine[None, None, object]) -> None:
        """Wait, but no longer than the client does. Raises ClientGone when it leaves."""
        staying = asyncio.ensure_future(waiting)
        leaving = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait((staying, leaving), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                raise ClientGone
        finally:
            staying.cancel()
            leaving.cancel()
            await asyncio.wait((staying, leaving))

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        lines = [
            f"HTTP/1.1 {status} {_PHRASES.get(status, 'Scripted')}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise ClientGone from error
