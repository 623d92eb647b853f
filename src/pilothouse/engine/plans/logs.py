"""What the nodes of a plan printed and told, as text: the output of commands as it is, the work of agents as a
transcript of their events, or, when asked for, as their programs printed it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pilothouse.core.plan.effects import errors_of
from pilothouse.core.plan.intents import output_of, phase_spec, try_key
from pilothouse.core.plan.phases import COMMANDS, ORDER, Phase
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.transcript import is_told, transcript
from pilothouse.core.run.events import Recorded
from pilothouse.engine.driving.hub import Hub
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.ports import EventStore, LogStore
from pilothouse.errors import BadInput, NotFound

Json = dict[str, Any]

_PAGE = 1000
"""Segments read from the store at a time."""
_MOST_TOLD = 50_000
"""Events of one transcript."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One phase of an attempt that may have printed something."""

    node_id: str
    attempt: int
    phase: Phase
    outputs: tuple[str, ...]
    by_agent: bool


class PlanLogs:
    """Reads. The caller has made sure that the run is a plan."""

    def __init__(self, supervisor: Supervisor, store: EventStore, hub: Hub, logs: LogStore) -> None:
        self._supervisor = supervisor
        self._store = store
        self._hub = hub
        self._logs = logs

    async def text(
        self, plan_id: str, node: str, *, phase: str | None, attempt: int | None, tail: int | None, raw: bool
    ) -> Json:
        """{text, parts: [{phase, attempt, to}]} of one phase or of all, of the last attempt or of the given one;
        ``to`` is how far raw output has grown. ``tail``: the last lines only. Raises ``BadInput`` for an unknown
        phase, ``NotFound`` for a node or an attempt there is not."""
        wanted = _phases(phase)
        found = await self._supervisor.read(
            plan_id, lambda state, _: list(_parts(state, find_node(state, node), attempt, wanted))
        )
        text, parts = "", []
        for part in found:
            sizes = [await self._logs.size(output) for output in part.outputs]
            if part.by_agent and not raw:
                told = await self._told(plan_id, part)
                text += transcript(recorded.event for recorded in told)
            else:
                for output, size in zip(part.outputs, sizes, strict=True):
                    text += await self._read(output, tail) if size else ""
            if sum(sizes):
                parts.append({"phase": str(part.phase), "attempt": part.attempt, "to": sizes[0]})
        if tail is not None:
            text = "\n".join(text.splitlines()[-tail:])
        return {"planId": plan_id, "node": node, "phase": phase or "all", "text": text, "parts": parts}

    async def transcript(self, plan_id: str, node: str, *, attempt: int | None, phase: str) -> list[Recorded]:
        """What the agent of a phase told, in order: its events and its requests, of the last attempt or of the given
        one; the last ``_MOST_TOLD`` of them. Raises ``BadInput`` for an unknown phase."""
        wanted = (_phase(phase),)
        parts = await self._supervisor.read(
            plan_id, lambda state, _: list(_parts(state, find_node(state, node), attempt, wanted))
        )
        return await self._told(plan_id, parts[0]) if parts else []

    async def _told(self, plan_id: str, part: _Part) -> list[Recorded]:
        told: deque[Recorded] = deque(maxlen=_MOST_TOLD)
        named = part.node_id.encode()  # stands in what is stored of it: the rest, which may be far more, is not decoded
        after = 0
        while segments := await self._store.read(plan_id, after, _PAGE):
            for segment in segments:
                if named not in segment.body:
                    continue
                recorded = self._hub.batch(segment).recorded
                told.extend(one for one in recorded if is_told(one.event, part.node_id, part.attempt, part.phase))
            after = segments[-1].last_seq
            await asyncio.sleep(0)
        return list(told)

    async def _read(self, output: str, tail: int | None) -> str:
        if tail is not None:
            return await self._logs.tail(output, tail)
        chunks: list[bytes] = []
        offset = 0
        while True:
            start, data = await self._logs.read(output, offset)
            if not data:
                return b"".join(chunks).decode("utf-8", "replace")
            if start > offset:
                chunks.append(f"\n[{start - offset} bytes not kept]\n".encode())
            chunks.append(data)
            offset = start + len(data)


def find_node(state: PlanState, name: str) -> NodeState:
    """By id or producer id, else by a name that only one node has. Raises ``NotFound`` with the ones there are."""
    found = state.find(name)
    if found is None:
        named = [n for n in state.nodes.values() if n.node.name.lower() == name.lower()]
        if len(named) == 1:
            return named[0]
        known = ", ".join(n.node.producer_id for n in list(state.nodes.values())[:10])
        raise NotFound(f"the plan has no node {name!r}; it has {known}")
    return found


def _phases(phase: str | None) -> tuple[Phase, ...]:
    if phase is None or phase == "all":
        return ORDER
    return (_phase(phase),)


def _phase(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError:
        raise BadInput(f"{name!r} is no phase", field="phase", fix=f"one of all, {', '.join(ORDER)}") from None


def _parts(state: PlanState, node: NodeState, number: int | None, phases: tuple[Phase, ...]) -> Iterable[_Part]:
    """The phases the attempt has been in, of those asked for."""
    if number is not None and not 1 <= number <= len(node.attempts):
        raise NotFound(f"Attempt {number} not found; there are {len(node.attempts)}")
    if not node.attempts:
        return
    attempt = node.attempts[number - 1] if number is not None else node.attempt
    for phase in phases:
        if (value := attempt.phases.get(phase)) is None or not value.tries:
            continue
        keys = (try_key(node.node.id, attempt.number, phase, tried) for tried in range(1, value.tries + 1))
        tries = [output_of(state.common.run_id, key) for key in keys]
        yield _Part(
            node_id=node.node.id,
            attempt=attempt.number,
            phase=phase,
            outputs=tuple(name for output in tries for name in (output, errors_of(output))),
            by_agent=phase in COMMANDS and isinstance(phase_spec(node, phase), AgentSpec),
        )
