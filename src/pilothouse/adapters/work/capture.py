"""What a command prints: one stream of it, from the pipe the command writes to into the segments of an output.

Owns the two ends of the pipe and the writer behind it. Knows neither which stream it is nor who reads the output;
one chunk is moved per call, so that two streams and a channel share one thread fairly. Standard library only.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from pathlib import Path

from pilothouse.adapters.work.segments import SegmentWriter

_CHUNK = 1 << 18
_LAST_READS = 64
"""More than enough for what fits into a pipe."""


class Capture:
    """A stream. ``to`` is the size of its output in bytes, ``error`` says why some of it is missing."""

    def __init__(self, directory: Path, secrets: Iterable[str], poll: select.poll) -> None:
        self._segments = SegmentWriter(directory, secrets)
        self._poll = poll
        self.pipe, self.writer = os.pipe()
        os.set_blocking(self.pipe, False)
        poll.register(self.pipe, select.POLLIN)

    @property
    def to(self) -> int:
        return self._segments.end

    @property
    def error(self) -> str:
        return self._segments.error

    def close_writer(self) -> None:
        """Called once the command has its copy: the pipe ends when the last process closes it."""
        os.close(self.writer)

    def copy(self) -> bool:
        """Move one chunk from the pipe to the output. False when there is nothing more now."""
        if self.pipe < 0:
            return False
        try:
            data = os.read(self.pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._poll.unregister(self.pipe)
            os.close(self.pipe)
            self.pipe = -1
            return False
        self._segments.write(data)
        return True

    def close(self) -> None:
        """Take what the dead have left in the pipe; one that somebody outside the tree holds is not waited for."""
        for _ in range(_LAST_READS):
            if not self.copy():
                break
        self._segments.close()
