"""Answers on stdout: one JSON value, or tables and lines for people."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from pilothouse.interfaces.cli.words import glyph, has_unicode, look, one_line, paint, tame

_OBEYED = re.compile("[\x7f-\x9f]")
"""What JSON leaves as it is, and some terminals obey."""


def print_json(value: Any) -> None:
    """The one JSON value of ``--json``."""
    print(_escaped(json.dumps(value, indent=2, ensure_ascii=not _is_utf8())))


def print_json_line(value: Any) -> None:
    """One of many JSON values, each on a line of its own."""
    print(_escaped(json.dumps(value, ensure_ascii=not _is_utf8(), separators=(",", ":"))))


def _escaped(text: str) -> str:
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_output(text: str, held: str = "") -> str:
    """What a command printed: as it is into a pipe or a file, tamed on a terminal. Answers the ``held`` of the piece
    that follows."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return ""
    shown, held = tame(held + text, colour=colours())
    sys.stdout.write(shown)
    return held


def end_output() -> None:
    """What follows does not take on the colours of what a command printed."""
    if colours():
        sys.stdout.write("\x1b[0m")


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def colours(no_color: bool = False) -> bool:
    """Whether stdout may be coloured."""
    return sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def state(status: str, *, color: bool) -> str:
    """A state with its glyph, colour and word."""
    return paint(f"{glyph(status, unicode=has_unicode())} {status}", look(status).colour, enabled=color)


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Columns as wide as what is in them; on a terminal the last one is cut at its edge. The column named STATUS is
    shown as a state. ``empty`` is said on stderr when there is no row."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    if not shown:
        print(empty, file=sys.stderr)
        return
    color = colours()
    status = head.index("STATUS") if "STATUS" in head else -1
    widths = [max(len(row[column]) for row in [list(head), *shown]) for column in range(len(head))]
    if status >= 0:
        widths[status] += 2
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print(_line(head, widths, room))
    for row in shown:
        padded = list(row)
        if status >= 0:
            padded[status] = f"{glyph(row[status], unicode=has_unicode())} {row[status]}"
        line = _line(padded, widths, room)
        if color and status >= 0:
            line = line.replace(padded[status], paint(padded[status], look(row[status]).colour, enabled=True), 1)
        print(line)


def _line(cells: Sequence[str], widths: Sequence[int], room: int) -> str:
    line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    return line[: room - 1] + "…" if room and len(line) > room else line


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Names and values, one a line; what is empty is left out."""
    given = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        print(f"{name.ljust(width)}  {one_line(value)}")
