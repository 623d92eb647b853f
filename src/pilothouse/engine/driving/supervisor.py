"""All runs of one owner: one actor each, brought up from the log, driven, and found again by id.

Owns who drives what. It is a context: entering takes the ownership of the log and recovers what the last owner left;
leaving lets go of everything, and what runs outside this process goes on for the next owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pilothouse.core.run.commands import Inventory
from pilothouse.core.run.contract import Kind
from pilothouse.core.run.inputs import Input, Recover, Settle
from pilothouse.core.run.lifecycle import OPEN, TERMINAL
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.driving.actor import Actor, Context
from pilothouse.engine.driving.capacity import Capacity
from pilothouse.engine.driving.effects import Performer
from pilothouse.engine.driving.folding import fold
from pilothouse.engine.driving.hub import Hub
from pilothouse.engine.ports import Clock, EventStore
from pilothouse.errors import PilothouseError, Refused, StoreFailed, Unavailable

log = logging.getLogger(__name__)

R = TypeVar("R")

_READ_LATELY = 4
"""Folded states kept of runs that nobody drives: who looks at one asks several times."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A kind of run with the one who performs its effects."""

    kind: Kind[Any]
    perform: Performer


class Supervisor:
    """Drives the runs of one owner. Use ``supervising`` to make one."""

    def __init__(
        self,
        context: Context,
        kinds: Mapping[str, Driven],
        inventory: Callable[[], Awaitable[Inventory]],
        group: asyncio.TaskGroup,
    ) -> None:
        self._context = context
        self._kinds = kinds
        self._group = group
        self._actors: dict[str, Actor[Any]] = {}
        self._loading = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._inventory = inventory
        self._read_lately: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._being_deleted: set[str] = set()
        self._halted: dict[str, str] = {}
        self._closed = False

    @property
    def epoch(self) -> int:
        return self._context.epoch

    @property
    def hub(self) -> Hub:
        return self._context.hub

    def halted(self, run_id: str) -> str | None:
        """Why nobody drives an open run at the moment; None for one that is driven, or has ended."""
        return self._halted.get(run_id)

    @property
    def live(self) -> Mapping[str, Actor[Any]]:
        """The runs being driven, by id."""
        return self._actors

    async def create(self, kind: str, run_id: str, given: Input) -> None:
        """Create a run: ``given`` is the input from which its kind decides RUN_CREATED. Returns once that is in the
        log. Raises what ``decide`` and the log raise; then there is no such run."""
        driven = self._kinds[kind]
        state = driven.kind.initial(run_id)
        actor = self._drive(Actor(self._context, driven.kind, driven.perform, state, None, self._retired))
        try:
            await actor.ask(given)
        except PilothouseError:
            if (task := self._tasks.get(run_id)) is not None:
                task.cancel()
            raise

    async def tell(self, run_id: str, given: Input) -> None:
        """Give a run an input and wait until what follows is in the log.

        Raises ``NotFound``, ``Gone``, ``Refused``, ``BadInput``, ``StoreFailed``."""
        actor = self._actors.get(run_id) or await self._load(run_id)
        await actor.ask(given)

    def close_gate(self, run_id: str) -> None:
        """From this call on nothing new of the run is begun; a stop must follow."""
        if (actor := self._actors.get(run_id)) is not None:
            actor.close_gate()

    async def read(self, run_id: str, view: Callable[[Any, RunRow], R]) -> R:
        """A view of a run's committed state; one that is not driven is folded from the log for it. ``view`` takes with
        it what it needs: the state itself goes on, ahead of the log, or is shown to others.

        Raises ``NotFound``, ``Gone``, ``StoreFailed``."""
        actor = self._actors.get(run_id)
        if actor is not None:
            return await actor.read(view)
        row = await self._context.store.row(run_id)
        seq, state = self._read_lately.get(run_id, (0, None))
        if seq != row.seq:
            state = await self._fold(row)
            self._read_lately[run_id] = row.seq, state
            if len(self._read_lately) > _READ_LATELY:
                self._read_lately.popitem(last=False)
        return view(state, row)

    async def _load(self, run_id: str) -> Actor[Any]:
        """Bring a run up from the log and drive it."""
        async with self._loading:
            actor = self._actors.get(run_id)
            if actor is None:
                actor = self._drive(await self._bring_up(run_id, await self._inventory()))
            return actor

    async def _bring_up(self, run_id: str, inventory: Inventory) -> Actor[Any]:
        """An actor that knows what is to be done first, and is not driven yet."""
        row = await self._context.store.claim(run_id, self._context.epoch)
        driven = self._driven(row)
        state = await self._fold(row)
        actor = Actor(self._context, driven.kind, driven.perform, state, row, self._retired)
        if row.lifecycle not in TERMINAL or driven.kind.unfinished(state):
            known = frozenset(inventory.running) | frozenset(inventory.ended)
            actor.post(Recover(epoch=self._context.epoch, instance=inventory.instance, known=known))
        else:
            actor.post(Settle())  # nothing was interrupted; housekeeping may be owed
        return actor

    def _driven(self, row: RunRow) -> Driven:
        if row.kind not in self._kinds:
            raise StoreFailed(f"run {row.id} is a {row.kind}, which this version does not know")
        return self._kinds[row.kind]

    async def _fold(self, row: RunRow) -> Any:
        """Its state as of its row. Raises ``StoreFailed`` when this version can make nothing of its log."""
        return await fold(self._context.store, self._context.registry, self._driven(row).kind, row)

    def _drive(self, actor: Actor[Any]) -> Actor[Any]:
        if self._closed:
            raise Unavailable("the server is closing")
        if actor.run_id in self._actors:
            raise Refused(f"run {actor.run_id} exists")
        if actor.run_id in self._being_deleted:
            raise Refused("it is being deleted")
        self._halted.pop(actor.run_id, None)
        self._actors[actor.run_id] = actor
        self._tasks[actor.run_id] = self._group.create_task(actor.run(), name=f"run {actor.run_id}")
        return actor

    def _retired(self, run_id: str) -> None:
        actor = self._actors.pop(run_id, None)
        if actor is not None and actor.halted is not None:
            self._halted[run_id] = str(actor.halted)
        self._tasks.pop(run_id, None)

    async def recover(self) -> list[str]:
        """Drive every unfinished run that nobody drives: what the last owner left, or what halted meanwhile. Answers
        their ids. One that cannot be read is left alone, and said so in the server's own log; it does not keep the
        others from going on."""
        async with self._loading:
            rows = await self._context.store.rows(lifecycles=OPEN, limit=1_000_000)
            rows += await self._context.store.rows(lifecycles=TERMINAL, owing=True, limit=1_000_000)
            driven = self._actors.keys() | self._being_deleted
            rows = sorted((row for row in rows if row.id not in driven), key=lambda row: (row.created_at, row.id))
            if not rows:
                return []
            inventory = await self._inventory()
            found: list[Actor[Any]] = []
            for row in rows:
                try:
                    found.append(await self._bring_up(row.id, inventory))
                except PilothouseError as error:
                    log.error("run.unrecoverable", exc_info=error, extra={"run_id": row.id})
            # A run that is created meanwhile is none of these, and deleting one is refused from here on.
            found = [actor for actor in found if actor.run_id not in self._being_deleted]
            for actor in found:
                actor.hold()  # what all of them hold is known before any of them asks for more
            return [self._drive(actor).run_id for actor in found]

    @contextmanager
    def deleting(self, run_id: str) -> Iterator[None]:
        """While what an ended run left behind is removed, nobody can bring it up again, nor delete it too. Raises
        ``Refused`` while it is live."""
        if run_id in self._actors:
            raise Refused("it is still being cleaned up; try again in a moment")
        if run_id in self._being_deleted:
            raise Refused("it is being deleted")
        self._being_deleted.add(run_id)
        try:
            yield
        finally:
            self._being_deleted.discard(run_id)

    async def delete(self, run_id: str, at: int) -> None:
        """Delete an ended run with all its events. Raises ``Refused`` while it is live, ``NotFound``."""
        if run_id in self._actors:
            raise Refused("it is still running; stop or cancel it first")
        row = await self._context.store.claim(run_id, self._context.epoch)
        if row.lifecycle not in TERMINAL:
            raise Refused(f"it is {row.lifecycle.lower()}; stop or cancel it first")
        position = await self._context.store.delete(run_id, self._context.epoch, at)
        self._context.hub.publish(position, run_id, (), deleted=True)

    async def close(self) -> None:
        """Let go of every run; none is brought up any more."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def supervising(
    *,
    store: EventStore,
    registry: Registry,
    clock: Clock,
    kinds: Mapping[str, Driven],
    inventory: Callable[[], Awaitable[Inventory]],
    slots: int,
    hub: Hub | None = None,
    epoch: int | None = None,
) -> AsyncIterator[Supervisor]:
    """Take the ownership of the log (unless ``epoch`` says the caller has), recover what was left, and drive runs until
    left. ``slots``: the global cap."""
    if epoch is None:
        epoch = await store.take_ownership()
    context = Context(store, registry, clock, hub or Hub(store, registry), Capacity(slots), epoch)
    async with asyncio.TaskGroup() as group:
        supervisor = Supervisor(context, kinds, inventory, group)
        try:
            await supervisor.recover()
            yield supervisor
        finally:
            await supervisor.close()
