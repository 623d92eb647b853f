"""What OpenCode keeps in its database of a conversation: where it is at home, which model answers, what the agents
below it used. Its events say none of that.

Only reads. Another version may keep it otherwise: then nothing is found, and nothing is wrong.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.launching import is_id
from pilothouse.adapters.agents.private import left_behind
from pilothouse.adapters.agents.reading import NOT_JSON, missing
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import Tally, Usage

_BEGUN = "conversation.json"
_PATIENCE_S = 1.0

_DIRECTORY = "SELECT directory FROM session WHERE id = ?"
_MODEL = "SELECT json_extract(data, '$.modelID') FROM message WHERE id = ?"
_BELOW = """
    WITH RECURSIVE below (id) AS (
        SELECT id FROM session WHERE parent_id = ?
        UNION SELECT session.id FROM session JOIN below ON session.parent_id = below.id
    )
    SELECT data FROM message JOIN below ON message.session_id = below.id
    WHERE json_extract(data, '$.role') = 'assistant'
"""
"""Every answer to an agent that works for this conversation's, or for one of those."""


class Begun(msgspec.Struct, frozen=True):
    """How a run began. ``databases`` are those that may hold the conversation, OpenCode's own choice first.

    ``session`` is what it goes on with, empty for a new one; with the directory it is at home in, and what the agents
    below it had used."""

    databases: tuple[str, ...] = ()
    session: str = ""
    directory: str = ""
    below: dict[str, Usage] = {}


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class Tokens(msgspec.Struct, frozen=True):
    """Input leaves out what is cached, output leaves out reasoning."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _Answer(msgspec.Struct, frozen=True, rename={"model": "modelID"}):
    model: str = ""
    tokens: Tokens = Tokens()


def usage_of(tokens: Tokens) -> Usage:
    return Usage(
        input_tokens=tokens.input + tokens.cache.read + tokens.cache.write,
        output_tokens=tokens.output + tokens.reasoning,
        cached_tokens=tokens.cache.read,
        cache_write_tokens=tokens.cache.write,
        reasoning_tokens=tokens.reasoning,
    )


def begin(work: AgentWork, databases: tuple[str, ...]) -> Begun:
    """Note how a run begins, once: whoever launches it again finds it begun. A conversation that no database knows is
    not gone on with. Raises ``OSError``."""
    note = begun(work.run)
    if note is None:
        note = _beginning(work.session_id, databases)
        if work.run:
            Path(work.run, _BEGUN).write_bytes(msgspec.json.encode(note))
    return note


def begun(run: str) -> Begun | None:
    """How a run began; None when that is not known."""
    try:
        return msgspec.json.decode(left_behind(Path(run, _BEGUN)), type=Begun) if run else None
    except (OSError, *NOT_JSON):
        return None


def model_of(run: str, message: str) -> str:
    """Which model gave an answer; empty when that is not known."""
    note = begun(run) or Begun()
    return next((str(row[0]) for place in note.databases for row in _rows(place, _MODEL, message) if row[0]), "")


def spent_below(run: str, session: str) -> Iterator[Used]:
    """What agents below that of a run used in it; the run has ended."""
    note = begun(run) or Begun()
    earlier = note.below if note.session == session else {}
    sums = next((found for place in note.databases if (found := _below(place, session)).by_model), Tally())
    for model, usage in missing(sums, Tally(dict(earlier))):
        yield Used(usage=usage, model=model)


def _beginning(session: str, databases: tuple[str, ...]) -> Begun:
    for place in databases if is_id(session) else ():
        for row in _rows(place, _DIRECTORY, session):
            first = tuple(dict.fromkeys((place, *databases)))
            return Begun(first, session, str(row[0]), _below(place, session).by_model)
    return Begun(databases)


def _below(database: str, session: str) -> Tally:
    found = Tally()
    for row in _rows(database, _BELOW, session):
        with contextlib.suppress(*NOT_JSON):
            answer = msgspec.json.decode(row[0], type=_Answer)
            found.add(answer.model, usage_of(answer.tokens) + Usage(turns=1))
    return found


def _rows(database: str, query: str, *values: str) -> list[Any]:
    if not Path(database).is_file():
        return []
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(database)}?mode=ro", uri=True, timeout=_PATIENCE_S)
        ) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.Error:
        return []
