"""One life of an owner of turns: the real engine over ports, tools and a backend that know whether it lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from typing import Any, cast

from tests.simulation.life import ComparedHub, GuardedClock, GuardedStore, Life
from tests.simulation.turns.scripts import TOOLS, AwaitReport, Pause, UseTool, script
from tests.simulation.turns.world import TurnWorld

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.auth.principals import Answering
from pilothouse.core.chat.backend import BackendEvent, Completed, Failed, Paused
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.kind import TurnKind
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.core.run.commands import Inventory
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.engine.answering.tools import TurnTools
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.documents import ChatDocuments
from pilothouse.engine.chats.effects import TurnEffects
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.driving.supervisor import Driven, Supervisor, supervising
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.ports import Clock, EventStore
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BackendFailed, NotFound, PilothouseError, Refused

_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 5.0)
"""The last one is beyond every watchdog."""


class _NoExecutor:
    """Nothing of a turn outlives its owner here."""

    def drop(self) -> None:
        pass

    async def inventory(self) -> Inventory:
        return Inventory(instance="none", running=frozenset(), ended={})


class TurnLife(Life):
    def __init__(self, world: TurnWorld) -> None:
        self.turns = world
        self.world = cast(Any, world)
        self.number = world.lives = world.lives + 1
        self.dead = False
        self.supervisor: Supervisor | None = None
        self.slots = 1
        self.executor = cast(Any, _NoExecutor())
        self.kill_after_calls: int | None = None
        self.acknowledging: dict[str, int] = {}
        self._thawed: asyncio.Future[None] | None = None
        self._leave = asyncio.Event()
        self._tells: list[asyncio.Task[Any]] = []
        self._main = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        store = cast(EventStore, GuardedStore(self, "store", MemoryEventStore(self.turns.disk)))
        clock = cast(Clock, GuardedClock(self))
        kind = TurnKind()
        documents = ChatDocuments(store, clock)
        history = ChatHistory(store, REGISTRY, kind, documents)
        tools = self.tools = ToolRegistry([SimulatedTool(self, tool.name) for tool in TOOLS])
        backend: Backend = SimulatedBackend(self)
        async with supervising(
            store=store,
            registry=REGISTRY,
            clock=clock,
            kinds={"turn": Driven(kind, TurnEffects(backend, tools, documents, history, clock))},
            inventory=_NoExecutor().inventory,
            slots=1,
            hub=ComparedHub(self, store),
        ) as supervisor:
            self.supervisor = supervisor
            await self._leave.wait()


class SimulatedTool:
    def __init__(self, life: TurnLife, name: str) -> None:
        self._life = life
        touches = Touches.NOTHING if name == "look" else Touches.WORLD
        self.spec = ToolSpec(name=name, description=name, parameters={"type": "object"}, touches=touches)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        life, world = self._life, self._life.turns
        life.check()
        world.watch.begins(context.turn_id, context.call_id, self.spec.name)
        random = Random(f"{world.seed}/{context.turn_id}/{context.call_id}")
        await world.clock.sleep(random.choice(_PAUSES))
        await life.gate()
        await life.before("tools", self.spec.name)
        if random.random() < 0.1:
            raise NotFound("no such thing")
        if random.random() < 0.03:
            raise KeyError("a bug")
        return ToolAnswer(ok=random.random() < 0.9, result={"n": arguments.get("n")}, workflow_id="w")


class SimulatedBackend:
    """Requests end with the process that made them; what it was told stays."""

    name = "simulated"

    def __init__(self, life: TurnLife) -> None:
        self._life = life
        self.features: Features = life.turns.features

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        life, world = self._life, self._life.turns
        await life.before("backend", "call")
        world.watch.asked(request.turn_id, request.call)
        for step in script(world.seed, request, self.features):
            match step:
                case Pause(seconds):
                    await world.clock.sleep(seconds)
                case AwaitReport(call_id):
                    while (request.turn_id, call_id) not in world.reported:
                        await world.clock.sleep(0.05)
                        await life.gate()
                case UseTool():
                    await self._use(request, step)
                case BackendFailed():
                    await life.gate()
                    raise step
                case _:
                    await life.gate()
                    world.watch.says(request.turn_id, request.call, step)
                    yield step
                    await life.gate()
                    if any(isinstance(one, Completed | Failed | Paused) for one in step):
                        return

    async def _use(self, request: BackendRequest, use: UseTool) -> None:
        """As a bridge does: where the connection is lost, the same is asked for again."""
        life, world = self._life, self._life.turns
        while life.supervisor is None:  # it is still bringing up what the last one left
            await world.clock.sleep(0.01)
        tools = TurnTools(life.supervisor, life.tools, Answering(request.turn_id, request.call), _nothing_printed)
        outcome = None
        while outcome is None:
            await life.gate()
            try:
                async with asyncio.timeout(world.random.choice((0.02, 0.5, None))):
                    outcome = await tools.call(use.call_id, use.name, {"n": 1}, _silent)
            except TimeoutError:
                continue
            except (NotFound, Refused):
                return
            except PilothouseError as error:
                raise BackendFailed(f"it lost its tools: {error}") from error
        world.watch.answered(request.turn_id, tools._id(use.call_id), outcome)

    async def report(self, report: ToolReport) -> None:
        await self._tell("report")
        self._life.turns.reported.add((report.turn_id, report.tool_call_id))

    async def steer(self, steer: SteerBackend) -> None:
        await self._tell("steer")

    async def abort(self, abort: AbortBackend) -> None:
        await self._tell("abort")

    async def answer(self, answer: AnswerBackend) -> None:
        await self._tell("answer")

    async def title(self, make: MakeTitle) -> str:
        await self._tell("title")
        return "A title"

    async def models(self) -> list[ChatModel]:
        return []

    async def _tell(self, what: str) -> None:
        life, world = self._life, self._life.turns
        await life.before("backend", what)
        if world.random.random() < 0.1 and not world.faults.quiet:
            raise BackendFailed("it does not listen", transient=world.random.random() < 0.7)
        await life.after("backend", None)


async def _nothing_printed(_: str, __: int) -> None:
    """What it says is heard when it says it."""


async def _silent(_: str) -> None:
    pass
