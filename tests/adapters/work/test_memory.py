"""The world of the in-memory executor: crashes, kills and time, on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable

import pytest

from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.work.memory import MemoryExecutor, MemoryProgram, MemoryWarden
from pilothouse.core.run.commands import Command, Exit, ExitReason, Grew
from pilothouse.errors import ExecutorFailed


class TestClock:
    """Time moves when ``advance`` says so, waking sleepers in order."""

    __test__ = False

    def __init__(self) -> None:
        self._now = 1_000_000
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + round(seconds * 1000), id(woken), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        until = self._now + round(seconds * 1000)
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self._now = until
        await settle()


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


class World:
    def __init__(self, **programs: MemoryProgram) -> None:
        self.clock = TestClock()
        self.logs = MemoryLogStore()
        self.warden = MemoryWarden(self.clock, lambda command, _: programs[command.argv[0]], self.logs, orphan_grace=60)

    def command(self, what: str, **options: object) -> Command:
        return Command(argv=(what,), cwd="/", output="o", **options)  # type: ignore[arg-type] # test shorthand


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await test()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(bounded())


async def collect(executor: MemoryExecutor, key: str, into: list[Grew | Exit]) -> None:
    async for event in executor.attach(key):
        into.append(event)


def test_output_and_end_arrive_at_their_time() -> None:
    async def test() -> None:
        world = World(work=MemoryProgram(duration_s=10, output=((1, b"one"), (4, b"two")), code=2))
        async with MemoryExecutor(world.warden, 1) as executor:
            await executor.start(world.command("work"), "k")
            seen: list[Grew | Exit] = []
            async with asyncio.TaskGroup() as group:
                group.create_task(collect(executor, "k", seen))
                await world.clock.advance(2)
                assert seen == [Grew(3)]
                await world.clock.advance(7.9)
                assert seen == [Grew(3), Grew(6)]
                await world.clock.advance(0.1)
            started = 1_000_000
            assert seen[2:] == [
                Exit(reason=ExitReason.EXITED, code=2, output_to=6, started_at=started, ended_at=started + 10_000)
            ]

    in_loop(test)


def test_a_crash_of_the_owner_drops_the_client_and_leaves_the_work() -> None:
    async def test() -> None:
        world = World(work=MemoryProgram(duration_s=30))
        first = MemoryExecutor(world.warden, 1)
        await first.start(world.command("work"), "k")
        first.drop()
        with pytest.raises(ExecutorFailed):
            await first.inventory()
        await world.clock.advance(20)
        async with MemoryExecutor(world.warden, 2) as second:
            assert (await second.inventory()).running == {"k"}
            await world.clock.advance(11)
            assert (await second.inventory()).ended["k"].ok

    in_loop(test)


def test_without_an_owner_what_runs_beyond_the_grace_is_lost_and_what_ended_before_is_not() -> None:
    async def test() -> None:
        world = World(short=MemoryProgram(duration_s=59), long=MemoryProgram(duration_s=61))
        first = MemoryExecutor(world.warden, 1)
        instance = await first.open("attempt", 1)
        await first.start(world.command("short"), "short")
        await first.start(world.command("long"), "long")
        first.drop()
        await world.clock.advance(1000)
        async with MemoryExecutor(world.warden, 2) as second:
            inventory = await second.inventory()
            assert inventory.instance != instance
            reasons = {key: exit.reason for key, exit in inventory.ended.items()}
            assert reasons == {"short": ExitReason.EXITED, "long": ExitReason.LOST}
            assert inventory.ended["long"].ended_at == 1_000_000 + 60_000

    in_loop(test)


def test_a_killed_warden_loses_what_runs_and_comes_back_as_another_instance() -> None:
    async def test() -> None:
        world = World(work=MemoryProgram(duration_s=30), done=MemoryProgram())
        async with MemoryExecutor(world.warden, 1) as executor:
            instance = await executor.open("attempt", 1)
            await executor.start(world.command("work"), "k")
            await executor.start(world.command("done"), "d")
            seen: list[Grew | Exit] = []
            async with asyncio.TaskGroup() as group:
                group.create_task(collect(executor, "k", seen))
                await settle()
                world.warden.kill()
            assert [event.reason for event in seen if isinstance(event, Exit)] == [ExitReason.LOST]
            inventory = await executor.inventory()
            assert inventory.instance != instance
            assert inventory.ended["d"].ok
            await executor.start(world.command("work"), "k")
            assert (await executor.inventory()).running == frozenset()

    in_loop(test)


def test_the_effect_of_a_program_happens_once_and_only_when_it_ends_by_itself() -> None:
    async def test() -> None:
        happened: list[str] = []
        world = World(
            whole=MemoryProgram(duration_s=5, effect=lambda: happened.append("whole")),
            cut=MemoryProgram(duration_s=5, effect=lambda: happened.append("cut")),
        )
        async with MemoryExecutor(world.warden, 1) as executor:
            await executor.start(world.command("whole"), "whole")
            await executor.start(world.command("cut"), "cut")
            await executor.cancel("cut")
            await world.clock.advance(60)
            world.warden.settle()
            world.warden.settle()
            assert happened == ["whole"]

    in_loop(test)


def test_what_comes_first_is_the_reason() -> None:
    async def test() -> None:
        world = World(deaf=MemoryProgram(duration_s=30, ignores_term=True))
        async with MemoryExecutor(world.warden, 1) as executor:
            await executor.start(world.command("deaf", timeout_ms=1000, grace_ms=500), "k")
            await world.clock.advance(1.1)
            await executor.cancel("k", grace_ms=10_000)
            await world.clock.advance(1)
            exit = (await executor.inventory()).ended["k"]
            assert (exit.reason, exit.signal) == (ExitReason.TIMEOUT, 9)
            assert exit.ended_at - exit.started_at == 1500

    in_loop(test)


def test_secrets_of_a_command_are_redacted() -> None:
    async def test() -> None:
        world = World(leak=MemoryProgram(output=((0, b"it is hunter2"),)))
        async with MemoryExecutor(world.warden, 1) as executor:
            await executor.start(world.command("leak", redact=("hunter2",)), "k")
            await executor.inventory()
            assert await world.logs.read("o") == (0, b"it is [redacted]")

    in_loop(test)
