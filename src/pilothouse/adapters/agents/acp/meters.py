"""What agents have written down of the tokens of a conversation, for those that do not tell it over the protocol.

One function per agent that keeps such records, by name. They lie where the agent's own environment says; a record that
is missing, or is kept in another way by now, tells nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.gemini import sessions as gemini_sessions
from pilothouse.core.run.usage import Usage

Meter = Callable[[Mapping[str, str], str, str], Usage | None]
"""From an environment, the directory of a run and the id of a conversation to all that has been used in it so far; None
when that is not known."""

_LAST_LINES = 1 << 20
"""Bytes at the end of a record that are looked at."""


class _Total(msgspec.Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Info(msgspec.Struct):
    total_token_usage: _Total


class _Payload(msgspec.Struct):
    type: str
    info: _Info


class _Line(msgspec.Struct):
    payload: _Payload


def codex(env: Mapping[str, str], run: str, conversation: str) -> Usage | None:
    """Lines of JSON, one file for each conversation; the last count is of all of it."""
    home = Path(env.get("CODEX_HOME") or Path(env.get("HOME", ""), ".codex"))
    record = next(home.glob(f"sessions/*/*/*/rollout-*-{conversation}.jsonl"), None)
    if record is None:
        return None
    with record.open("rb") as file:
        file.seek(max(0, record.stat().st_size - _LAST_LINES))
        lines = file.read().splitlines()
    for line in reversed(lines):
        if b'"token_count"' in line:
            with contextlib.suppress(msgspec.MsgspecError):
                total = msgspec.json.decode(line, type=_Line).payload.info.total_token_usage
                return Usage(
                    input_tokens=total.input_tokens,
                    output_tokens=total.output_tokens,
                    cached_tokens=total.cached_input_tokens,
                    reasoning_tokens=total.reasoning_output_tokens,
                )
    return None


def opencode(env: Mapping[str, str], run: str, conversation: str) -> Usage | None:
    """A database; cached tokens and reasoning are counted beside input and output."""
    data = Path(env.get("XDG_DATA_HOME") or Path(env.get("HOME", ""), ".local", "share"))
    place = data / "opencode" / "opencode.db"
    if not place.is_file():
        return None
    columns = ", ".join(f"tokens_{name}" for name in ("input", "output", "reasoning", "cache_read", "cache_write"))
    with contextlib.closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True, timeout=1)) as database:
        row = database.execute(f"SELECT {columns} FROM session WHERE id = ?", (conversation,)).fetchone()
    if row is None:
        return None
    given, told, reasoning, cached, written = row
    return Usage(
        input_tokens=given + cached + written,
        output_tokens=told + reasoning,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
    )


def gemini(env: Mapping[str, str], run: str, conversation: str) -> Usage | None:
    """Its files of conversations, of which the run has noted how it began."""
    spent = gemini_sessions.spent(run, conversation)
    return spent.total if spent.by_model else None


METERS: Mapping[str, Meter] = {"codex": codex, "gemini": gemini, "opencode": opencode}


def read(name: str, env: Mapping[str, str], run: str, conversation: str) -> Usage | None:
    """By a name of ``METERS``. Never raises for a record that is not as it was."""
    try:
        return METERS[name](env, run, conversation)
    except (OSError, sqlite3.Error, TypeError, ValueError):
        return None


def difference(before: Usage, after: Usage) -> Usage:
    """What was used in between."""
    fields = Usage.__struct_fields__
    return Usage(**{name: max(0, getattr(after, name) - getattr(before, name)) for name in fields})
