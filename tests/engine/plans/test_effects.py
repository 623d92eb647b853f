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
from pilothouse.core.run.contract import Effect, Ended, Timer, TimeUp
from pilothouse.engine.driving.effects import Done, Within
from pilothouse.engine.plans.effects import PlanEffects

ANSWER = AnswerAgent(key="a", output="p/n/1/work", plan_id="p", node_id="n", request_id="r", allowed=True)


class Bench:
    def __init__(self) -> None:
        self.clock = _Clock()
        self.agents = MemoryAgents()
        self.within = Within("r", 1, lambda events: None)
        self.perform = self.performer(self.agents)

    def performer(self, agents: MemoryAgents) -> PlanEffects:
        logs = MemoryLogStore()
        executor = MemoryExecutor(MemoryWarden(self.clock, lambda *_: MemoryProgram(), logs), 1)
        return PlanEffects(MemoryGit(MemoryWorld()), executor, self.clock, agents, logs)


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
        await bench.perform(ANSWER, bench.within)
        await bench.perform(ANSWER, bench.within)
        assert bench.agents.world.answers == {("p/n/1/work", "r"): ANSWER}

    run(test)


def test_an_answer_that_cannot_be_handed_over_is_handed_over_later() -> None:
    async def test() -> None:
        bench = Bench()
        bench.perform = bench.performer(_FullDisk(2))
        assert await bench.perform(ANSWER, bench.within) == Done()
        assert now() == 2.0

    run(test)


def test_an_answer_that_cannot_be_handed_over_ends_with_its_agent() -> None:
    async def test() -> None:
        bench = Bench()
        bench.perform = bench.performer(_FullDisk(1_000_000))
        waiting = asyncio.create_task(_perform(bench, ANSWER))
        await asyncio.sleep(10.5)
        bench.within.unwanted.set()
        assert await waiting == Ended()
        assert now() == 10.5

    run(test)


class _FullDisk(MemoryAgents):
    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    async def answer(self, answer: AnswerAgent) -> None:
        if self._times:
            self._times -= 1
            raise OSError(28, "No space left on device")
        await super().answer(answer)


async def _perform(bench: Bench, effect: Effect) -> object:
    return await bench.perform(effect, bench.within)
