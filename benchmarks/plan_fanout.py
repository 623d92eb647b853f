"""A plan of small independent nodes, four at a time: a warm owner beside a script that runs the same commands.

The floor is what one would write by hand for the same result: a pool of threads and one process after the other per
node. It keeps no log, adopts nothing after a crash, cannot be stopped, and trusts that nobody else moves a branch.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import AtMost, Figure, Reported, in_turns_async
from benchmarks.workspace import (
    PATIENCE_S,
    end_owner,
    ended,
    engine,
    git,
    make_repository,
    pilothouse,
    submit,
    workspace,
)
from pilothouse.core.plan.spec import JobSpec, PlanSpec, ShellSpec

PARALLEL = 4
TRIES = 10
FLOOR = "git worktree add, sh, add, commit, pin, status, merge, worktree remove from a pool of threads"


class _Scale(NamedTuple):
    nodes: int
    rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(50, 9), "quick": _Scale(50, 3), "tiny": _Scale(3, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    with workspace() as folder:
        ours, fresh, floor = asyncio.run(_measure(folder, scale))
    name = f"fan-out of {scale.nodes} nodes, {PARALLEL} at a time"
    yield Figure(f"{name}, warm owner", ours, floor, FLOOR, AtMost(1.2))
    yield Figure(
        f"{name}, fresh process",
        fresh,
        floor,
        FLOOR,
        Reported(),
        note="`pilothouse run` in a new data directory: interpreter, owner, database and warden are started as well",
    )


async def _measure(folder: Path, scale: _Scale) -> list[list[float]]:
    repositories = (make_repository(folder / f"repository-{number}", files=100) for number in count())
    async with engine(folder / "data") as services:

        async def ours() -> float:
            repo = next(repositories)
            began = time.perf_counter()
            run_id = await submit(services, repo, "fan-out", jobs(scale.nodes), PARALLEL)
            how = await asyncio.wait_for(ended(services, run_id), PATIENCE_S)
            took = time.perf_counter() - began
            _check(repo, "pilothouse/fan-out", scale.nodes, how)
            return took

        async def floor() -> float:
            repo = next(repositories)
            script = Script(repo, folder / "trees" / repo.name, scale.nodes)
            began = time.perf_counter()
            await asyncio.to_thread(script.run)
            took = time.perf_counter() - began
            _check(repo, "result", scale.nodes, "RUN_FINISHED")
            return took

        async def fresh() -> float:
            repo = next(repositories)
            return await asyncio.to_thread(_run_fresh, repo, folder / "fresh" / repo.name, scale.nodes)

        return await in_turns_async(scale.rounds, ours, fresh, floor)


def _run_fresh(repo: Path, data_dir: Path, nodes: int) -> float:
    plan = PlanSpec(name="fan-out", jobs=tuple(jobs(nodes)), max_parallel=PARALLEL)
    data_dir.mkdir(parents=True)
    file = data_dir / "plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    command = [*pilothouse(), "run", str(file), "--repo", str(repo), "--data-dir", str(data_dir), "--json"]
    try:
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        took = time.perf_counter() - began
    finally:
        end_owner(data_dir)
    _check(repo, "pilothouse/fan-out", nodes, "RUN_FINISHED")
    return took


def jobs(nodes: int) -> list[JobSpec]:
    return [
        JobSpec(
            producer_id=f"n{number}", name=f"n{number}", task=f"Task {number}", work=ShellSpec(command=_command(number))
        )
        for number in range(nodes)
    ]


def _command(number: int) -> str:
    return f"echo {number} > result-{number}.txt"


def _check(repo: Path, branch: str, nodes: int, how: str) -> None:
    """Both sides must have done the work, all of it, and cleaned up."""
    files = git(repo, "ls-tree", "--name-only", branch).split()
    assert how == "RUN_FINISHED" and sum(name.startswith("result-") for name in files) == nodes
    assert len(git(repo, "worktree", "list").splitlines()) == 1


@dataclass
class Script:
    """The floor."""

    repo: Path
    trees: Path
    nodes: int
    base: str = ""
    head: str = ""
    merging: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        self.base = self.head = git(self.repo, "rev-parse", "HEAD")
        git(self.repo, "branch", "result", self.base)
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(self.node, range(self.nodes)))

    def node(self, number: int) -> None:
        tree = self.trees / str(number)
        self._worktree("add", "--quiet", "--force", "--detach", str(tree), self.base)
        subprocess.run(["sh", "-c", _command(number)], cwd=tree, check=True, capture_output=True)
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message", f"Task {number}")
        commit = git(tree, "rev-parse", "HEAD")
        git(self.repo, "update-ref", f"refs/pins/{number}", commit)
        assert not git(tree, "status", "--porcelain")
        with self.merging:
            merged = git(self.repo, "merge-tree", "--write-tree", self.head, commit)
            new = git(self.repo, "commit-tree", merged, "-p", self.head, "-m", f"merge {number}")
            git(self.repo, "update-ref", "refs/heads/result", new, self.head)
            self.head = new
        self._worktree("remove", "--force", str(tree))

    def _worktree(self, *args: str) -> None:
        """Two at a time may meet while one registration is half written; whoever runs this script tries again."""
        for left in reversed(range(TRIES)):
            try:
                git(self.repo, "worktree", *args)
                return
            except subprocess.CalledProcessError:
                if not left:
                    raise
