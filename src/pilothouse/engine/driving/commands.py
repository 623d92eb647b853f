"""Running the command of a phase to its end, whoever started it: started once, found again, ended when unwanted.

Knows neither what the command is nor what it prints: listeners are told how far its output has grown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.events import LogAppended
from pilothouse.core.plan.recover import command_key
from pilothouse.core.run.commands import Command, Exit, ExitReason, Grew
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.ports import Clock, Executor
from pilothouse.errors import BadInput, ExecutorFailed, Unavailable

LOG_INTERVAL_S = 0.2
"""LOG_APPENDED at most this often per attempt."""

_PATIENCE_S = (0.0, 0.05, 0.2, 1.0, 5.0)
"""Pauses before an executor that failed is asked again what became of a command."""


CommandOf = Callable[[RunWork], Coroutine[Any, Any, Command]]


class Listener(Protocol):
    """Somebody who cares how far the output of a command has grown."""

    def grew(self, to: int) -> None:
        """It is ``to`` bytes now; also told for a last time when the command has ended."""
        ...

    async def run(self) -> None:
        """Do what has to be done meanwhile; cancelled when the command has ended, and begun again when it is followed
        anew."""
        ...


class Commands:
    """Runs commands on an executor."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock

    async def run(
        self,
        effect: RunWork,
        within: Within,
        command_of: CommandOf,
        listeners: Sequence[Listener] = (),
    ) -> Exit | Failed | Ended:
        """Run a command to its end; ended when unwanted, left running when this process goes. ``Failed`` and ``Ended``
        mean that it was certainly never started."""
        key = command_key(within.run_id, effect.key)
        trouble: ExecutorFailed | None = None
        if not effect.adopted:
            try:
                command = await within.unless_unwanted(command_of(effect))
                if isinstance(command, Ended):
                    return command
                await self._executor.start(command, key)
            except (BadInput, Unavailable) as error:
                return Failed(error=str(error))
            except ExecutorFailed as error:
                trouble = error
        reporter = _Reporter(effect, within, self._clock)
        # Whether it was started, or how it ended, is not known when the executor fails. It is never started again, but
        # what runs must not be taken for lost: that would put a second one beside it.
        for pause in _PATIENCE_S:
            if trouble is not None:
                await self._clock.sleep(pause)
                try:
                    inventory = await self._executor.inventory()
                except ExecutorFailed:
                    continue
                if not inventory.knows(key):
                    if inventory.instance == effect.place and not effect.adopted:
                        return Failed(error=str(trouble))  # it was refused, so it certainly never started
                    break
            try:
                followed = await self._follow(key, within, (reporter, *listeners))
            except ExceptionGroup:  # a bug in a listener; the command must not run on with nobody looking
                await self.end(key)
                await _to_the_end(self._executor.attach(key), ())
                raise
            reporter.flush()
            if not isinstance(followed, ExecutorFailed):
                return followed
            trouble = followed
        return Exit(reason=ExitReason.LOST, error=str(trouble))

    async def end(self, key: str) -> None:
        """Until the executor has taken it; whoever follows the command says when that is pointless."""
        while True:
            try:
                await self._executor.cancel(key)
                return
            except ExecutorFailed:
                await self._clock.sleep(_PATIENCE_S[1])

    async def _follow(self, key: str, within: Within, listeners: Sequence[Listener]) -> Exit | ExecutorFailed:
        async with asyncio.TaskGroup() as group:
            busy = [group.create_task(self._end_when_unwanted(key, within))]
            busy += [group.create_task(listener.run()) for listener in listeners]
            ended = await _to_the_end(self._executor.attach(key), listeners)
            for task in busy:
                task.cancel()
        return ended

    async def _end_when_unwanted(self, key: str, within: Within) -> None:
        await within.unwanted.wait()
        await self.end(key)


async def _to_the_end(news: AsyncIterator[Grew | Exit], listeners: Sequence[Listener]) -> Exit | ExecutorFailed:
    try:
        async for item in news:
            to = item.output_to if isinstance(item, Exit) else item.to
            for listener in listeners:
                listener.grew(to)
            if isinstance(item, Exit):
                return item
    except ExecutorFailed as error:
        return error
    finally:
        if isinstance(news, AsyncGenerator):
            await news.aclose()
    return Exit(reason=ExitReason.LOST, error="the executor stopped telling before the command had ended")


class _Reporter:
    """Says in the log how far output has grown: at once the first time, then merged to the interval."""

    def __init__(self, effect: RunWork, within: Within, clock: Clock) -> None:
        self._effect = effect
        self._within = within
        self._clock = clock
        self._said = 0
        self._to = 0
        self._bell = asyncio.Event()

    def grew(self, to: int) -> None:
        if to > self._to:
            self._to = to
            self._bell.set()

    async def run(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            self.flush()
            await self._clock.sleep(LOG_INTERVAL_S)

    def flush(self) -> None:
        if self._to > self._said:
            effect = self._effect
            event = LogAppended(
                node_id=effect.node_id,
                attempt=effect.attempt,
                phase=effect.phase,
                start=self._said,
                end=self._to,
            )
            self._said = self._to
            self._within.record((event,))
