"""What a plan wants done beside commands and git: waiting for a moment, and answering an agent."""

from __future__ import annotations

import asyncio

from tests.engine.server import Clock, run

from pilothouse.adapters.agents.memory import MemoryAgents
from pilothouse.adapters.git.memory import MemoryGit
from pilothouse.adapters.git.memory_world import MemoryWorld
from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.work.memory import MemoryExecutor, MemoryProgram, MemoryWarden
from pilothouse.core.plan.effects import AnswerAgent
from pilothouse.core.run.contract import Ended, Timer, TimeUp
from pilothouse.engine.effects import Within
from pilothouse.engine.plan_effects import PlanEffects


class Bench:
    def __init__(self) -> None:
        self.clock = _Clock()
        self.agents = MemoryAgents()
        self.within = Within("r", 1, lambda events: None)
        logs = MemoryLogStore()
        executor = MemoryExecutor(MemoryWarden(self.clock, lambda *_: MemoryProgram(), logs), 1)
        self.perform = PlanEffects(MemoryGit(MemoryWorld()), executor, self.clock, self.agents, logs)


class _Clock(Clock):
    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_timer_waits_for_its_moment() -> None:
    async def test() -> None:
        bench = Bench()
        assert await bench.perform(Timer(key="t", until=90_000), bench.within) == TimeUp()
        assert now() == 90.0

    run(test)


def test_a_moment_that_has_passed_is_up_at_once() -> None:
    async def test() -> None:
        bench = Bench()
        assert await bench.perform(Timer(key="t", until=0), bench.within) == TimeUp()
        assert now() == 0.0

    run(test)


def test_a_timer_notices_that_the_clock_was_set() -> None:
    async def test() -> None:
        bench = Bench()
        waiting = asyncio.create_task(_perform(bench, Timer(key="t", until=10_000_000)))
        await asyncio.sleep(100.0)
        bench.clock.ahead_ms = 10_000_000
        assert await waiting == TimeUp()
        assert now() <= 120.0

    run(test)


def test_a_timer_that_is_unwanted_ends() -> None:
    async def test() -> None:
        bench = Bench()
        waiting = asyncio.create_task(_perform(bench, Timer(key="t", until=10_000_000)))
        await asyncio.sleep(1.0)
        bench.within.unwanted.set()
        assert await waiting == Ended()
        assert now() == 1.0

    run(test)


def test_an_answer_reaches_the_agent() -> None:
    async def test() -> None:
        bench = Bench()
        bench.agents.world.private["p"] = {"n"}
        answer = AnswerAgent(key="a", output="p/n/1/work", plan_id="p", node_id="n", request_id="r", allowed=True)
        await bench.perform(answer, bench.within)
        await bench.perform(answer, bench.within)
        assert bench.agents.world.answers == {("p/n/1/work", "r"): answer}

    run(test)


async def _perform(bench: Bench, timer: Timer) -> object:
    return await bench.perform(timer, bench.within)
