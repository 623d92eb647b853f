"""Effects as a plan makes them, a worktree to run them in, and running a command without an executor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, ShellSpec, WorkSpec
from pilothouse.core.run.agents import (
    AgentEnded,
    AgentReader,
    Asked,
    FileEdited,
    News,
    Noted,
    Reasoning,
    Text,
    ToolEnded,
    ToolStarted,
)
from pilothouse.core.run.commands import Command, Exit, ExitReason

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


class Played(NamedTuple):
    """What an agent did, as its reader understood it."""

    news: list[News]
    ended: AgentEnded

    @property
    def said(self) -> str:
        return "".join(item.text for item in self.news if isinstance(item, Text))

    @property
    def story(self) -> list[str]:
        """One line per thing it told, without its session and what it counts up."""
        return [line for item in self.news if (line := _line(item))]


def _line(item: News) -> str:
    match item:
        case Text(text=text):
            return text.rstrip()
        case Reasoning(text=text):
            return f"({text.rstrip()})"
        case ToolStarted(tool=tool, title=title, input=given):
            return f"> {tool} {title or given}".rstrip()
        case ToolEnded(status=status, output=output):
            return f"< {status} {output}".strip()
        case FileEdited(path=path, change=change, lines_added=added, lines_removed=removed):
            return f"* {change} {path} +{added} -{removed}"
        case Noted(text=text):
            return f"# {text}"
        case Asked(tool=tool, input=given):
            return f"? {tool} {given}".rstrip()
    return ""


def play(command: Command, reader: AgentReader) -> Played:
    """Run an agent to its end, without an executor."""
    done = subprocess.run(
        command.argv, cwd=command.cwd, env=command.env, input=command.stdin.encode(), capture_output=True, timeout=30
    )
    news = [item for line in done.stdout.splitlines() for item in reader.line(line)]
    exit = Exit(reason=ExitReason.EXITED, code=done.returncode, output_to=len(done.stdout))
    ended = reader.end(exit, done.stderr.decode(errors="replace"))
    return Played([*news, *ended.news], ended)


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
