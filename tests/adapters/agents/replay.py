"""Transcripts of real runs, read by a driver's reader: what is told, and what is made of the end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pilothouse.adapters.agents.driver import AgentDriver, AgentWork
from pilothouse.core.run.agents import AgentEnded, News, Text, Used
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Tally

TRANSCRIPTS = Path(__file__).parent / "transcripts"
CONVERSATION = "11111111-2222-4333-8444-555555555555"
"""What the conversations of all transcripts are called, where that could be said."""

N = TypeVar("N", bound=News)
_TERMINATED = 128 + 15


def some_work(**changes: Any) -> AgentWork:
    given: dict[str, Any] = {
        "task": "Write hello.txt",
        "instructions": "Write hello.txt",
        "opening": "# Task\n\nWrite hello.txt",
        "worktree": "/work-tree",
        "repo": "/repo",
        "plan_id": "p",
        "node": "n",
        "node_id": "n1",
        "attempt": 1,
        "phase": "work",
        "new_session_id": CONVERSATION,
    }
    return AgentWork(**given | changes)


@dataclass(frozen=True)
class Told:
    news: list[News]
    ended: AgentEnded
    finished: bool

    def of(self, kind: type[N]) -> list[N]:
        return [one for one in (*self.news, *self.ended.news) if isinstance(one, kind)]

    @property
    def said(self) -> str:
        return "".join(one.text for one in self.of(Text))

    @property
    def used(self) -> Tally:
        tally = Tally()
        for one in self.of(Used):
            tally.add(one.model, one.usage)
        return tally


def exited(code: int | None = 0, signal: int | None = None) -> Exit:
    return Exit(reason=ExitReason.EXITED, code=code, signal=signal)


def read(driver: AgentDriver, lines: Iterable[bytes], exit: Exit, errors: str = "", **work: Any) -> Told:
    reader = driver.reader(some_work(**work))
    news = [one for line in lines for one in reader.line(line)]
    return Told(news, reader.end(exit, errors), reader.finished)


def replay(driver: AgentDriver, case: str, **work: Any) -> Told:
    place = TRANSCRIPTS / driver.facts.name
    lines = (place / f"{case}.jsonl").read_bytes().splitlines()
    end = json.loads((place / f"{case}.end.json").read_text())
    return read(driver, lines, exited(end["exit_code"]), end["stderr"], **work)


def cases_of(agent: str) -> list[str]:
    return sorted(path.stem for path in (TRANSCRIPTS / agent).glob("*.jsonl"))


def fields_of(agent: str) -> tuple[list[str], list[str]]:
    """Every type of event, and every name of a field, that its transcripts hold: what junk is best made of."""
    types: set[str] = set()
    names: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            names.update(value)
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    for case in cases_of(agent):
        for line in (TRANSCRIPTS / agent / f"{case}.jsonl").read_bytes().splitlines():
            found = json.loads(line)
            types.add(found["type"])
            look(found)
    return sorted(types), sorted(names)


def canceled(code: int = _TERMINATED) -> Exit:
    return Exit(reason=ExitReason.CANCELED, code=code)
