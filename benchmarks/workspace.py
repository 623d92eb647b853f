"""Where benchmarks work: a directory on the file system of the data directory, repositories in it, and an engine over
it that leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.assembly import assembled
from pilothouse.core.plan.spec import JobSpec, PlanSpec
from pilothouse.core.run.lifecycle import TERMINAL_EVENTS
from pilothouse.engine.plans.plans import Origin
from pilothouse.engine.services import Services
from pilothouse.owner import read_owner
from pilothouse.settings import Settings

PATIENCE_S = 120.0
"""Bound of every wait."""

_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Benchmark",
    "GIT_AUTHOR_EMAIL": "benchmark@localhost.invalid",
    "GIT_COMMITTER_NAME": "Benchmark",
    "GIT_COMMITTER_EMAIL": "benchmark@localhost.invalid",
}


@contextmanager
def workspace() -> Iterator[Path]:
    """A directory that is removed on leaving. Git is the same for both sides: no configuration but its defaults."""
    near = Settings().data_dir
    while not near.is_dir():
        near = near.parent
    folder = Path(tempfile.mkdtemp(prefix=".pilothouse-benchmark-", dir=near if os.access(near, os.W_OK) else None))
    try:
        with patch.dict(os.environ, _GIT):
            yield folder
    finally:
        shutil.rmtree(folder)


def git(repo: Path, *args: str, stdin: str | None = None) -> str:
    """One git command as a script would run it."""
    done = subprocess.run(["git", "-C", str(repo), *args], check=True, capture_output=True, text=True, input=stdin)
    return done.stdout.strip()


def make_repository(path: Path, files: int) -> Path:
    """A repository with ``files`` small files, a hundred to a folder, in one commit."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch", "main")
    for folder in range(0, files, 100):
        (path / f"d{folder // 100}").mkdir()
        for number in range(folder, min(folder + 100, files)):
            (path / f"d{folder // 100}" / f"f{number}.txt").write_text(f"file {number}\n" * 20, encoding="utf-8")
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "start")
    return path


@asynccontextmanager
async def engine(data_dir: Path, slots: int = 16) -> AsyncIterator[Services]:
    """A whole engine; whatever it still runs on leaving is ended, its warden too."""
    async with assembled(Settings(data_dir=data_dir, max_parallel=slots)) as services:
        epoch = services.supervisor.epoch
        try:
            yield services
        finally:
            await LocalExecutor(data_dir, epoch).shutdown()


async def submit(services: Services, repo: Path, name: str, jobs: list[JobSpec], max_parallel: int = 4) -> str:
    spec = PlanSpec(name=name, jobs=tuple(jobs), max_parallel=max_parallel)
    return await services.plans.submit(spec, Origin("benchmark", "benchmark"), repo=str(repo))


async def ended(services: Services, run_id: str) -> str:
    """Wait until the run has ended; answers how."""
    async for batch in services.supervisor.hub.follow(run_id):
        for recorded in batch.recorded:
            if (name := recorded.event.type_name()) in TERMINAL_EVENTS:
                return name
    raise AssertionError("a stream of events has no end of its own")


def pilothouse() -> list[str]:
    """The installed command, as people run it."""
    return [str(Path(sys.executable).with_name("pilothouse"))]


def end_owner(data_dir: Path) -> None:
    """End the owner that a command started in the background, and its warden."""
    if (owner := read_owner(data_dir)) is not None:
        os.kill(owner.pid, signal.SIGTERM)
        give_up = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{owner.pid}/stat").exists() and time.monotonic() < give_up:
            time.sleep(0.01)
    asyncio.run(LocalExecutor(data_dir, epoch=1 << 30).shutdown())
