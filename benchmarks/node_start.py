"""How soon a node's command begins in a large repository: beside ``git worktree add``, which is most of it.

Measured from the beginning of an attempt's first phase to that of its command, so the commit of the log in between is
part of it. This is the cold start: the pool of worktrees made ahead of time is not built. What makes it faster than the
floor is git's own parallel checkout, so the same command with that is shown too.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import AtMost, Figure, Reported, Skipped, in_turns_async
from benchmarks.probe import watched_phases
from benchmarks.workspace import PATIENCE_S, ended, engine, git, make_repository, submit, workspace
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import JobSpec, ShellSpec


class _Scale(NamedTuple):
    files: int
    rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(20_000, 7), "quick": _Scale(20_000, 3), "tiny": _Scale(200, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    with workspace() as folder:
        ours, floor, parallel = asyncio.run(_measure(folder, scale))
    name = f"start of a node in a repository of {scale.files} files"
    yield Figure(f"{name}, cold", ours, floor, "git worktree add", AtMost(0.5))
    yield Figure(f"{name}, cold", ours, parallel, "git worktree add, checkout.workers=0", Reported())
    yield Skipped(f"{name}, warm", "the pool of worktrees made ahead of time is not built")


async def _measure(folder: Path, scale: _Scale) -> list[list[float]]:
    repo = make_repository(folder / "repository", scale.files)
    git(repo, "repack", "-a", "-d", "--quiet")  # as repositories of this size are
    job = JobSpec(
        producer_id="only", name="only", task="Start", work=ShellSpec(command="true"), expects_no_changes=True
    )
    trees = (folder / "trees" / str(number) for number in count())
    with watched_phases() as spans:
        async with engine(folder / "data") as services:

            async def ours() -> float:
                spans.clear()
                os.sync()  # what the last turn wrote and removed is not to weigh on this one
                run_id = await submit(services, repo, "start", [job])
                assert await asyncio.wait_for(ended(services, run_id), PATIENCE_S) == "RUN_FINISHED"
                began = {span.effect.phase: span.began for span in spans}
                return began[Phase.WORK] - began[Phase.SETUP]

            async def floor(*options: str) -> float:
                tree = next(trees)
                os.sync()
                began = time.perf_counter()
                command = (*options, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
                await asyncio.to_thread(git, repo, *command)
                took = time.perf_counter() - began
                git(repo, "worktree", "remove", str(tree))
                return took

            return await in_turns_async(scale.rounds, ours, floor, partial(floor, "-c", "checkout.workers=0"))
