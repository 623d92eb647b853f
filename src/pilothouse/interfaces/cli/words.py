"""How states, times and foreign text are written on a terminal. Values in, text out.

A state always has a word beside its glyph and colour: neither is needed to read it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Look(NamedTuple):
    """``colour`` is a name that both ANSI and rich know; ``plain`` stands in where the terminal has no Unicode."""

    glyph: str
    plain: str
    colour: str


_UNKNOWN = Look("·", ".", "white")
LOOKS = {
    "pending": Look("·", ".", "white"),
    "ready": Look("○", "o", "white"),
    "created": Look("○", "o", "white"),
    "scheduled": Look("◔", ">", "cyan"),
    "running": Look("●", "*", "cyan"),
    "pausing": Look("●", "*", "yellow"),
    "paused": Look("‖", "=", "yellow"),
    "stopping": Look("●", "*", "yellow"),
    "stopped": Look("■", "#", "yellow"),
    "succeeded": Look("✓", "+", "green"),
    "partial": Look("◐", "%", "yellow"),
    "failed": Look("✗", "x", "red"),
    "blocked": Look("⊘", "-", "yellow"),
    "canceled": Look("⊗", "/", "magenta"),
    "waiting": Look("?", "?", "yellow"),
}
_LONGEST_TITLE = 40
_ANSI = {
    "white": "37",
    "cyan": "36",
    "yellow": "33",
    "green": "32",
    "red": "31",
    "magenta": "35",
    "dim": "2",
    "bold": "1",
}
# What a terminal would obey instead of show: escape sequences whole, then any other control character. A string (a
# title, the clipboard) ends with its line at the latest: one that was never closed must not hide the rest.
_PARAMETERS, _STRING, _OTHER = r"\[[0-?]*[ -/]*", r"[\]PX^_][^\x07\x18\x1a\x1b\x9c\n]*", "[ -/]*"
_ESCAPES = re.compile(rf"\x1b(?:{_PARAMETERS}[@-~]?|{_STRING}[\x07\x18\x1a\x9c]?|{_OTHER}[0-~]?)")
_UNFINISHED = re.compile(rf"\x1b(?:{_PARAMETERS}|{_STRING}|{_OTHER})\Z|(?<!\r)\r+\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
_CONTROLS = re.compile(f"{_CONTROL}+")
_TAMED = re.compile(rf"{_ESCAPES.pattern}|\r+\n?|(?![\t\n]){_CONTROL}")


def look(status: str) -> Look:
    return LOOKS.get(status, _UNKNOWN)


def glyph(status: str, *, unicode: bool) -> str:
    found = look(status)
    return found.glyph if unicode else found.plain


def paint(text: str, colour: str, *, enabled: bool) -> str:
    return f"\x1b[{_ANSI[colour]}m{text}\x1b[0m" if enabled else text


def one_line(text: str) -> str:
    """Foreign text as one line that a terminal shows and does not obey."""
    return _CONTROLS.sub(" ", _ESCAPES.sub("", text)).strip()


def tame(text: str, *, colour: bool) -> tuple[str, str]:
    """Foreign text of many lines as a terminal may show it: of all it would obey, newlines and tabs are left, and with
    ``colour`` colours. A carriage return begins a new line: nothing is written over.

    Also answers what stands before the next piece of the text, when this one ends within a sequence."""
    unfinished = _UNFINISHED.search(text)
    held = unfinished[0] if unfinished else ""
    text = text[: len(text) - len(held)]
    if held[1:2] in tuple("]PX^_"):
        held = held[:2]  # what is in a string is left out anyhow

    def shown(found: re.Match[str]) -> str:
        if found[0].startswith("\r"):
            return "\n"
        return found[0] if colour and _COLOUR.fullmatch(found[0]) else ""

    return _TAMED.sub(shown, text), held


def last_line(text: str) -> str:
    """The last line with something in it. A carriage return rewrites a line, as progress bars do."""
    for line in reversed(re.split(r"[\r\n]+", text)):
        if shown := one_line(line):
            return shown
    return ""


def duration(milliseconds: int) -> str:
    """``0.4s``, ``12s``, ``3m 05s``, ``2h 07m``."""
    seconds = max(0, milliseconds) / 1000
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def ago(at: int | None, now: int) -> str:
    """How long ago an instant was, both in milliseconds since the epoch."""
    if not at:
        return ""
    passed = max(0, now - at) // 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if passed >= size:
            return f"{passed // size}{unit} ago"
    return f"{passed}s ago"


def counted(counts: dict[str, int]) -> str:
    """``3 succeeded · 1 running``, in the order of the table of looks."""
    return ", ".join(f"{counts[status]} {status}" for status in LOOKS if counts.get(status))


def short(run_id: str) -> str:
    """What people type: the part of an id that says when, to the millisecond."""
    return run_id[:13] if len(run_id) == 36 else run_id


def title(producer_id: str, name: str) -> str:
    """What a node is called, where that says more than its id; at most ``_LONGEST_TITLE`` characters."""
    shown = one_line(name)
    if shown in (producer_id, producer_id.rpartition("/")[2]):
        return ""
    return shown if len(shown) <= _LONGEST_TITLE else f"{shown[: _LONGEST_TITLE - 3].rstrip()}..."


def how_to_answer(wait_id: str, options: Sequence[str]) -> str:
    """The command that answers a wait, ready to be pasted, and what else it takes."""
    first, *others = options or ("ANSWER",)
    return f"`pilothouse approvals answer {wait_id} {first}`" + (f" (or {', '.join(others)})" if others else "")


def has_unicode() -> bool:
    """Whether stdout can show glyphs."""
    try:
        "✓●⊘│".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
