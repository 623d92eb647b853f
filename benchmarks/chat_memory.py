"""What a turn costs in memory while it goes on, and what is left of it afterwards.

Many turns stream the same answer and then wait; counted is what Python has allocated since before they were sent. The
floor is the answer itself, as one text in a task that waits: less a program that shows it cannot hold.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import Figure, Reported
from benchmarks.workspace import PATIENCE_S, engine, workspace
from pilothouse.adapters.backends.memory import Hold, MemoryBackend, Step
from pilothouse.core.auth.principals import THE_LOCAL_USER
from pilothouse.core.chat.backend import Completed, Said
from pilothouse.engine.chats.chats import Send
from pilothouse.engine.services import Services

_PIECE = "A piece of an answer, as it comes with one chunk of the network.\n" * 8
_PIECES = 64
FLOOR = f"its answer ({len(_PIECE) * _PIECES // 1024} KiB) and a task that waits"


class _Scale(NamedTuple):
    turns: int
    rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(500, 3), "quick": _Scale(200, 2), "tiny": _Scale(3, 1)}


class _Held(MemoryBackend):
    """Says everything, and goes on when it is told to. What it was asked is not kept: that is no turn's."""

    def __init__(self) -> None:
        steps: Sequence[Step] = [*(Said(_PIECE) for _ in range(_PIECES)), Hold(), Completed()]
        super().__init__(steps)

    def again(self) -> None:
        self.requests.clear()
        self._released.clear()


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    with workspace() as folder:
        live, after, bare = asyncio.run(_measure(folder, scale))
    yield Figure("chat-stream: memory of a live turn", live, bare, FLOOR, Reported(), unit="B")
    yield Figure("chat-stream: memory left after a turn", after, bare, FLOOR, Reported(), unit="B")


async def _measure(folder: Path, scale: _Scale) -> tuple[list[float], list[float], list[float]]:
    backend = _Held()

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[_Held]:
        yield backend

    live, after, bare = list[float](), list[float](), list[float]()
    with patch("pilothouse.adapters.backends.opening.open_backend", opened):
        async with engine(folder / "data") as services:
            for number in range(scale.rounds + 1):
                tracemalloc.start()
                before = _allocated()
                sent = [
                    await services.chats.send(Send(message="Tell me", timeout_ms=3_600_000), THE_LOCAL_USER)
                    for _ in range(scale.turns)
                ]
                async with asyncio.timeout(PATIENCE_S):
                    for one in sent:
                        await _has_said_all(services, one.turn_id)
                    there = _allocated() - before
                    backend.release()
                    for one in sent:
                        await services.chats.wait(one.turn_id, THE_LOCAL_USER)
                    while services.supervisor.live:
                        await asyncio.sleep(0.01)
                backend.again()
                left = _allocated() - before
                tracemalloc.stop()
                if number:
                    live.append(there / scale.turns)
                    after.append(max(0, left) / scale.turns)
                    bare.append(await _floor(scale.turns) / scale.turns)
    return live, after, bare


async def _has_said_all(services: Services, turn_id: str) -> None:
    while len((await services.chats.result(turn_id, THE_LOCAL_USER)).content) < len(_PIECE) * _PIECES:
        await asyncio.sleep(0.01)


async def _floor(turns: int) -> float:
    tracemalloc.start()
    before = _allocated()
    go = asyncio.Event()

    async def hold(text: str) -> int:
        await go.wait()
        return len(text)

    waiting = [asyncio.create_task(hold("".join([_PIECE] * _PIECES))) for _ in range(turns)]
    await asyncio.sleep(0)
    found = _allocated() - before
    go.set()
    await asyncio.gather(*waiting)
    tracemalloc.stop()
    return found


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
