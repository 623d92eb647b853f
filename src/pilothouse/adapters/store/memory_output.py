"""Attempt output in memory: the twin of the file log store, by the same rules of segments and redaction."""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.core.run.output import (
    SEGMENT_SIZE,
    Redactor,
    Segment,
    dropped,
    last_lines,
    output_parts,
    pieces,
    tail_start,
)


class MemoryLogStore:
    """The engine's ``LogStore`` port over a dictionary. ``write`` is ``append`` without the await, for other twins."""

    def __init__(self, *, redact: Iterable[str] = (), segment_size: int = SEGMENT_SIZE) -> None:
        self._redact = tuple(redact)
        self._segment_size = segment_size
        self._outputs: dict[tuple[str, ...], dict[int, bytearray]] = {}

    def write(self, output: str, data: bytes, redact: Iterable[str] = ()) -> tuple[int, int]:
        """Append at once; answers the range [from, to) it took."""
        redactor = Redactor((*self._redact, *redact))
        rest = redactor.feed(data) + redactor.flush()
        segments = self._outputs.setdefault(output_parts(output), {0: bytearray()})
        begin = end = self.end(output)
        while rest:
            last = max(segments)
            room = last + self._segment_size - end
            if room <= 0:
                segments[end] = bytearray()
                continue
            segments[last] += rest[:room]
            end += len(rest[:room])
            rest = rest[room:]
        for start in dropped(list(segments)):
            del segments[start]
        return begin, end

    def end(self, output: str) -> int:
        """Bytes written in all."""
        segments = self._outputs.get(output_parts(output))
        return max(segments) + len(segments[max(segments)]) if segments else 0

    async def append(self, output: str, data: bytes) -> tuple[int, int]:
        return self.write(output, data)

    async def read(self, output: str, start: int = 0, limit: int = 1 << 20) -> tuple[int, bytes]:
        segments = self._outputs.get(output_parts(output), {})
        found = pieces((Segment(first, len(data)) for first, data in segments.items()), start, limit)
        if not found:
            return max(start, 0), b""
        data = b"".join(bytes(segments[s.start][offset : offset + length]) for s, offset, length in found)
        return found[0][0].start + found[0][1], data

    async def tail(self, output: str, lines: int) -> str:
        segments = self._outputs.get(output_parts(output), {})
        first = tail_start(Segment(start, len(data)) for start, data in segments.items())
        data = b"".join(bytes(segments[start]) for start in sorted(segments) if start >= first)
        return last_lines(data, lines)

    async def size(self, output: str) -> int:
        return self.end(output)

    async def delete(self, prefix: str) -> None:
        parts = output_parts(prefix)
        for name in [name for name in self._outputs if name[: len(parts)] == parts]:
            del self._outputs[name]
