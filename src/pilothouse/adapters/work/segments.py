"""Writes the output of one command as segment files, redacted.

Owns the open segment and nothing else; the rules (names, sizes, what is dropped) are ``core.run.output``'s.
Standard library only. There is one writer at a time: the keeper while its command runs, the log store otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pilothouse.core.run.output import (
    KEPT_HEAD,
    KEPT_TAIL,
    SEGMENT_SIZE,
    Redactor,
    dropped,
    segment_name,
    segment_start,
)


class SegmentWriter:
    """Appends to the output in ``directory``. ``end`` is its logical size in bytes, also when a write has failed."""

    def __init__(self, directory: Path, secrets: Iterable[str], segment_size: int = SEGMENT_SIZE) -> None:
        self._directory = directory
        self._redactor = Redactor(secrets)
        self._segment_size = segment_size
        self._fd = -1
        self.error = ""
        """Why output is missing; empty when none is."""
        self.end = 0
        self._starts: list[int] = []
        try:
            try:
                directory.mkdir(mode=0o700)
            except FileNotFoundError:
                directory.mkdir(mode=0o700, parents=True)
            except FileExistsError:
                self._starts = _starts_in(directory)
            self._open(self._starts[-1] if self._starts else 0)
        except OSError as error:
            self._fail(error)

    def write(self, data: bytes) -> None:
        """Append ``data``. Never raises: a full disk must not end the command; see ``error``."""
        self._put(self._redactor.feed(data))

    def close(self) -> None:
        """Write what was held back."""
        self._put(self._redactor.flush())
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _put(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and self._fd >= 0:
                room = self._starts[-1] + self._segment_size - self.end
                if room <= 0:
                    os.close(self._fd)
                    self._fd = -1
                    self._open(self.end)
                    continue
                written = os.write(self._fd, rest[:room])
                self.end += written
                rest = rest[written:]
        except OSError as error:
            self._fail(error)

    def _open(self, start: int) -> None:
        path = self._directory / segment_name(start)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.end = start + os.fstat(self._fd).st_size
        if not self._starts or self._starts[-1] != start:
            self._starts.append(start)
            for old in dropped(self._starts, KEPT_HEAD, KEPT_TAIL):
                (self._directory / segment_name(old)).unlink(missing_ok=True)
                self._starts.remove(old)

    def _fail(self, error: OSError) -> None:
        self.error = f"output could not be written: {error.strerror}"
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _starts_in(directory: Path) -> list[int]:
    starts = map(segment_start, os.listdir(directory))  # noqa: PTH208 - names only
    return sorted(start for start in starts if start is not None)
