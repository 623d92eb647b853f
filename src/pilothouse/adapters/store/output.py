"""Attempt output on disk: the ``LogStore`` of real life.

Owns a directory of outputs, each a directory of segment files by the rules of ``core.run.output``. The keepers of
commands write there too, so nothing about an output is cached: the listing is the truth. One writer at a time: the
engine appends its own lines to an output while no command writes to it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from pilothouse.core.run.output import (
    SEGMENT_SIZE,
    Redactor,
    Segment,
    dropped,
    last_lines,
    output_parts,
    pieces,
    segment_name,
    segment_start,
    tail_start,
)
from pilothouse.errors import StoreFailed

_TAIL_BLOCK = 1 << 16


class FileLogStore:
    """The engine's ``LogStore`` port over files below ``root``; ``redact`` are secrets kept out of own lines."""

    def __init__(self, root: Path, *, redact: Iterable[str] = (), segment_size: int = SEGMENT_SIZE) -> None:
        self._root = root
        self._redact = tuple(redact)
        self._segment_size = segment_size
        self._writing = threading.Lock()

    async def append(self, output: str, data: bytes) -> tuple[int, int]:
        return await asyncio.to_thread(self._append, output, data)

    async def read(self, output: str, start: int = 0, limit: int = 1 << 20) -> tuple[int, bytes]:
        return await asyncio.to_thread(self._read, output, start, limit)

    async def tail(self, output: str, lines: int) -> str:
        return await asyncio.to_thread(self._tail, output, lines)

    async def size(self, output: str) -> int:
        return await asyncio.to_thread(self._size, output)

    async def delete(self, prefix: str) -> None:
        await asyncio.to_thread(self._delete, prefix)

    def _append(self, output: str, data: bytes) -> tuple[int, int]:
        directory = self._directory(output)
        redactor = Redactor(self._redact)
        rest = redactor.feed(data) + redactor.flush()
        try:
            with self._writing:
                self._root.parent.mkdir(parents=True, exist_ok=True)
                self._root.mkdir(mode=0o700, exist_ok=True)
                directory.mkdir(parents=True, exist_ok=True)
                begin = end = _end(segments := _segments(directory))
                starts = [segment.start for segment in segments] or [0]
                while rest:
                    if end - starts[-1] >= self._segment_size:
                        starts.append(end)
                    room = starts[-1] + self._segment_size - end
                    with (directory / segment_name(starts[-1])).open("ab") as file:
                        file.write(rest[:room])
                    end += len(rest[:room])
                    rest = rest[room:]
                for start in dropped(starts):
                    (directory / segment_name(start)).unlink(missing_ok=True)
        except OSError as error:
            raise StoreFailed(f"output {output} could not be written: {error.strerror}") from error
        return begin, end

    def _read(self, output: str, start: int, limit: int) -> tuple[int, bytes]:
        directory = self._directory(output)
        while True:
            segments = _segments(directory)
            found = pieces(segments, start, limit)
            try:
                data = b"".join(
                    _read_piece(directory / segment_name(segment.start), offset, length)
                    for segment, offset, length in found
                )
            except FileNotFoundError:
                if not directory.exists():
                    return start, b""
                continue  # dropped between the listing and the reading: the new listing is without it
            if not found:
                return max(start, 0), b""
            return found[0][0].start + found[0][1], data

    def _tail(self, output: str, lines: int) -> str:
        segments = _segments(self._directory(output))
        first, end = tail_start(segments), _end(segments)
        block = _TAIL_BLOCK
        while True:
            begin = max(first, end - block)
            data = self._read(output, begin, end - begin)[1]
            if begin == first or data.count(b"\n") > lines:
                return last_lines(data, lines)
            block *= 4

    def _size(self, output: str) -> int:
        return _end(_segments(self._directory(output)))

    def _delete(self, prefix: str) -> None:
        directory = self._directory(prefix)
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreFailed(f"output {prefix} could not be removed: {error}") from error

    def _directory(self, output: str) -> Path:
        return self._root.joinpath(*output_parts(output))


def _segments(directory: Path) -> list[Segment]:
    found: list[Segment] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                start = segment_start(entry.name)
                # A link is none of ours, and one that leads nowhere would look like a segment dropped meanwhile.
                if start is not None and entry.is_file(follow_symlinks=False):
                    try:
                        found.append(Segment(start, entry.stat(follow_symlinks=False).st_size))
                    except FileNotFoundError:
                        continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


def _end(segments: list[Segment]) -> int:
    return segments[-1].end if segments else 0


def _read_piece(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        return file.read(length) or b""
