"""Following an agent at work: from what its process prints to news in the log, and from its end to what came of it.

Reads the output as it grows, from the start also when another owner began it: readers are deterministic, and what the
log holds already is left out. A reader that fails, or output that cannot be read, never ends the agent: its process is
followed to its end, and what came of it says what was wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.recover import command_key
from pilothouse.core.run.agents import AgentEnded, AgentReader, News, Noted, Used
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.core.run.usage import Usage
from pilothouse.engine.agents.lines import MAX_LINE, Gap, Line, Lines
from pilothouse.engine.agents.news import BOUNDS, Bounds, Tell, Telling
from pilothouse.engine.driving.commands import Commands
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.driving.undisturbed import undisturbed
from pilothouse.engine.ports import Agents, Clock, LogStore
from pilothouse.errors import PilothouseError

log = logging.getLogger(__name__)

LINGER_S = 10.0
"""How long an agent that has told its final event may go on before it is ended."""
_PIECE = 64 << 10
"""Bytes that are read and split at a time."""
_LINES_AT_A_TIME = 128
"""Or as many bytes as a piece has: what is understood in one go, on a thread."""
_READ_WHEN_UNWANTED = 1 << 20
"""Bytes that are still read of an agent that was to be ended: a stop does not wait for more."""
_ERRORS = 32 << 10
"""Bytes at the end of standard error that tell why an agent failed."""
JUDGE_S = 30.0
"""How long a reader may take to say what is to be made of an end: a stop waits for it."""
_PATIENCE_S = (0.05, 0.2, 1.0)
"""Pauses before output that could not be read is read again; the last one for as long as the process runs."""


class AgentWork:
    """Performs the phases that an agent works on."""

    def __init__(
        self,
        commands: Commands,
        agents: Agents,
        logs: LogStore,
        clock: Clock,
        *,
        linger_s: float = LINGER_S,
        bounds: Bounds = BOUNDS,
        max_line: int = MAX_LINE,
    ) -> None:
        self._commands = commands
        self._agents = agents
        self._logs = logs
        self._clock = clock
        self._linger_s = linger_s
        self._bounds = bounds
        self._max_line = max_line

    async def run(
        self, effect: RunWork, within: Within, tell: Tell | None = None, reading: Reading | None = None
    ) -> AgentEnded | Failed | Ended:
        """Have the agent do its work, whoever started it. Answers ``AgentEnded``, or what ``Commands.run`` does for
        one that was never started. ``tell`` takes its news instead of the log; ``reading`` is a hold on how far that
        has come."""
        telling = Telling(effect, within, self._clock, self._agents.priced, self._bounds, tell)
        output = _Output(effect, self._agents, self._logs, telling, Lines(self._max_line))
        if reading is not None:
            reading.output = output
        key = command_key(within.run_id, effect.key)
        following = _Following(output, telling, self._clock, self._linger_s, partial(self._commands.end, key))
        ended = await self._commands.run(effect, within, self._agents.command, (following,))
        if not isinstance(ended, Exit):
            return ended
        await output.read_to_the_end(ended, self._clock, within.unwanted)
        if ended.output_to < output.position:  # an executor that lost it does not know what it printed
            ended = msgspec.structs.replace(ended, output_to=output.position)
        judged = await output.judge(ended)
        took = ended.ended_at - ended.started_at if ended.started_at else 0
        time = (Used(usage=Usage(wall_ms=took)),) if took > 0 else ()
        return msgspec.structs.replace(judged, exit=ended, news=telling.at_the_end((*judged.news, *time)))


class Reading:
    """For those who hear of an agent in another way than by what it prints."""

    def __init__(self) -> None:
        self.output: _Output | None = None

    async def catch_up(self) -> None:
        """Tell all that it has printed by now, as far as it can be read."""
        if self.output is not None:
            await self.output.catch_up()


class _Output:
    """What the agent prints, read line by line. Where it stopped, also in the middle, it goes on when called again."""

    def __init__(self, effect: RunWork, agents: Agents, logs: LogStore, telling: Telling, lines: Lines) -> None:
        self._effect = effect
        self._agents = agents
        self._logs = logs
        self._telling = telling
        self._lines = lines
        self._reader: AgentReader | None = None
        self._trouble = ""
        """Why what is there could not be read; another try may."""
        self._broken = ""
        """What the reader raised: it cannot be trusted any more."""
        self.finished = asyncio.Event()
        """The agent has told its final event."""
        self._size = 0
        self._bell = asyncio.Event()
        self._one_by_one = asyncio.Lock()
        """Lines are understood in their order, whoever has them read."""

    @property
    def position(self) -> int:
        """How far it was read."""
        return self._lines.position

    def grew(self, to: int) -> None:
        if to > self._size:
            self._size = to
            self._bell.set()

    async def follow(self, clock: Clock) -> None:
        """Read whatever is printed. Until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            await self.read()
            while self._trouble:  # whoever waits for an answer prints nothing more that would ring
                await clock.sleep(_PATIENCE_S[-1])
                await self.read()

    async def catch_up(self) -> None:
        """Read on to where it stands now, which the executor may not have told yet, and tell all of it."""
        await self.read(look=True)
        self._telling.flush()

    async def read(self, most: int | None = None, *, look: bool = False) -> None:
        """Read on to where it has grown, or ``most`` bytes, and tell what is new. ``look``: find out how far that
        is."""
        async with self._one_by_one:
            await self._read(most, look)

    async def _read(self, most: int | None, look: bool) -> None:
        try:
            if look:
                self.grew(await self._logs.size(self._effect.output))
            end = self._size if most is None else min(self._size, self.position + most)
            await self._tell()
            while self.position < end:
                start, data = await self._logs.read(self._effect.output, self.position, _PIECE)
                if not data:
                    break
                self._lines.feed(start, data)
                await self._tell()
            self._trouble = ""
        except (PilothouseError, OSError) as error:
            log.warning("agent.unreadable", exc_info=error, extra={"output": self._effect.output})
            self._trouble = f"its output could not be read: {error}"

    async def read_to_the_end(self, exit: Exit, clock: Clock, unwanted: asyncio.Event) -> None:
        """The process has ended: read all that is left, or of one that is unwanted a little more."""
        pauses = iter(_PATIENCE_S)
        while True:
            before = self.position
            await self.read(_READ_WHEN_UNWANTED, look=exit.reason is ExitReason.LOST)
            if self._trouble:
                if (pause := next(pauses, None)) is None:
                    return
                await clock.sleep(pause)
            elif self.position in (before, self._size) or unwanted.is_set():
                break
        if self.position >= self._size:
            async with self._one_by_one:
                self._lines.finish()
                await self._tell()
        else:
            self._telling.line((Noted(text="… more in the raw output", level="warning"),), self.position)

    async def judge(self, exit: Exit) -> AgentEnded:
        """What is to be made of the end of its process."""
        async with self._one_by_one:
            return await self._judged(exit)

    async def _judged(self, exit: Exit) -> AgentEnded:
        reader = await self._reading()
        if reader is not None and not self._trouble:
            try:
                errors = await self._errors()
                async with asyncio.timeout(JUDGE_S):
                    return await asyncio.to_thread(reader.end, exit, errors)
            except Exception as error:  # a time that is up among them: the thread is left to itself
                self._give_up(error)
        return AgentEnded(exit=exit, ok=False, error=self._broken or self._trouble)

    async def _tell(self) -> None:
        """Have what is whole understood, on a thread: a reader may look at small files. What was taken is told, whoever
        stops waiting for it."""
        reader = await self._reading()  # before anything is taken: whoever is cancelled here has taken nothing
        while batch := self._lines.some(_LINES_AT_A_TIME, _PIECE):
            await undisturbed(self._understood(reader, batch))
            reader = await self._reading()

    async def _understood(self, reader: AgentReader | None, batch: Sequence[Line | Gap]) -> None:
        told = await asyncio.to_thread(_understand, reader, batch)
        for news, to in told.news:
            self._telling.line(news, to)
        if told.finished:
            self.finished.set()
        if told.error is not None:
            self._give_up(told.error)

    async def _reading(self) -> AgentReader | None:
        """The reader, made when first needed: it may look at what was prepared for the agent. None: it failed."""
        if self._reader is None and not self._broken:
            try:
                self._reader = await asyncio.to_thread(self._agents.reader, self._effect)
            except Exception as error:
                self._give_up(error)
        return self._reader if not self._broken else None

    def _give_up(self, error: Exception) -> None:
        """Readers promise not to raise, so this is a bug, or its files are gone; the agent is not to suffer for it."""
        log.error("agent.reader_failed", exc_info=error, extra={"output": self._effect.output})
        self._broken = f"what it told could not be understood: {type(error).__name__}: {error}"

    async def _errors(self) -> str:
        output = self._effect.errors
        try:
            start = max(0, await self._logs.size(output) - _ERRORS)
            return (await self._logs.read(output, start, _ERRORS))[1].decode("utf-8", "replace")
        except (PilothouseError, OSError) as error:
            return f"(its standard error could not be read: {error})"


