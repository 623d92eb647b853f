"""The world of the in-memory executor: what runs, what has ended, which instance of the warden lives.

A command is a function of the clock, evaluated whenever somebody looks: there is no task that could outlive the
loop, and nothing here awaits but ``sleep_until``. Knows of its clients only who the owner is.
Times are milliseconds of the given clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from pilothouse.adapters.work.memory_command import MemoryProgram, OutputSink, Running
from pilothouse.core.run.commands import Command, Exit, ExitReason, Inventory
from pilothouse.core.run.output import output_parts
from pilothouse.errors import ExecutorFailed

_SIGTERM, _SIGKILL = 15, 9


class Clock(Protocol):
    """The part of the engine's clock that is needed."""

    def now_ms(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class Owner(Protocol):
    """A client, as far as the world cares."""

    epoch: int


class MemoryWarden:
    """The world of one simulated machine. ``programs`` says what each command does."""

    def __init__(
        self,
        clock: Clock,
        programs: Callable[[Command, str], MemoryProgram],
        output: OutputSink,
        *,
        orphan_grace: float = 60.0,
    ) -> None:
        self._clock = clock
        self._programs = programs
        self._output = output
        self._orphan_grace_ms = round(orphan_grace * 1000)
        self._lives = 1
        self._running: dict[str, Running] = {}
        self._ended: dict[str, Exit] = {}
        self._fences: dict[str, int] = {}
        self._epoch = 0
        self._owner: Owner | None = None
        self._owner_gone_at: int | None = clock.now_ms()
        self._wakers: dict[asyncio.Event, None] = {}  # in order: a set would wake them by their addresses

    @property
    def instance(self) -> str:
        return f"memory-{self._lives}"

    @property
    def epoch(self) -> int:
        """The greatest owner epoch met so far."""
        return self._epoch

    def kill(self) -> None:
        """The warden is killed: everything it runs ends as lost, and another instance takes its place."""
        self._settle()
        now = self._clock.now_ms()
        for key in list(self._running):
            self._end_lost(key, now, "its warden was killed")
        self._renew()

    def running(self) -> frozenset[str]:
        """The keys of what runs now."""
        self._settle()
        return frozenset(self._running)

    def settle(self) -> None:
        """Let everything happen that is due by now, effects of programs included."""
        self._settle()

    def go_on(self, key: str, program: MemoryProgram) -> None:
        """A command that waited for something does this from now on; one that has ended does nothing more."""
        self._settle()
        if running := self._running.get(key):
            running.go_on(program, self._clock.now_ms())
            self._settle()
            self._wake_all()

    # What a client may ask

    def adopt(self, owner: Owner) -> None:
        """An owner introduces itself."""
        self._settle()
        if owner.epoch < self._epoch:
            raise ExecutorFailed("refused: a newer owner has taken over")
        self._epoch = owner.epoch
        self._owner = owner
        self._owner_gone_at = None
        self._wake_all()

    def leave(self, owner: Owner) -> None:
        """An owner is gone, by its own will or by a crash."""
        if self._owner is owner:
            self._owner = None
            self._owner_gone_at = self._clock.now_ms()
        self._wake_all()

    def open(self, attempt: str, fence: int) -> str:
        if fence < self._fences.get(attempt, fence):
            raise ExecutorFailed(f"refused: attempt {attempt} has a newer fence")
        self._fences[attempt] = fence
        return self.instance

    def start(self, command: Command, key: str) -> None:
        self._settle()
        if key in self._running or key in self._ended:
            return
        for name in filter(None, (command.output, command.errors)):
            output_parts(name)
        self._running[key] = Running(command, self._programs(command, key), self._clock.now_ms(), self._output)
        self._settle()

    def cancel(self, key: str, grace_ms: int | None) -> None:
        self._settle()
        if running := self._running.get(key):
            grace = running.command.grace_ms if grace_ms is None else grace_ms
            running.end(ExitReason.CANCELED, self._clock.now_ms(), grace)
            self._settle()
            self._wake_all()

    def inventory(self) -> Inventory:
        self._settle()
        return Inventory(instance=self.instance, running=frozenset(self._running), ended=dict(self._ended))

    def forget(self, key: str) -> None:
        self._ended.pop(key, None)

    def look(self, key: str) -> tuple[tuple[int, int], Exit | None, int]:
        """(sizes of output and errors, its end, when to look again) of a command; an unknown one is lost."""
        self._settle()
        if running := self._running.get(key):
            return running.sizes, None, running.next_change()
        exit = self._ended.get(key, Exit(reason=ExitReason.LOST, error="unknown to the warden"))
        return (exit.output_to, 0), exit, 0

    @contextmanager
    def waker(self) -> Iterator[asyncio.Event]:
        """An event that is set when something happens that no clock announces."""
        event = asyncio.Event()
        self._wakers[event] = None
        try:
            yield event
        finally:
            self._wakers.pop(event, None)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def sleep_until(self, at_ms: int) -> None:
        await self._clock.sleep(max(0, at_ms - self._clock.now_ms()) / 1000)

    def shutdown(self) -> None:
        """Everything is canceled with its grace cut short, and the warden is replaced on the next contact."""
        self._settle()
        now = self._clock.now_ms()
        for running in self._running.values():
            running.end(ExitReason.CANCELED, now, 0)
        self._settle()
        self._renew()

    def _settle(self) -> None:
        now = self._clock.now_ms()
        lapse = None
        if self._owner_gone_at is not None and now >= self._owner_gone_at + self._orphan_grace_ms:
            lapse = self._owner_gone_at + self._orphan_grace_ms
        horizon = now if lapse is None else lapse
        for key in list(self._running):
            self._advance(key, horizon)
        if lapse is not None:
            for key in list(self._running):
                self._end_lost(key, lapse, "no owner")
            self._owner_gone_at = None
            self._renew()

    def _advance(self, key: str, now: int) -> None:
        running = self._running[key]
        program, command = running.program, running.command
        if running.timeout_at is not None and running.timeout_at <= now:
            running.end(ExitReason.TIMEOUT, running.timeout_at, command.grace_ms)
            running.timeout_at = None
        running.write(min(now, running.ends_at))
        if running.ends_at > now:
            return
        own = running.reason is ExitReason.EXITED
        running.close()
        killed = None if program.not_started else _SIGKILL if program.ignores_term else _SIGTERM
        self._record(
            key,
            Exit(
                reason=running.reason,
                code=program.code if own and program.signal is None else None,
                signal=program.signal if own else killed,
                error=program.not_started,
                output_to=running.sizes[0],
                started_at=running.started_at,
                ended_at=running.ends_at,
            ),
        )
        if own and program.effect is not None:
            program.effect()

    def _end_lost(self, key: str, at: int, why: str) -> None:
        running = self._running[key]
        running.close()
        self._record(
            key,
            Exit(
                reason=ExitReason.LOST,
                error=why,
                output_to=running.sizes[0],
                started_at=running.started_at,
                ended_at=at,
            ),
        )

    def _record(self, key: str, exit: Exit) -> None:
        del self._running[key]
        self._ended[key] = exit
        self._wake_all()

    def _renew(self) -> None:
        self._lives += 1
        self._fences.clear()
        self._wake_all()

    def _wake_all(self) -> None:
        for event in self._wakers:
            event.set()
