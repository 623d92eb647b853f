"""Helpers of the tests that run real processes: a bounded loop, and finding processes by a marker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.core.run.commands import Command, Exit, Grew

WAIT = 20.0


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT * 2):
            await test()

    asyncio.run(bounded())


def shell(script: str, output: str = "o", **options: object) -> Command:
    fields: dict[str, object] = {"cwd": "/", "env": {"PATH": os.environ["PATH"]}, "grace_ms": 50} | options
    return Command(argv=("sh", "-c", script), output=output, **fields)  # type: ignore[arg-type] # test shorthand


async def follow(executor: LocalExecutor, key: str) -> Exit:
    async for event in executor.attach(key):
        if isinstance(event, Exit):
            return event
    raise AssertionError("no exit")


async def until_output(executor: LocalExecutor, key: str, size: int = 1) -> None:
    """Wait until a command has written ``size`` bytes."""
    async for event in executor.attach(key):
        assert isinstance(event, Grew), event
        if event.to >= size:
            return


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody announces."""
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


def alive(marker: str) -> list[int]:
    """The living processes that show ``marker`` on their command line. (An environment can be dropped.)"""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                shown = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in shown and state not in "ZX":
                found.append(int(entry.name))
    return found


def exists(pid: int) -> bool:
    """Whether ``pid`` lives, a zombie not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
