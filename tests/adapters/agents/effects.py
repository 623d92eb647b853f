"""Effects as a plan makes them, a worktree to run them in, and running a command without an executor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, ShellSpec, WorkSpec
from pilothouse.core.run.commands import Command

PATH = os.environ["PATH"]


def effect(worktree: Path, spec: WorkSpec | str, **changes: Any) -> RunWork:
    fields: dict[str, Any] = {
        "key": "n1/1/work",
        "node_id": "n1",
        "attempt": 1,
        "phase": Phase.WORK,
        "repo": "/repo",
        "spec": ShellSpec(command=spec) if isinstance(spec, str) else spec,
        "path": str(worktree),
        "place": "here",
        "output": "p1/n1/1/work",
        "plan_env": {},
        "inherit_env": (),
        "plan_id": "p1",
        "producer_id": "api",
        "task": "Add the search endpoint",
        "instructions": "",
    }
    return RunWork(**(fields | changes))


def scripted(worktree: Path, replies: str, **changes: Any) -> RunWork:
    """The effect of a scripted agent whose replies are in the worktree."""
    (worktree / "replies.yaml").write_text(replies, encoding="utf-8")
    return effect(worktree, AgentSpec(agent="scripted", script="replies.yaml"), **changes)


def run(command: Command) -> tuple[int, str]:
    """(exit status, what it printed)."""
    done = subprocess.run(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        input=command.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=30,
    )
    return done.returncode, done.stdout
