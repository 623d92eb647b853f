"""What readers of agents' JSON lines share: lines that are no events, texts within bounds, failures that pass. Pure.

Knows no agent: what an event of one is called and means is its own reader's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec

from pilothouse.core.run.agents import MAX_TEXT, News, Noted, Reasoning, Text
from pilothouse.core.run.usage import NOTHING, Tally, Usage

MAX_NOTE = 1_000
"""Characters of a line that is no event: whoever prints such lines prints many."""

NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding a line may raise, whatever the line."""

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""HTTP status of failures after which the same request may succeed."""
_SOUNDS_PASSING = re.compile(
    r"\bHTTP (?:408|429|5\d\d)\b|\b(?:status|error|code)\W{0,3}(?:408|429|5\d\d)\b|rate.?limit|too many requests"
    r"|overloaded|high demand|temporarily|timed? ?out|unavailable|internal server error|bad gateway"
    r"|(?:could not|unable to) connect"
    r"|econnre|etimedout|eai_again|epipe|socket hang up|fetch failed|network error"
    r"|connection.?(?:error|reset|refused|closed|lost|aborted)",
    re.IGNORECASE,
)
_RETRY_AFTER = re.compile(r"(?:retry|try again)[ _-]?(?:after|in)\D{0,3}(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", re.IGNORECASE)
_LONGEST_MS = 7 * 86_400_000
"""Whoever names a longer time does not mean to be asked again."""
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def noted(line: bytes) -> tuple[Noted, ...]:
    """A line that is none of an agent's events, for people; nothing for an empty one."""
    text = line[: 4 * MAX_NOTE].decode(errors="replace").strip().replace("\0", "")
    return (Noted(text=bounded(text, MAX_NOTE)),) if text else ()


def bounded(text: str, most: int = MAX_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(value: Any) -> str:
    """What an agent gave as JSON, for people: text as it is, anything else as JSON."""
    if value is None:
        return ""
    return bounded(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def said(text: str) -> tuple[News, ...]:
    return (Text(text=text),) if text else ()


def thought(text: str) -> tuple[News, ...]:
    return (Reasoning(text=text),) if text else ()


def relative(path: str, worktree: str) -> str:
    """A path as it is told: below the worktree relative to it, else as it is."""
    pure = PurePath(path)
    return str(pure.relative_to(worktree)) if worktree and pure.is_relative_to(worktree) else path


def passes(status: int | None, text: str) -> bool:
    """Whether a failure may be over when the same is tried again: by its HTTP status, or, without one, its text."""
    return status in _PASSING if status else _SOUNDS_PASSING.search(text) is not None


def retry_after_ms(text: str) -> int:
    """How long a message asks to wait; 0 when it does not say."""
    found = _RETRY_AFTER.search(text)
    return round(min(float(found[1]) * UNIT_MS[(found[2] or "s").lower()], _LONGEST_MS)) if found else 0


def more(now: Usage, before: Usage) -> Usage:
    """What ``now`` has more than ``before``; never less than nothing."""
    return Usage(**{name: max(0, getattr(now, name) - getattr(before, name)) for name in Usage.__struct_fields__})


def missing(sums: Tally, known: Tally) -> Iterator[tuple[str, Usage]]:
    """What ``sums`` has more than ``known``, by model. What it has under ``""`` is of all models together."""
    found = known.total
    for model, usage in sorted(sums.by_model.items(), key=lambda item: not item[0]):
        left = more(usage, known.by_model.get(model, NOTHING) if model else found)
        if left != NOTHING:
            found += left
            yield model, left
