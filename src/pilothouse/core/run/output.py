"""The rules of attempt output: its names, its segments, and what must not be written to it.

An output is a directory of append-only segment files. Each is named by the logical offset of its first byte,
so a reader needs nothing but the listing; beyond the cap the middle segments are dropped and the offsets of the
rest stay what they were. Standard library only, because the warden imports it; no file is touched here, so that
both writers (the keeper of a command, the log store) and all readers follow one set of rules.
All offsets and sizes are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pilothouse.errors import BadInput

SEGMENT_SIZE = 4 << 20
KEPT_HEAD = 2
KEPT_TAIL = 2
PLACEHOLDER = b"[redacted]"

_SEGMENT_NAME = re.compile(r"([0-9]{12,19})\.out")
_MAX_NAME = 1024


class Segment(NamedTuple):
    """One kept piece of an output."""

    start: int
    """Logical offset of its first byte."""
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def segment_name(start: int) -> str:
    """The file name of the segment that begins at ``start``."""
    return f"{start:012d}.out"


def segment_start(name: str) -> int | None:
    """The offset a file name stands for; None when the file is no segment."""
    match = _SEGMENT_NAME.fullmatch(name)
    return int(match[1]) if match else None


def dropped(starts: Sequence[int], head: int = KEPT_HEAD, tail: int = KEPT_TAIL) -> list[int]:
    """Which of the segments that begin at ``starts`` are beyond the cap: all but the first and the last ones."""
    ordered = sorted(starts)
    return ordered[head : max(head, len(ordered) - tail)]


def pieces(segments: Iterable[Segment], start: int, limit: int) -> list[tuple[Segment, int, int]]:
    """What to read for ``limit`` bytes from ``start``: (segment, offset within it, length), without a gap.

    A ``start`` in a dropped part moves to the next kept offset; a gap after that ends the read.
    """
    found: list[tuple[Segment, int, int]] = []
    position: int | None = None
    for segment in sorted(segments):
        if segment.end <= start or segment.size == 0:
            continue
        begin = max(start, segment.start)
        if limit <= 0 or (position is not None and begin != position):
            break
        length = min(limit, segment.end - begin)
        found.append((segment, begin - segment.start, length))
        limit -= length
        position = begin + length
    return found


def tail_start(segments: Iterable[Segment]) -> int:
    """Where the last part without a gap begins: nothing before it belongs to a tail."""
    start: int | None = None
    for segment in sorted(segments, reverse=True):
        if start is not None and segment.end != start:
            break
        start = segment.start
    return start or 0


def last_lines(data: bytes, lines: int) -> str:
    """The last ``lines`` lines of ``data``, without the final line break, decoded with replacement characters."""
    if lines <= 0:
        return ""
    return b"\n".join(data.removesuffix(b"\n").split(b"\n")[-lines:]).decode("utf-8", "replace")


def output_parts(name: str) -> tuple[str, ...]:
    """The path components of an output name such as ``<run>/<node>/<attempt>/work``.

    Raises ``BadInput`` for a name that is empty, absolute, or could leave the directory of outputs.
    """
    parts = tuple(name.split("/"))
    if not name or len(name) > _MAX_NAME:
        raise BadInput("an output name has 1 to 1024 characters", field="output")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or "\\" in part or segment_start(part) is not None:
            raise BadInput(
                f"{name!r} is not an output name", field="output", fix="use a relative path without . and .."
            )
    return parts


class Redactor:
    """Replaces secret values in a stream of bytes, also when one is split over several chunks.

    Only a suffix that could still become a secret is held back, so output is as live as it can be. Secrets that
    overlap in the stream are covered as a whole and replaced by one placeholder.
    """

    def __init__(self, secrets: Iterable[str | bytes] = (), placeholder: bytes = PLACEHOLDER) -> None:
        self._placeholder = placeholder
        encoded = (s.encode("utf-8", "surrogateescape") if isinstance(s, str) else s for s in secrets)
        self._secrets = tuple(sorted({s for s in encoded if s}, key=len, reverse=True))
        self._held = b""
        self._covered = 0
        """How many leading bytes of ``_held`` belong to a secret whose placeholder was given out already."""

    @property
    def holds(self) -> bool:
        """Whether something is held back."""
        return bool(self._held)

    def feed(self, data: bytes) -> bytes:
        """What may be written now."""
        if not self._secrets:
            return data
        data = self._held + data
        return self._release(data, self._undecided(data))

    def flush(self) -> bytes:
        """The rest, at the end of the stream."""
        return self._release(self._held, len(self._held))

    def _undecided(self, data: bytes) -> int:
        """Where the longest suffix begins that is a proper prefix of a secret."""
        earliest = len(data)
        for secret in self._secrets:
            position = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while 0 <= position < earliest:
                if secret.startswith(data[position:]):
                    earliest = position
                    break
                position = data.find(secret[:1], position + 1)
        return earliest

    def _release(self, data: bytes, end: int) -> bytes:
        out: list[bytes] = []
        position = covered = self._covered
        for start, stop in self._occurrences(data):
            if start >= end:
                break
            if start >= covered:
                out += (data[position:start], self._placeholder)
            covered = max(covered, stop)
            position = covered
        out.append(data[position:end])
        self._held = data[end:]
        self._covered = max(0, covered - end)
        return b"".join(out)

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """(start, stop) of what is to be covered; occurrences of one secret that overlap are one."""
        found: list[tuple[int, int]] = []
        for secret in self._secrets:
            start = data.find(secret)
            while start >= 0:
                # To the last one that overlaps, and so on: a secret that repeats itself ("--------") in output that
                # does so too would otherwise be found at every byte.
                last = start
                while (further := data.rfind(secret, last + 1, last + 2 * len(secret) - 1)) > 0:
                    last = further
                found.append((start, last + len(secret)))
                start = data.find(secret, last + len(secret))
        found.sort()
        return found
