"""What is wrong with a plan, said once: a problem names its field and its fix, several make one ``BadInput``.

Knows the wording and its bounds, not the rules: those who find a problem say what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.errors import BadInput

SHOWN = 5
"""Problems spelt out in one message; the rest are counted."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. ``field`` is a path as in ``jobs[2].dependencies[0]``, empty for the whole."""

    field: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.field}: {self.message}" if self.field else self.message
        return f"{text} ({self.fix})" if self.fix else text


class Invalid(BadInput):
    """Raised when a document is wrong. ``problems`` are what its message sums up, one by one, for those who must say
    them in terms of another document."""

    def __init__(self, message: str, problems: Sequence[Problem], *, fix: str = "") -> None:
        super().__init__(message, field=problems[0].field, fix=fix)
        self.problems = tuple(problems)


def refuse(problems: Sequence[Problem]) -> Invalid:
    """The one error for at least one problem: the first ``SHOWN`` of them in words, the rest as a number."""
    first, others = problems[0], problems[1:]
    if not others:
        return Invalid(first.message, problems, fix=first.fix)
    # The first field stands in front of the message already, so the first problem goes without it.
    parts = [str(Problem("", first.message, first.fix)), *map(str, others[: SHOWN - 1])]
    hidden = len(problems) - len(parts)
    if hidden:
        parts.append(f"{hidden} more")
    return Invalid("; ".join(parts), problems)


def field_path(parts: Iterable[str | int]) -> str:
    """``("jobs", 2, "env", "A B")`` as ``jobs[2].env['A B']``."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{quote(part, 40)}]"
    return text


def quote(text: str, limit: int = 60) -> str:
    """``text`` in quotes, bounded, with everything unprintable escaped: safe for a terminal and a log."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}…"


def listed(values: Sequence[str], limit: int = 10) -> str:
    """``'a', 'b', 'c' … (7 more)``."""
    text = ", ".join(quote(value) for value in values[:limit])
    return f"{text} … ({len(values) - limit} more)" if len(values) > limit else text
