"""Whole journeys through a real engine: real git, real processes, a real database, in a temporary data directory."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pilothouse.assembly import assembled
from pilothouse.core.plan.spec_parse import parse_plan
from pilothouse.core.run.events import Event, Recorded
from pilothouse.core.run.lifecycle import TERMINAL_EVENTS
from pilothouse.engine.plans.plans import Origin
from pilothouse.engine.services import Services
from pilothouse.settings import Settings

T = TypeVar("T")

PATIENCE_S = 30.0
"""Bound of every wait: how long a broken build may hang, not how long anything should take."""


def run(journey: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(journey, 2 * PATIENCE_S))


@dataclass(frozen=True)
class Repo:
    """A real repository."""

    path: Path

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.path), *args], check=True, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return done.stdout

    def show(self, revision: str, name: str) -> str:
        return self.git("show", f"{revision}:{name}")

    def files(self, revision: str) -> set[str]:
        return set(self.git("ls-tree", "-r", "--name-only", revision).split())

    def commit(self, files: dict[str, str], message: str = "change") -> str:
        for name, content in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(content, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()


def make_repo(path: Path, files: dict[str, str] | None = None) -> Repo:
    path.mkdir(parents=True)
    repo = Repo(path)
    repo.git("init", "--quiet", "--initial-branch", "main")
    repo.commit(files or {"README.md": "hello\n"}, "start")
    return repo


@asynccontextmanager
async def engine(data_dir: Path, **settings: Any) -> AsyncIterator[Services]:
    """A whole engine over ``data_dir``, without doors, whose executor ends everything soon after the test."""
    read = Settings(data_dir=data_dir, **{"orphan_grace": 1.0, **settings})
    async with assembled(read, listens=False) as services:
        yield services


async def submit(services: Services, repo: Repo, plan: str, **options: Any) -> str:
    return await services.plans.submit(parse_plan(plan), Origin("local", "test"), repo=str(repo.path), **options)


async def until(services: Services, run_id: str, met: Callable[[Recorded], bool], after: int = 0) -> list[Recorded]:
    """The events of a run after ``after`` up to the first that meets a condition."""
    seen: list[Recorded] = []

    async def follow() -> list[Recorded]:
        async for batch in services.queries.follow(run_id, after):
            for recorded in batch.recorded:
                seen.append(recorded)
                if met(recorded):
                    return seen
        raise AssertionError("the stream ended")

    try:
        return await asyncio.wait_for(follow(), PATIENCE_S)
    except TimeoutError:
        tail = "\n".join(str(recorded) for recorded in seen[-15:])
        raise AssertionError(f"it did not come in {PATIENCE_S} s; the last events were\n{tail}") from None


def is_a(*types: type[Event]) -> Callable[[Recorded], bool]:
    return lambda recorded: isinstance(recorded.event, types)


def closes_leg(recorded: Recorded) -> bool:
    return recorded.event.type_name() in TERMINAL_EVENTS


async def finished(services: Services, run_id: str, after: int = 0) -> dict[str, Any]:
    """The plan once its leg is closed."""
    await until(services, run_id, closes_leg, after)
    return await services.queries.plan(run_id)


async def run_plan(services: Services, repo: Repo, plan: str, **options: Any) -> dict[str, Any]:
    return await finished(services, await submit(services, repo, plan, **options))


async def eventually(question: Callable[[], Awaitable[T]], met: Callable[[T], bool]) -> T:
    """Ask until the answer is right; bounded."""
    async with asyncio.timeout(PATIENCE_S):
        while not met(answer := await question()):
            await asyncio.sleep(0.01)
        return answer


def node(plan: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(n for n in plan["nodes"] if n["producerId"] == name)
    return found
