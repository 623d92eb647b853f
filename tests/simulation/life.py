"""One life of the owner process: the real engine over ports that know whether this life still lives.

A process that is killed does nothing any more, not even clean up. Here its coroutines must be unwound, since the loop
is shared with the lives after it, and whatever they try on the way out ends at the first port: every call of a dead
life raises ``CancelledError`` before it reaches a world. A *frozen* life (stopped by the system, or swapped out) waits
at its next port until it is thawed, by which time another owner has taken over.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, NoReturn, cast

from tests.simulation.agents import LINGER_S, agent_argv
from tests.simulation.world import World

from pilothouse.adapters.agents.commands import least
from pilothouse.adapters.agents.memory import MemoryAgents
from pilothouse.adapters.git.memory import MemoryGit
from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.adapters.work.memory import MemoryExecutor
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.spec import AgentSpec, ProcessSpec
from pilothouse.core.run.agents import AgentReader
from pilothouse.core.run.commands import Command, Exit, Grew, Inventory
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.segments import Append
from pilothouse.core.run.usage import Usage
from pilothouse.engine.driving.hub import Hub
from pilothouse.engine.driving.supervisor import Driven, Supervisor, supervising
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.plans.effects import PlanEffects
from pilothouse.engine.ports import Agents, Clock, EventStore, Executor, Git, LogStore
from pilothouse.errors import PilothouseError


class Life:
    """``slots``: the global cap."""

    def __init__(self, world: World, slots: int) -> None:
        self.world = world
        self.number = world.lives = world.lives + 1
        self.dead = False
        self.supervisor: Supervisor | None = None
        self.slots = slots
        self.executor = MemoryExecutor(world.warden, world.disk.owner_epoch + 1)
        self.kill_after_calls: int | None = None
        self._thawed: asyncio.Future[None] | None = None
        self._leave = asyncio.Event()
        self._tells: list[asyncio.Task[Any]] = []
        self._main = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        world = self.world
        executor = cast(Executor, GuardedExecutor(self, "executor", self.executor))
        performer = PlanEffects(
            cast(Git, GuardedGit(self, "git", MemoryGit(world.git))),
            executor,
            cast(Clock, GuardedClock(self)),
            cast(Agents, GuardedAgents(self, "agents", MemoryAgents(world.agents, command_of))),
            cast(LogStore, Guarded(self, "logs", world.logs)),
            linger_s=LINGER_S,
        )
        store = cast(EventStore, GuardedStore(self, "store", MemoryEventStore(world.disk)))
        async with supervising(
            store=store,
            registry=REGISTRY,
            clock=cast(Clock, GuardedClock(self)),
            kinds={"plan": Driven(PlanKind(), performer)},
            inventory=executor.inventory,
            slots=self.slots,
            hub=ComparedHub(self, store),
        ) as supervisor:
            self.supervisor = supervisor
            await self._leave.wait()

    @property
    def up(self) -> bool:
        return not self.dead and self._thawed is None and self.supervisor is not None and not self._main.done()

    @property
    def over(self) -> bool:
        return self._main.done()

    def do(self, what: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something asked of this life; gone with it."""
        self._tells = [task for task in self._tells if not task.done()]
        task = asyncio.ensure_future(what)
        self._tells.append(task)
        return task

    def kill(self) -> None:
        """kill -9, now. What is in memory is gone; its coroutines unwind without reaching anything."""
        if self.dead:
            return
        self.dead = True
        self.executor.drop()
        self.supervisor = None
        self.thaw()
        for task in (self._main, *self._tells):
            task.cancel()

    def freeze(self) -> None:
        if self._thawed is None and not self.dead:
            self._thawed = asyncio.get_running_loop().create_future()

    def thaw(self) -> None:
        if self._thawed is not None:
            self._thawed.set_result(None)
            self._thawed = None

    async def close(self) -> None:
        """The owner ends as it should."""
        self._leave.set()
        await asyncio.wait([self._main])
        self.kill()

    async def buried(self) -> BaseException | None:
        """Wait until all its coroutines are gone; what its main one ended with."""
        await asyncio.wait([self._main, *self._tells])
        return None if self._main.cancelled() else self._main.exception()

    # What its ports ask.

    def check(self) -> None:
        if self.dead:
            raise asyncio.CancelledError

    async def gate(self) -> None:
        """Raises when dead; waits while frozen."""
        self.check()
        while self._thawed is not None:
            await asyncio.shield(self._thawed)
            self.check()

    async def before(self, port: str, operation: str) -> PilothouseError | None:
        """Answers what the call is to raise after it has had its effect."""
        await self.gate()
        await self.world.faults.delay()
        await self.gate()
        if self.kill_after_calls is not None:
            self.kill_after_calls -= 1
            if self.kill_after_calls < 0:
                self.world.owner_dies()
                self.check()
        error = self.world.faults.failure(port, operation)
        if error is not None and self.world.faults.random.random() < 0.5:
            self.fail(port, error)
        return error

    def fail(self, port: str, error: PilothouseError) -> NoReturn:
        self.world.faults.failed_at[port] += 1
        self.world.tell(f"{error}")
        raise error

    async def after(self, port: str, error: PilothouseError | None) -> None:
        if self.world.dies_after_effect():
            self.world.owner_dies()
        await self.gate()
        await self.world.faults.delay()
        await self.gate()
        if error is not None:
            self.fail(port, error)


