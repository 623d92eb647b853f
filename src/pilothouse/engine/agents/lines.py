"""Lines of an output that is read in pieces: what is whole, where it ends, and what could not be had.

Bytes in, lines out; knows nothing of what a line means. Offsets are bytes of the output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

MAX_LINE = 8 << 20
"""Bytes. A longer line is left out, and said so."""


class Line(NamedTuple):
    """A line without its end; ``to`` is the offset after it."""

    data: bytes
    to: int


class Gap(NamedTuple):
    """A line or more that is missing: ``size`` bytes that end at ``to``; ``why`` says what became of them."""

    why: str
    size: int
    to: int


class Lines:
    """Feed it what was read; take what is whole, at any pace: nothing is lost between two takes."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._ready: deque[Line | Gap] = deque()
        self._partial: list[bytes] = []
        self._held = 0
        """Bytes of the line that is not whole yet, also of one that is too long to be kept."""
        self._missing = 0
        """Bytes that were not kept before the point where the next whole line begins: what comes up to there is the
        rest of a line whose beginning nobody has."""
        self.position = 0
        """Where to read on."""

    def feed(self, start: int, data: bytes) -> None:
        """``data`` was read; it begins at ``start``, which is ``position`` unless a part was not kept."""
        if start > self.position:
            self._missing += self._held + start - self.position
            self._partial.clear()
            self._held = 0
        self.position = start
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self.position += len(piece) + 1
            self._end_line(piece)
        self.position += len(rest)
        self._hold(rest)

    def finish(self) -> None:
        """The output has ended: what is left is a line too."""
        if self._held or self._missing:
            self._end_line(b"")

    def take(self) -> Iterator[Line | Gap]:
        """What is whole and has not been taken. May be dropped half-way and called again."""
        while self._ready:
            yield self._ready.popleft()

    def some(self, lines: int, size: int) -> list[Line | Gap]:
        """The next of them, at most so many lines, and no more bytes than ``size`` but for the last one."""
        found: list[Line | Gap] = []
        for item in self.take():
            found.append(item)
            size -= len(item.data) if isinstance(item, Line) else 0
            if len(found) >= lines or size <= 0:
                break
        return found

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._missing or self._held > self._limit:
            self._partial.clear()
        elif piece:
            self._partial.append(piece)

    def _end_line(self, piece: bytes) -> None:
        self._hold(piece)
        if self._missing:
            self._ready.append(Gap("not kept", self._missing + self._held, self.position))
        elif self._held > self._limit:
            self._ready.append(Gap("one line that is too long", self._held, self.position))
        elif line := b"".join(self._partial).removesuffix(b"\r"):
            self._ready.append(Line(line, self.position))
        self._partial.clear()
        self._held = self._missing = 0
