"""The tools of a turn, for the agent that answers it: each call is the turn's, and its caller waits for its end.

Waiting follows the log, so it makes no difference whether a call was told just now, or to an owner before this one, or
by another request of the same agent. What becomes of a call is the turn's to decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import msgspec

from pilothouse.core.auth.principals import Answering
from pilothouse.core.chat.backend import ToolCalled
from pilothouse.core.chat.inputs import Heard
from pilothouse.core.chat.routing import SERVER, SERVER_CALLS, for_agents
from pilothouse.core.chat.state import TurnState, call_key
from pilothouse.core.run.rows import RunRow
from pilothouse.core.tools.spec import ToolSpec
from pilothouse.engine.answering.outcomes import nobody_waits, outcome_of, waiting_for
from pilothouse.engine.answering.tokens import waits_for
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.tools.arguments import checked
from pilothouse.engine.tools.callers import Tell, ToolOutcome
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import Gone, NotFound, Refused, Unavailable

MOST_CALLS = 1_000
"""Of one agent, while it answers once: each is kept in memory, and one that goes round in circles does not notice."""
_TOO_MANY = f"The tools of this server were called {MOST_CALLS:,} times. Answer with what is known by now."
_LOOK_EVERY_S = 1.0
"""Who waits for an end looks this often whether it can still come."""

R = TypeVar("R")

CaughtUp = Callable[[str, int], Awaitable[None]]


class TurnTools:
    """Implements ``ToolCaller`` for one agent. ``caught_up``: have the turn hear what the agent has told by now."""

    def __init__(self, supervisor: Supervisor, tools: ToolRegistry, answering: Answering, caught_up: CaughtUp) -> None:
        self._supervisor = supervisor
        self._tools = tools
        self._answering = answering
        self._caught_up = caught_up

    async def offered(self) -> tuple[ToolSpec, ...]:
        return agents_part(await self._tools.named(await self._read(self._names)))

    async def call(self, call_id: str, name: str, arguments: Mapping[str, Any], tell: Tell) -> ToolOutcome:
        id = self._id(call_id)
        if not (await self._look(id)).known:
            told = checked(arguments)
            if name not in {spec.name for spec in await self.offered()}:
                raise NotFound(f"there is no tool {name}")
            if await self._read(_count) >= MOST_CALLS:
                return ToolOutcome(ok=False, error=_TOO_MANY)
            await self._make(ToolCalled(id=id, name=name, arguments=told, executor=SERVER))
        return await self._end(id, tell)

    def _id(self, call_id: str) -> str:
        """Whoever calls may call their calls anything; one request's are never another's, and none has the id of a call
        of another turn: whoever decides about one by its id decides about that one."""
        said = f"{self._answering.turn_id}\0{self._answering.call}\0{call_id}".encode("utf-8", "surrogatepass")
        return SERVER_CALLS + hashlib.sha256(said).hexdigest()[:32]

    async def _make(self, said: ToolCalled) -> None:
        """Two at once with the same id are one call to the turn."""
        turn_id, number = self._answering.turn_id, self._answering.call
        await self._caught_up(turn_id, number)
        await self._supervisor.tell(turn_id, Heard(key=call_key(number), said=(said,)))

    async def _end(self, id: str, tell: Tell) -> ToolOutcome:
        hub, run_id, said = self._supervisor.hub, self._answering.turn_id, ""
        found = await self._look(id)
        async with aclosing(hub.pages(run_id, found.seq, _LOOK_EVERY_S)) as pages:
            while found.outcome is None:
                if found.waiting_for != said:
                    said = found.waiting_for
                    await tell(said)
                page = await anext(pages)
                if not page and (why := self._supervisor.halted(run_id)) is not None:
                    raise Unavailable(f"the turn does not go on for now: {why}")
                found = await self._look(id)
        return found.outcome

    async def _look(self, id: str) -> _Found:
        return await self._read(partial(_found, self._answering, id))

    async def _read(self, view: Callable[[TurnState, RunRow], R]) -> R:
        """Raises ``Refused`` for a turn that is gone, or never was."""
        try:
            return await self._supervisor.read(self._answering.turn_id, view)
        except (Gone, NotFound) as error:
            raise _over() from error

    def _names(self, state: TurnState, _: RunRow) -> tuple[str, ...]:
        if not waits_for(state, self._answering):
            raise _over()
        return for_agents(state)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """A call as of one moment of its turn. ``known``: it was told; ``outcome`` None: it is to be waited for."""

    seq: int
    known: bool
    outcome: ToolOutcome | None
    waiting_for: str = ""


def _found(answering: Answering, id: str, state: TurnState, row: RunRow) -> _Found:
    call = state.calls.get(id)
    outcome = outcome_of(call) if call is not None else None
    if not waits_for(state, answering):
        # One that is being ended hears nothing more: it would only ask its model what to make of it.
        outcome = None if _at_work(state, answering) else outcome or nobody_waits(state)
    said = waiting_for(call) if call is not None else ""
    return _Found(seq=row.seq, known=call is not None, outcome=outcome, waiting_for=said)


def _at_work(state: TurnState, answering: Answering) -> bool:
    return state.request is not None and state.request.number == answering.call


def _count(state: TurnState, _: RunRow) -> int:
    """How many calls of the agent at work are the server's."""
    number = state.last.number if state.last is not None else 0
    return sum(call.id.startswith(SERVER_CALLS) and call.call == number for call in state.calls.values())


def agents_part(specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Those that an agent has no better ones for."""
    return tuple(spec for spec in specs if not spec.of_workspace)


def _over() -> Refused:
    return Refused("the turn that this agent was started for does not wait for it any more")
