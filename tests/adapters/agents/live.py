"""A place where a real agent CLI works for one test: a repository, private directories, a model server of our own."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from tests.support import agent_clis
from tests.support.agent_run import AgentRun
from tests.support.models.asked import Asked
from tests.support.models.server import ModelServer
from tests.support.needs import need_agents

from pilothouse.adapters.agents.driver import AgentDriver, AgentWork, Program
from pilothouse.core.run.agents import AgentConfig, AgentEnded, AgentReader, News, Used
from pilothouse.core.run.usage import Tally

KEY = "fake-key-0123456789"
_CONVERSATIONS = uuid.UUID("6f8f2a52-8f5a-4b5e-9f0e-0c0e5f5d8c11")


class Place:
    """``driver`` works here as in a plan: every run has a directory of its own, every attempt may have a worktree."""

    def __init__(self, root: Path, driver: AgentDriver, program: str) -> None:
        self.root = root
        self.driver = driver
        self.program = Program(argv=driver.native(str(need_agents() / program)))
        self.private = root / "private"
        self.home = root / "home"
        self.home.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "OWN_KEY": KEY,
            # Copilot unpacks itself there when it is not yet: 235 MB.
            "XDG_CACHE_HOME": str(agent_clis.place() / "cache"),
        }
        self.worktree = self.new_worktree()
        self.heard: list[bytes] = []
        """The lines that the last run printed."""

    def new_worktree(self) -> Path:
        """A repository of its own does for one."""
        place = self.root / f"worktree-{len(list(self.root.glob('worktree-*')))}"
        place.mkdir()
        git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.com")
        subprocess.run((*git, "init", "-q"), cwd=place, check=True, env=self.env)
        subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "begin"), cwd=place, check=True, env=self.env)
        return place

    def work(self, url: str, run: str = "one", **changes: Any) -> AgentWork:
        directory = self.private / "runs" / run
        directory.mkdir(parents=True, exist_ok=True)
        given: dict[str, Any] = {
            "task": "Write hello.txt",
            "instructions": "Write hello.txt",
            "prompt": "Write hello.txt, please",
            "opening": "# Task\n\nWrite hello.txt",
            "worktree": str(self.worktree),
            "repo": str(self.root),
            "plan_id": "p",
            "node": "n",
            "node_id": "n1",
            "attempt": 1,
            "phase": "work",
            "program": self.program,
            "config": AgentConfig(base_url=url, api_key_env="OWN_KEY", model="fake-1"),
            "env": self.env,
            "private": str(self.private),
            "run": str(directory),
            "new_session_id": str(uuid.uuid5(_CONVERSATIONS, run)),
        }
        return AgentWork(**given | changes)

    def run(self, work: AgentWork) -> AgentRun:
        self.heard.clear()
        return AgentRun(cast(AgentDriver, _Overheard(self.driver, self.heard)), work, self.env)

    def left(self) -> list[str]:
        """What git sees in the worktree, ignored files included."""
        told = subprocess.run(
            ("git", "status", "--porcelain", "--ignored", "-uall"),
            cwd=self.worktree,
            env=self.env,
            check=True,
            capture_output=True,
            text=True,
        )
        return told.stdout.splitlines()

    def anything_holds(self, secret: str) -> bool:
        """Whether any file of the run does, whoever wrote it."""
        files = (path for path in self.private.rglob("*") if path.is_file())
        return any(secret.encode() in path.read_bytes() for path in files)


def last_asked(server: ModelServer) -> Asked:
    """The last question, not counting those beside the work."""
    asked = server.questions[-1].asked
    assert asked is not None
    return asked


class _Overheard:
    """A driver whose readers are listened to."""

    def __init__(self, driver: AgentDriver, heard: list[bytes]) -> None:
        self._driver = driver
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def reader(self, work: AgentWork) -> AgentReader:
        return cast(AgentReader, _Ear(self._driver.reader(work), self._heard))


class _Ear:
    def __init__(self, reader: AgentReader, heard: list[bytes]) -> None:
        self._reader = reader
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def line(self, line: bytes) -> Iterable[News]:
        self._heard.append(line)
        return self._reader.line(line)


def all_used(run: AgentRun, ended: AgentEnded) -> Tally:
    """All the usage that was told, while it worked and at its end."""
    return used([*run.of(Used), *(item for item in ended.news if isinstance(item, Used))])


def used(told: Iterable[Used]) -> Tally:
    tally = Tally()
    for item in told:
        tally.add(item.model, item.usage)
    return tally
