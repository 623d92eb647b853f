"""How much later a client sees an event than the backend sent it, events arriving one by one, over real sockets.

Three processes, as people run them: a backend that writes an event with the time in it, every few milliseconds; the
server; and a client that notes when it reads each. The floor is the same client connected to the backend itself. Both
clocks are this machine's monotonic one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.chat_processes import CHAT, TURN, Server, backend, request, server
from benchmarks.figure import Figure, Within
from benchmarks.workspace import PATIENCE_S, workspace

PAUSE_S = 0.005
FLOOR = "the same client connected to the backend itself"
_SENT = re.compile(rb"<(\d+)>")


class _Scale(NamedTuple):
    events: int
    rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(400, 6), "quick": _Scale(200, 3), "tiny": _Scale(5, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    ours, floor = list[float](), list[float]()
    with workspace() as folder, backend(scale.events, PAUSE_S) as source, server(folder / "data", source.port) as chat:
        for number in range(scale.rounds + 1):
            through, direct = asyncio.run(_both(chat, source, turned=bool(number % 2)))
            if number:
                ours += through
                floor += direct
    for share, seconds in ((0.5, 0.002), (0.99, 0.010)):
        name = f"chat-latency: an event from backend to client, p{share * 100:g}"
        added = [max(0.0, one - bare) for one, bare in zip(sorted(ours), sorted(floor), strict=True)]
        yield Figure(name, added, floor, FLOOR, Within(share, seconds), "ours: beyond the floor, quantile by quantile")


async def _both(chat: Server, source: Server, *, turned: bool) -> tuple[list[float], list[float]]:
    sides = [(chat, CHAT), (source, TURN)]
    found = {to.port: await _latencies(to, path) for to, path in (sides[::-1] if turned else sides)}
    return found[chat.port], found[source.port]


async def _latencies(to: Server, path: str) -> list[float]:
    """Seconds from the writing of each event to its reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", to.port)
    writer.write(request(to, "POST", path, msgspec.json.encode({"message": "Tell me the time"})))
    found: list[float] = []
    rest = b""
    async with asyncio.timeout(PATIENCE_S):
        while data := await reader.read(1 << 16):
            now = time.perf_counter_ns()
            rest += data
            found += [(now - int(sent[1])) / 1e9 for sent in _SENT.finditer(rest)]
            rest = rest[rest.rfind(b"\n") + 1 :]
            if b'"type":"done"' in data:
                break
    writer.close()
    await writer.wait_closed()
    if not found:
        raise AssertionError(f"nothing was streamed: {rest[:300]!r}")
    return found