@dataclass(slots=True)
class _Understood:
    """What a batch of lines says, each part with where it ends."""

    news: list[tuple[tuple[News, ...], int]] = field(default_factory=list)
    finished: bool = False
    error: Exception | None = None
    """What the reader raised; lines after that are passed over."""


def _understand(reader: AgentReader | None, batch: Sequence[Line | Gap]) -> _Understood:
    told = _Understood()
    for item in batch:
        if isinstance(item, Gap):
            text = f"{item.size:,} bytes of its output: {item.why}"
            told.news.append(((Noted(text=text, level="warning"),), item.to))
        elif reader is not None and told.error is None:
            try:
                told.news.append((tuple(reader.line(item.data)), item.to))
                told.finished = told.finished or reader.finished
            except Exception as error:
                told.error = error
    return told


@dataclass(frozen=True, slots=True)
class _Following:
    """Listens while the process runs: reads, records, and ends an agent that is through and lingers."""

    output: _Output
    telling: Telling
    clock: Clock
    linger_s: float
    end: Callable[[], Awaitable[None]]

    def grew(self, to: int) -> None:
        self.output.grew(to)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.telling.run())
            group.create_task(self.output.follow(self.clock))
            await self.output.finished.wait()
            await self.clock.sleep(self.linger_s)
            await self.end()
