"""One agent at work in memory, on virtual time: what a test lets it print, and what is recorded of that."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tests.engine.server import Clock

from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.adapters.agents.memory import AgentWorld, MemoryAgents
from pilothouse.adapters.agents.pricing import Price
from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.work.memory import MemoryExecutor, MemoryProgram, MemoryWarden
from pilothouse.core.plan.agent_events import AgentEvent
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentEnded, News
from pilothouse.core.run.commands import Command
from pilothouse.core.run.events import Event, NeedsApproval
from pilothouse.engine.agents.news import Bounds
from pilothouse.engine.agents.work import AgentWork
from pilothouse.engine.driving.commands import Commands
from pilothouse.engine.driving.effects import Within

OUTPUT = "p/n1/1/work"
DONE = Finished()


def work(**changes: Any) -> RunWork:
    effect = RunWork(
        key="n1/1/work",
        node_id="n1",
        attempt=1,
        phase=Phase.WORK,
        repo="/repo",
        spec=AgentSpec(agent="scripted"),
        path="/tree",
        place="memory-1",
        output=OUTPUT,
        plan_env={},
        inherit_env=(),
        plan_id="p",
        producer_id="job",
        task="do it",
        instructions="",
    )
    return msgspec.structs.replace(effect, **changes)


class _Clock(Clock):
    """It is not midnight of the first day."""

    def now_ms(self) -> int:
        return super().now_ms() + 1_000_000


class Desk:
    """An agent, whoever follows it, and the machine they are on. ``program`` is what the agent does."""

    def __init__(self, program: MemoryProgram, *, segment_size: int = 4 << 20, **options: Any) -> None:
        self.clock = _Clock()
        self.logs = MemoryLogStore(segment_size=segment_size)
        self.program = program
        self.warden = MemoryWarden(self.clock, self._start, self.logs)
        self.agents = MemoryAgents(AgentWorld(prices={"m": Price(input=1.0, output=2.0)}))
        self.recorded: list[tuple[float, tuple[Event, ...]]] = []
        """When, and what."""
        self.executor = MemoryExecutor(self.warden, 1)
        self.options: dict[str, Any] = {"bounds": Bounds(), **options}
        self.within = self._within(1)
        self.started = 0

    def _start(self, command: Command, key: str) -> MemoryProgram:
        self.started += 1
        return self.program

    def _within(self, epoch: int) -> Within:
        return Within("p", epoch, lambda events: self.recorded.append((asyncio.get_running_loop().time(), events)))

    async def follow(self, effect: RunWork | None = None) -> msgspec.Struct:
        performer = AgentWork(Commands(self.executor, self.clock), self.agents, self.logs, self.clock, **self.options)
        return await performer.run(effect or work(), self.within)

    async def ended(self, effect: RunWork | None = None) -> AgentEnded:
        ended = await self.follow(effect)
        assert isinstance(ended, AgentEnded)
        return ended

    async def next_owner(self) -> RunWork:
        """The owner dies, now, and another one comes; answers the effect as that one has it."""
        self.executor.drop()
        self.executor = MemoryExecutor(self.warden, self.executor.epoch + 1)
        self.within = self._within(self.executor.epoch)
        return work(adopted=True, read_to=max((event.to for event in self.events()), default=0))

    def events(self, kind: type[Any] | None = None) -> list[Any]:
        """What an agent's events say was recorded, but not how far raw output has grown."""
        told = [event for _, events in self.recorded for event in events]
        return [event for event in told if isinstance(event, kind or (AgentEvent | NeedsApproval))]


def printing(*told: News | Finished | bytes | tuple[float, News | Finished | bytes], **more: Any) -> MemoryProgram:
    """A program that tells this, each at once or after so many seconds, and ends when it has told the last."""
    pieces: list[tuple[float, bytes]] = []
    after = 0.0
    for item in told:
        if isinstance(item, tuple):
            after, item = item
        pieces.append((after, item if isinstance(item, bytes) else encode(item)))
    return MemoryProgram(**{"output": tuple(pieces), "duration_s": after, **more})


async def interrupted(desk: Desk, after_s: float) -> RunWork:
    """Follow for so long, and then be gone as after a crash; answers the effect for the next owner."""
    task = asyncio.create_task(desk.follow())
    await desk.clock.sleep(after_s)
    task.cancel()
    await asyncio.wait((task,))
    return await desk.next_owner()
