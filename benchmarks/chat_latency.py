"""How much later a client sees an event than the backend sent it, events arriving one by one, over real sockets.

Three processes, as people run them: a backend that writes an event with the time in it, every few milliseconds; the
server; and a client that notes when it reads each. The floor is the same client connected to the backend itself. Both
clocks are this machine's monotonic one.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import Figure, Within
from benchmarks.workspace import PATIENCE_S, pilothouse, workspace

PAUSE_S = 0.005
FLOOR = "the same client connected to the backend itself"
_TURN = "/api/chat-completion-streaming"
_CHAT = "/api/copilot/chat"
_SENT = re.compile(rb"<(\d+)>")


class _Scale(NamedTuple):
    events: int
    rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(400, 6), "quick": _Scale(200, 3), "tiny": _Scale(5, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    with workspace() as folder, _backend(scale.events) as backend, _server(folder / "data", backend) as (port, key):
        ours, floor = list[float](), list[float]()
        for number in range(scale.rounds + 1):
            through, direct = asyncio.run(_both(port, key, backend, turned=bool(number % 2)))
            if number:
                ours += through
                floor += direct
    for share, seconds in ((0.5, 0.002), (0.99, 0.010)):
        name = f"chat-latency: an event from backend to client, p{share * 100:g}"
        added = [max(0.0, one - bare) for one, bare in zip(sorted(ours), sorted(floor), strict=True)]
        yield Figure(name, added, floor, FLOOR, Within(share, seconds), "ours: beyond the floor, quantile by quantile")


async def _both(port: int, key: str, backend: int, *, turned: bool) -> tuple[list[float], list[float]]:
    message = msgspec.json.encode({"message": "Tell me the time"})
    body = msgspec.json.encode({"message": "x", "workflowId": "", "userId": "u", "model": "", "messageId": "m"})
    sides = [(port, _CHAT, key, message), (backend, _TURN, "", body)]
    found = {side[0]: await _latencies(*side) for side in (sides[::-1] if turned else sides)}
    return found[port], found[backend]


async def _latencies(port: int, path: str, key: str, body: bytes) -> list[float]:
    """Seconds from the writing of each event to its reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    auth = f"X-API-Key: {key}\r\n" if key else ""
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{auth}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    found: list[float] = []
    rest = b""
    async with asyncio.timeout(PATIENCE_S):
        while data := await reader.read(1 << 16):
            now = time.perf_counter_ns()
            rest += data
            for sent in _SENT.finditer(rest):
                found.append((now - int(sent[1])) / 1e9)
            rest = rest[rest.rfind(b"\n") + 1 :]
            if b'"type":"done"' in data:
                break
    writer.close()
    await writer.wait_closed()
    if not found:
        raise AssertionError(f"nothing was streamed: {rest[:300]!r}")
    return found


@contextmanager
def _backend(events: int) -> Iterator[int]:
    with _process([sys.executable, "-m", __name__, str(events)]) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())


@contextmanager
def _server(data_dir: Path, backend: int) -> Iterator[tuple[int, str]]:
    """Its port, and a key for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = {
        "PILOTHOUSE_DATA_DIR": str(data_dir),
        "PILOTHOUSE_LOG_LEVEL": "WARNING",
        "PILOTHOUSE_BACKEND": "remote",
        "PILOTHOUSE_BACKEND_URL": f"http://127.0.0.1:{backend}",
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
        yield port, msgspec.json.decode(made.stdout)["key"]


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


async def _serve(events: int) -> None:
    """The backend: whatever it is asked, it tells the time."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(length[1]) if length else 0)
        if _TURN.encode() not in head:
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{"title":"Time"}')
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for _ in range(events):
            await asyncio.sleep(PAUSE_S)
            writer.write(b'data: {"type":"content","data":"<%d>"}\n\n' % time.perf_counter_ns())
            await writer.drain()
        writer.write(b'data: {"type":"done","data":{"responseId":"r1"}}\n\n')
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.close)
    print(server.sockets[0].getsockname()[1], flush=True)
    try:
        await server.serve_forever()
    except asyncio.CancelledError:
        pass  # it was asked to end


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
