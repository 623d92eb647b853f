"""A thousand clients who follow one turn, beside the same events from a bare ASGI application on a server of its kind.

Events come so far apart that none are joined. Compared is the CPU time of the serving process until the last client has
the last event, because a busy machine cannot change that; and its memory for a client that is connected and gets
nothing. The bare application sends what was encoded once to whoever is connected, and knows nothing: no log, no
resuming, no credentials, nobody who leaves.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.chat_processes import CHAT, Server, backend, bare, request, server
from benchmarks.figure import AtLeast, Below, Figure
from benchmarks.workspace import PATIENCE_S, workspace

PAUSE_S = 0.1
FLOOR = "a bare ASGI application that sends the same events"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Scale(NamedTuple):
    clients: int
    events: int
    rounds: int


class _Cost(NamedTuple):
    seconds: float
    """Of CPU time, for all events to all clients."""
    memory: float
    """Bytes per idle client."""


_SCALES: dict[Size, _Scale] = {"full": _Scale(1000, 40, 3), "quick": _Scale(1000, 20, 1), "tiny": _Scale(5, 2, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    ours, floor = list[_Cost](), list[_Cost]()
    with _many_files(2 * scale.clients + 1000):
        for _ in range(scale.rounds):
            with workspace() as folder:
                ours.append(_ours(folder, scale))
            floor.append(_bare(scale))
    name = f"sse-fanout: {scale.clients} clients, {scale.events} events, CPU time"
    yield Figure(name, [one.seconds for one in ours], [one.seconds for one in floor], FLOOR, AtLeast(0.5))
    mine, theirs = [one.memory for one in ours], [one.memory for one in floor]
    yield Figure("sse-fanout: memory of an idle client", mine, theirs, FLOOR, Below(64 << 10), unit="B")


def _ours(folder: Path, scale: _Scale) -> _Cost:
    with backend(scale.events, PAUSE_S, held=True) as source, server(folder / "data", source.port) as chat:
        stream = asyncio.run(_begun(chat))
        return asyncio.run(_follow(chat, f"{CHAT}/stream?streamId={stream}", source.pid, scale))


def _bare(scale: _Scale) -> _Cost:
    with bare(scale.events, PAUSE_S) as source:
        return asyncio.run(_follow(source, "/", source.pid, scale))


async def _begun(chat: Server) -> str:
    """The stream of a turn that waits for its backend."""
    reader, writer = await asyncio.open_connection("127.0.0.1", chat.port)
    writer.write(request(chat, "POST", CHAT, msgspec.json.encode({"message": "Tell me the time"})))
    async with asyncio.timeout(PATIENCE_S):
        found = await reader.readuntil(b'"streamId":"')
        found = await reader.readuntil(b'"')
    writer.close()
    return found[:-1].decode()


async def _follow(to: Server, path: str, source: int, scale: _Scale) -> _Cost:
    async with _connected(to, path, 10):  # whatever is made for the first client is there
        before = _memory(to.pid)
        async with _connected(to, path, scale.clients) as clients:
            idle = max(_PAGE, _memory(to.pid) - before) / scale.clients
            began = _cpu(to.pid)
            os.kill(source, signal.SIGUSR1)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(_all_of(client, scale.events) for client in clients))
            return _Cost(_cpu(to.pid) - began, idle)


@asynccontextmanager
async def _connected(to: Server, path: str, clients: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Clients who have the beginning of their stream, and wait for more."""
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(clients):
                reader, writer = await asyncio.open_connection("127.0.0.1", to.port, limit=1 << 14)
                writer.write(request(to, "GET", path))
                writers.append(writer)
                readers.append(reader)
                await reader.readuntil(b": connected")
        await asyncio.sleep(0.5)  # what was there before goes out
        yield readers
    finally:
        for writer in writers:
            writer.close()


async def _all_of(client: asyncio.StreamReader, events: int) -> None:
    """Until the last event: the last word of the stream comes after all."""
    for _ in range(events):
        await client.readuntil(b">")
    await client.readuntil(b'"done"')


def _cpu(pid: int) -> float:
    """Of all its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE


@contextmanager
def _many_files(number: int) -> Iterator[None]:
    """For this process and the ones it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(number, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
