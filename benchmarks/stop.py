"""How soon a stop is acknowledged, and how soon nothing is left alive, with a hundred runs alive.

*Acknowledged* is the return of the request: the gate is closed and the log says so. *Stopped* is STOPPED in the log,
which is written only when no process of the run is left. From trees that ignore the polite signal the time they are
given (the grace) is taken off, on both sides. The floor is what the system can do: SIGTERM, after the grace SIGKILL, to
the process group of a bare child, and its end collected; what has left the group it does not reach.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import Figure, Within
from benchmarks.workspace import PATIENCE_S, engine, make_repository, submit, workspace
from pilothouse.core.plan.events import LogAppended
from pilothouse.core.plan.spec import JobSpec, ShellSpec
from pilothouse.core.run.commands import Command
from pilothouse.core.run.events import Event, StopAcknowledged, Stopped
from pilothouse.engine.services import Services

GRACE_S = Command(argv=("true",), cwd="/", output="none").grace_ms / 1000
FLOOR = "signals to the process group of a bare child"


class _Tree(NamedTuple):
    """A command that prints a byte per process once that has come as far as it will, and then goes on for ever."""

    name: str
    command: str
    ready: int
    grace: float


_DEAF = "trap '' TERM; printf .; exec sleep 1000"
_TREES = (
    _Tree("polite", "printf .; exec sleep 1000", 1, 0.0),
    _Tree("stubborn", f'setsid sh -c "{_DEAF}" & sh -c "{_DEAF}" & {_DEAF}', 3, GRACE_S),
)


class _Scale(NamedTuple):
    together: int
    """Runs stopped all at once."""
    alone: int
    """Runs stopped one by one before that, while all the others are alive."""


class _Times(NamedTuple):
    """Seconds since the request."""

    acknowledged: list[float]
    stopped: list[float]


_SCALES: dict[Size, _Scale] = {"full": _Scale(100, 50), "quick": _Scale(20, 10), "tiny": _Scale(2, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    for tree in _TREES:
        with workspace() as folder:
            alone, together, bare_alone, bare_together = asyncio.run(_measure(folder, tree, scale))
        beyond = ", beyond the grace" if tree.grace else ""
        for name, ours, bare in (
            (f"one of {scale.together} {tree.name} runs", alone, bare_alone),
            (f"all of {scale.together} {tree.name} runs", together, bare_together),
        ):
            acknowledged, stopped = Within(0.99, 0.010), Within(0.99, 0.100)
            yield Figure(f"stop {name}: acknowledged", ours.acknowledged, bare.acknowledged, FLOOR, acknowledged)
            yield Figure(f"stop {name}: stopped{beyond}", ours.stopped, bare.stopped, FLOOR, stopped)


async def _measure(folder: Path, tree: _Tree, scale: _Scale) -> tuple[_Times, _Times, _Times, _Times]:
    total = scale.together + scale.alone
    repo = make_repository(folder / "repository", files=10)
    async with engine(folder / "data", slots=total) as services:
        runs = [await _begin(services, repo, tree, number) for number in range(total)]
        alone, bare_alone = _Times([], []), _Times([], [])
        for run_id in runs[: scale.alone]:
            _add(alone, await _stop_one(services, run_id, tree))
            _add(bare_alone, await asyncio.to_thread(_end_bare, tree, 1))
        together = await _stop_all(services, runs[scale.alone :], tree)
        return alone, together, bare_alone, await asyncio.to_thread(_end_bare, tree, scale.together)


def _add(all_of: _Times, found: _Times) -> None:
    all_of.acknowledged.extend(found.acknowledged)
    all_of.stopped.extend(found.stopped)


async def _begin(services: Services, repo: Path, tree: _Tree, number: int) -> str:
    """A run whose command has begun."""
    job = JobSpec(producer_id="long", name="long", task="Go on", work=ShellSpec(command=tree.command))
    run_id = await submit(services, repo, f"stop {number}", [job])
    await asyncio.wait_for(
        _seen(services, run_id, lambda event: isinstance(event, LogAppended) and event.end >= tree.ready), PATIENCE_S
    )
    return run_id


async def _stop_one(services: Services, run_id: str, tree: _Tree) -> _Times:
    return await _stop(services, [run_id], services.runs.control(run_id, "stop"), tree)


async def _stop_all(services: Services, run_ids: list[str], tree: _Tree) -> _Times:
    return await _stop(services, run_ids, services.runs.stop_everything(), tree)


async def _stop(services: Services, run_ids: list[str], request: Coroutine[Any, Any, object], tree: _Tree) -> _Times:
    watching = [
        asyncio.create_task(_seen(services, run_id, partial(_is_a, kind)))
        for kind in (StopAcknowledged, Stopped)
        for run_id in run_ids
    ]
    await asyncio.sleep(0.05)  # the followers have read what was there
    began = time.perf_counter()
    await request
    seen = [at - began for at in await asyncio.wait_for(asyncio.gather(*watching), PATIENCE_S)]
    while services.supervisor.live.keys() & set(run_ids):
        await asyncio.sleep(0.01)  # what is saved and removed after a stop belongs to no figure
    return _Times(seen[: len(run_ids)], [at - tree.grace for at in seen[len(run_ids) :]])


async def _seen(services: Services, run_id: str, met: Callable[[Event], bool]) -> float:
    """When the first such event of a run was published."""
    async for batch in services.supervisor.hub.follow(run_id):
        if any(met(recorded.event) for recorded in batch.recorded):
            return time.perf_counter()
    raise AssertionError("a stream of events has no end of its own")


def _is_a(kind: type[Event], event: Event) -> bool:
    return isinstance(event, kind)


@contextmanager
def _bare_children(tree: _Tree, number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The same commands as children of this process, each in a group of its own. None of them leaves its
    group, where the floor could not reach it."""
    command = tree.command.replace("setsid sh", "sh")
    children = [
        subprocess.Popen(["sh", "-c", command], start_new_session=True, stdout=subprocess.PIPE) for _ in range(number)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.read(tree.ready)
        yield children
    finally:
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def _end_bare(tree: _Tree, number: int) -> _Times:
    with _bare_children(tree, number) as children:
        return _end(children, tree)


def _end(children: list[subprocess.Popen[bytes]], tree: _Tree) -> _Times:
    began = time.perf_counter()
    signalled = []
    for child in children:
        os.killpg(child.pid, signal.SIGTERM)
        signalled.append(time.perf_counter() - began)
    if tree.grace:
        time.sleep(tree.grace)
        for child in children:
            os.killpg(child.pid, signal.SIGKILL)
    ended = []
    for child in children:
        child.wait()
        ended.append(time.perf_counter() - began - tree.grace)
    return _Times(signalled, ended)
