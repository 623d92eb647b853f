"""From the end of a node's last phase to the beginning of its dependent's first one.

In between lie the decision, one commit of the log that is on disk before anything follows from it, and a few turns
of the event loop. The floor is that commit alone: the same number of bytes into a SQLite file, synced.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import Figure, Within
from benchmarks.probe import watched_phases
from benchmarks.workspace import PATIENCE_S, ended, engine, make_repository, submit, workspace
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import JobSpec, ShellSpec

_NODES: dict[Size, int] = {"full": 100, "quick": 30, "tiny": 3}
_SEGMENT = b"x" * 1500
"""About what the events of a hand-over take."""


def measure(size: Size) -> Iterator[Shown]:
    with workspace() as folder:
        ours, floor = asyncio.run(_measure(folder, _NODES[size]))
    yield Figure(
        "dependency done → dependent's first phase begins",
        ours,
        floor,
        "one synced SQLite commit",
        Within(0.5, 0.005),
        note="a chain of nodes; from the return of one node's last effect to the call of the next one's first",
    )


async def _measure(folder: Path, nodes: int) -> tuple[list[float], list[float]]:
    repo = make_repository(folder / "repository", files=10)
    jobs = [
        JobSpec(
            producer_id=f"n{number}",
            name=f"n{number}",
            task="Pass on",
            work=ShellSpec(command="true"),
            expects_no_changes=True,
            dependencies=(f"n{number - 1}",) if number else (),
        )
        for number in range(nodes)
    ]
    floor: list[float] = []
    connection = _floor_log(folder / "floor.db")
    with watched_phases() as spans:
        async with engine(folder / "data") as services:
            run_id = await submit(services, repo, "chain", jobs)
            running = asyncio.create_task(ended(services, run_id))
            while not running.done():  # side by side, so that both meet the same machine
                floor.append(await asyncio.to_thread(_commit, connection))
                await asyncio.wait({running}, timeout=0.05)
            assert await asyncio.wait_for(running, PATIENCE_S) == "RUN_FINISHED"
    connection.close()
    dones = [span.ended for span in spans if span.effect.phase is Phase.COMMIT]
    starts = [span.began for span in spans if span.effect.phase is Phase.SETUP]
    return [start - done for done, start in zip(dones, starts[1:], strict=False)], floor


def _floor_log(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE log (body BLOB)")
    return connection


def _commit(connection: sqlite3.Connection) -> float:
    began = time.perf_counter()
    connection.execute("INSERT INTO log VALUES (?)", (_SEGMENT,))
    return time.perf_counter() - began