class Guarded:
    """A port of a life: delays, failures and death before and after each call's effect. The twins' methods never
    suspend, so the effect itself is one step."""

    def __init__(self, life: Life, port: str, twin: object) -> None:
        self._life = life
        self._port = port
        self._twin = twin

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._twin, operation)
        assert inspect.iscoroutinefunction(method), operation

        async def call(*args: Any, **kwargs: Any) -> Any:
            error = await self._life.before(self._port, operation)
            answer = await method(*args, **kwargs)
            await self._life.after(self._port, error)
            return answer

        setattr(self, operation, call)
        return call


class GuardedStore(Guarded):
    async def append(self, append: Append) -> int:
        error = await self._life.before("store", "append")
        store = cast(MemoryEventStore, self._twin)
        stored = store.world.runs.get(append.run_id)
        holder = stored.row.epoch if stored else 0
        position = await store.append(append)
        self._life.world.watch.appended(self._life, append, position, holder)
        await self._life.after(self._port, error)
        self._life.world.watch.acknowledged(append)
        return position


class GuardedGit(Guarded):
    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._twin, operation)
        watch = self._life.world.watch

        async def call(*args: Any, **kwargs: Any) -> Any:
            error = await self._life.before("git", operation)
            watch.git_begins(self._life, operation, args, kwargs)
            try:
                answer = await method(*args, **kwargs)
            finally:
                watch.git_ends()
            await self._life.after(self._port, error)
            return answer

        setattr(self, operation, call)
        return call


class GuardedExecutor(Guarded):
    async def inventory(self) -> Inventory:
        error = await self._life.before("executor", "inventory")
        answer = await self._life.executor.inventory()
        await self._life.after(self._port, error)
        return answer

    async def attach(self, key: str, from_offset: int = 0) -> AsyncIterator[Grew | Exit]:
        error = await self._life.before("executor", "attach")
        async with aclosing(cast(Any, self._life.executor.attach(key, from_offset))) as news:
            async for item in news:
                await self._life.gate()
                if error is not None:
                    self._life.fail("executor", error)
                yield item


class GuardedAgents(Guarded):
    """Plain commands are made without delay, so that plans without agents stay what they were."""

    async def command(self, work: RunWork) -> Command:
        agents = cast(MemoryAgents, self._twin)
        if not self._life.world.has_agents:
            return await agents.command(work)
        await self._life.before("agents", "command")
        command = await agents.command(work)
        await self._life.after("agents", None)
        return command

    def reader(self, work: RunWork) -> AgentReader:
        return cast(MemoryAgents, self._twin).reader(work)

    def priced(self, model: str, usage: Usage) -> Usage:
        return cast(MemoryAgents, self._twin).priced(model, usage)


class ComparedHub(Hub):
    def __init__(self, life: Life, store: EventStore) -> None:
        super().__init__(store, REGISTRY)
        self._life = life

    def publish(
        self, position: int, run_id: str, recorded: tuple[Recorded, ...], deleted: bool = False, size: int = 0
    ) -> None:
        super().publish(position, run_id, recorded, deleted, size)
        self._life.world.watch.published(self._life, run_id)


class GuardedClock:
    def __init__(self, life: Life) -> None:
        self._life = life

    def now_ms(self) -> int:
        return self._life.world.clock.now_ms()

    async def sleep(self, seconds: float) -> None:
        self._life.check()
        await self._life.world.clock.sleep(seconds)
        await self._life.gate()


def command_of(effect: RunWork) -> Command:
    """What the simulated executor is told; what it will do is drawn from its key when it starts."""
    spec = effect.spec
    if isinstance(spec, AgentSpec):
        return Command(
            argv=agent_argv(effect, spec),
            cwd=effect.path,
            output=effect.output,
            errors=effect.errors,
            timeout_ms=least(spec.timeout_ms, effect.time_left_ms),
        )
    assert isinstance(spec, ProcessSpec)
    return Command(
        argv=(spec.executable, *spec.args),
        cwd=effect.path,
        output=effect.output,
        timeout_ms=spec.timeout_ms,
    )
