"""A command of the in-memory executor: what it will do, and how far it has come.

Owns its streams and its time table. Evaluated whenever somebody looks: nothing here waits or knows other commands.
Times are milliseconds, but for those of a program, which are seconds after the start.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from pilothouse.core.run.commands import Command, ExitReason
from pilothouse.core.run.output import Redactor


class OutputSink(Protocol):
    """The part of the in-memory log store that is needed."""

    def write(self, output: str, data: bytes, redact: Iterable[str] = ()) -> tuple[int, int]: ...

    def end(self, output: str) -> int: ...


class MemoryProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What a command will do."""

    duration_s: float = 0.0
    output: tuple[tuple[float, bytes], ...] = ()
    """(seconds after the start, bytes), in order."""
    errors: tuple[tuple[float, bytes], ...] = ()
    """The same for stderr."""
    code: int | None = 0
    signal: int | None = None
    not_started: str = ""
    """When set, it cannot be started, and this says why."""
    ignores_term: bool = False
    """It lives through the whole grace of a cancel or timeout."""
    effect: Callable[[], None] | None = None
    """Called when it ends by itself: what it changed in other worlds."""


class Running:
    """A command under way. It writes to ``sink`` when ``write`` is called, as far as its time has come."""

    def __init__(self, command: Command, program: MemoryProgram, now: int, sink: OutputSink) -> None:
        self.command = command
        self.program = program
        self.started_at = now
        self.reason = ExitReason.EXITED
        self.ends_at = now + round(program.duration_s * 1000)
        self.timeout_at = now + command.timeout_ms if command.timeout_ms else None
        self._sink = sink
        self._errors = command.errors or command.output
        self._redactors = {name: Redactor(command.redact) for name in (command.output, self._errors)}
        self._unwritten = self._timetable(program, now)
        if program.not_started:
            self.reason = ExitReason.NOT_STARTED
            self.ends_at = now
            self._unwritten.clear()

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of its output, and of its errors if they are kept apart."""
        to, *errors = (self._sink.end(name) for name in self._redactors)
        return to, sum(errors)

    def _timetable(self, program: MemoryProgram, now: int) -> list[tuple[int, str, bytes]]:
        return [
            (now + round(after * 1000), name, data)
            for after, name, data in heapq.merge(
                ((after, self.command.output, data) for after, data in program.output),
                ((after, self._errors, data) for after, data in program.errors),
                key=lambda piece: piece[0],
            )
        ]

    def go_on(self, program: MemoryProgram, now: int) -> None:
        """What it waited for has come: this is what it does from now on. Whoever ended it meanwhile is first."""
        if self.reason is ExitReason.EXITED:
            self.program = program
            self.ends_at = now + round(program.duration_s * 1000)
            self._unwritten = self._timetable(program, now)

    def write(self, until: int) -> None:
        """Write what is due by ``until``."""
        while self._unwritten and self._unwritten[0][0] <= until:
            _, name, data = self._unwritten.pop(0)
            self._sink.write(name, self._redactors[name].feed(data))

    def close(self) -> None:
        """Write what was held back because it could have become a secret."""
        for name, redactor in self._redactors.items():
            self._sink.write(name, redactor.flush())

    def end(self, reason: ExitReason, at: int, grace_ms: int) -> None:
        """Signalled at ``at``; the cause that comes first is the reason."""
        if at >= self.ends_at:
            return
        if self.reason is ExitReason.EXITED:
            self.reason = reason
        self.ends_at = min(self.ends_at, at + (grace_ms if self.program.ignores_term else 0))

    def next_change(self) -> int:
        """When it next writes, times out or ends."""
        times = [self.ends_at]
        if self._unwritten:
            times.append(self._unwritten[0][0])
        if self.timeout_at is not None and self.reason is ExitReason.EXITED:
            times.append(self.timeout_at)
        return min(times)
