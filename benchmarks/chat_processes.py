"""The processes that conversations are measured with: a backend, a server, and a bare application in its place.

``python -m benchmarks.chat_processes backend EVENTS PAUSE`` and ``… bare EVENTS PAUSE`` print their port. Both tell the
time of each event in it. With a ``held`` they begin at SIGUSR1.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.workspace import PATIENCE_S, pilothouse

TURN = "/api/chat-completion-streaming"
CHAT = "/api/copilot/chat"


class Server(NamedTuple):
    port: int
    pid: int
    key: str


@contextmanager
def backend(events: int, pause: float, *, held: bool = False) -> Iterator[Server]:
    """A copilot backend that says so many events, ``pause`` seconds apart, to whoever asks."""
    with _told("backend", events, pause, held) as found:
        yield found


@contextmanager
def bare(events: int, pause: float) -> Iterator[Server]:
    """A bare ASGI application that says the same to all who are connected when SIGUSR1 comes."""
    with _told("bare", events, pause, True) as found:
        yield found


@contextmanager
def server(data_dir: Path, backend_port: int) -> Iterator[Server]:
    """``pilothouse serve`` with that backend."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = {
        "PILOTHOUSE_DATA_DIR": str(data_dir),
        "PILOTHOUSE_LOG_LEVEL": "WARNING",
        "PILOTHOUSE_KEY_RATE": "1000000",
        "PILOTHOUSE_BACKEND": "remote",
        "PILOTHOUSE_BACKEND_URL": f"http://127.0.0.1:{backend_port}",
    }
    with _process([*pilothouse(), "serve", "--port", str(port), "--no-open"], given) as child:
        assert child.stdout is not None
        child.stdout.readline()  # the URL: it serves
        made = subprocess.run(
            [*pilothouse(), "keys", "create", "--name", "bench", "--scope", "run", "--json"],
            env={**os.environ, **given},
            capture_output=True,
            check=True,
        )
        yield Server(port, child.pid, msgspec.json.decode(made.stdout)["key"])


def request(to: Server, method: str, path: str, body: bytes = b"") -> bytes:
    """A request as bytes; the connection is closed behind its answer."""
    key = f"X-API-Key: {to.key}\r\n" if to.key else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{to.port}\r\n{key}Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


@contextmanager
def _told(what: str, events: int, pause: float, held: bool) -> Iterator[Server]:
    with _process(
        [sys.executable, "-m", __name__, what, str(events), str(pause), *(["held"] if held else [])]
    ) as child:
        assert child.stdout is not None
        yield Server(int(child.stdout.readline()), child.pid, "")
        child.kill()  # it has nothing to put away


@contextmanager
def _process(argv: list[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(argv, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(PATIENCE_S)
        assert child.stdout is not None
        child.stdout.close()


# What runs in those processes.


async def _events(events: int, pause: float, begin: asyncio.Event, write: Callable[[bytes], Awaitable[None]]) -> None:
    await begin.wait()
    for _ in range(events):
        await asyncio.sleep(pause)
        await write(b'data: {"type":"content","data":"<%d>"}\n\n' % time.perf_counter_ns())
    await write(b'data: {"type":"done","data":{"responseId":"r1"}}\n\n')


async def _be_backend(events: int, pause: float, begin: asyncio.Event) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(length[1]) if length else 0)
        if TURN.encode() in head:
            await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            await _events(events, pause, begin, write)
        else:
            await write(b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\n{"title":"Time"}')
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


async def _be_bare(events: int, pause: float, begin: asyncio.Event) -> None:
    import uvicorn  # noqa: PLC0415, for this process alone

    said: list[bytes] = []
    bells: list[asyncio.Event] = []

    async def write(data: bytes) -> None:
        said.append(b"id: %d\n%b" % (len(said), data))
        for bell in bells:
            bell.set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b": connected\n\n", "more_body": True})
        bell, sent = asyncio.Event(), 0
        bells.append(bell)
        while not said or b"done" not in said[-1] or sent < len(said):
            await bell.wait()
            bell.clear()
            found, sent = b"".join(said[sent:]), len(said)
            await send({"type": "http.response.body", "body": found, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    telling = asyncio.ensure_future(_events(events, pause, begin, write))
    config = uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        print(listening.getsockname()[1], flush=True)
        await uvicorn.Server(config).serve([listening])
    telling.cancel()


def _main(what: str, events: str, pause: str, *held: str) -> None:
    async def main() -> None:
        begin = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, begin.set)
        if not held:
            begin.set()
        await {"backend": _be_backend, "bare": _be_bare}[what](int(events), float(pause), begin)

    import uvloop  # noqa: PLC0415, as the server does

    uvloop.run(main())


if __name__ == "__main__":
    _main(*sys.argv[1:])
