"""Everything interfaces read: runs, plans, nodes, output, streams. They never see the store.

Reading changes nothing and starts nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from pilothouse.core.plan.effects import errors_of
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import ORDER, Phase
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.transcript import is_told
from pilothouse.core.plan.view import mermaid, node_detail, plan_brief, plan_view
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.hub import Batch, Hub
from pilothouse.engine.ports import EventStore, Git, LogStore
from pilothouse.engine.supervisor import Supervisor
from pilothouse.errors import BadInput, NotFound

Json = dict[str, Any]

_PAGE = 1000
"""Segments read from the store at a time."""
_MOST_TOLD = 50_000
"""Events of one transcript."""


class Queries:
    """Reads. All raise ``NotFound`` and ``Gone`` where an id is given."""

    def __init__(self, supervisor: Supervisor, store: EventStore, hub: Hub, logs: LogStore, git: Git) -> None:
        self._supervisor = supervisor
        self._store = store
        self._hub = hub
        self._logs = logs
        self._git = git

    async def run(self, run_id: str) -> RunRow:
        return await self._store.row(run_id)

    async def runs(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        session_id: str | None = None,
        waiting: bool | None = None,
        limit: int = 100,
        before: tuple[int, str] | None = None,
    ) -> list[RunRow]:
        """Newest first. ``status`` is a lifecycle in lower case, or ``all``; raises ``BadInput`` for another."""
        lifecycles = None
        if status is not None and status != "all":
            try:
                lifecycles = frozenset({Lifecycle(status.upper())})
            except ValueError:
                fix = f"one of all, {', '.join(value.lower() for value in Lifecycle)}"
                raise BadInput(f"{status!r} is no status", field="status", fix=fix) from None
        return await self._store.rows(
            kind=kind, lifecycles=lifecycles, session_id=session_id, waiting=waiting, limit=limit, before=before
        )

    async def events(self, run_id: str, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Recorded events after a sequence number, oldest first; fewer than ``limit`` only at the end."""
        await self._store.row(run_id)
        found: list[Recorded] = []
        while len(found) < limit:
            segments = await self._store.read(run_id, after, min(limit, _PAGE))  # each holds one event or more
            if not segments:
                break
            for segment in segments:
                found += [recorded for recorded in self._hub.batch(segment).recorded if recorded.seq > after]
            after = segments[-1].last_seq
        return found[:limit]

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Batch]:
        return self._hub.follow(run_id, after)

    def follow_all(self, after: int = 0) -> AsyncIterator[Batch]:
        return self._hub.follow_all(after)

    def pages(self, run_id: str, after: int = 0, idle: float | None = None) -> AsyncGenerator[list[Batch], None]:
        """See ``Hub.pages``."""
        return self._hub.pages(run_id, after, idle)

    def pages_all(self, after: int = 0, idle: float | None = None) -> AsyncGenerator[list[Batch], None]:
        """See ``Hub.pages_all``."""
        return self._hub.pages_all(after, idle)

    def wire(self, recorded: Recorded) -> bytes:
        """An event in wire form: one JSON object."""
        return self._hub.wire(recorded)

    async def position(self) -> int:
        """The end of the log."""
        return await self._store.last_position()

    async def plan(self, plan_id: str) -> Json:
        await self._plan_row(plan_id)
        view: Json = await self._supervisor.read(plan_id, plan_view)
        return {**view, "halted": self._supervisor.halted(plan_id)}

    async def plans(self, *, status: str | None = None, limit: int = 100) -> list[Json]:
        return [plan_brief(row) for row in await self.runs(kind=PlanKind.name, status=status, limit=limit)]

    async def graph(self, plan_id: str) -> str:
        """The plan as a Mermaid graph."""
        await self._plan_row(plan_id)
        return await self._supervisor.read(plan_id, lambda state, _: mermaid(state))

    async def node(self, plan_id: str, node: str) -> Json:
        """``node`` is an id or a producer id."""
        await self._plan_row(plan_id)
        return await self._supervisor.read(plan_id, lambda state, _: node_detail(state, find_node(state, node)))

    async def node_logs(
        self,
        plan_id: str,
        node: str,
        *,
        phase: str | None = None,
        attempt: int | None = None,
        tail: int | None = None,
    ) -> Json:
        """What a node's commands printed: {text, parts: [{phase, attempt, to}]}, of one phase or of all, of the
        last attempt or of the given one. ``tail``: the last lines only. Raises ``BadInput`` for an unknown phase."""
        wanted = _phases(phase)
        await self._plan_row(plan_id)
        outputs = await self._supervisor.read(
            plan_id, lambda state, _: _outputs(state, find_node(state, node), attempt, wanted)
        )
        text, parts = "", []
        for number, name, output in outputs:
            size = await self._logs.size(output)
            if not size:
                continue
            parts.append({"phase": name, "attempt": number, "to": size})
            text += await self._read(output, tail)
        if tail is not None:
            text = "\n".join(text.splitlines()[-tail:])
        return {"planId": plan_id, "node": node, "phase": phase or "all", "text": text, "parts": parts}

    async def transcript(
        self, plan_id: str, node: str, *, attempt: int | None = None, phase: str = Phase.WORK
    ) -> list[Recorded]:
        """What the agent of a phase told, in order: its events and its requests, of the last attempt or of the given
        one; the last ``_MOST_TOLD`` of them. Raises ``BadInput`` for an unknown phase."""
        wanted = _phase(phase)
        await self._plan_row(plan_id)
        node_id, number = await self._supervisor.read(
            plan_id, lambda state, _: _attempt(state, find_node(state, node), attempt)
        )
        told: deque[Recorded] = deque(maxlen=_MOST_TOLD)
        after = 0
        while number and (segments := await self._store.read(plan_id, after, _PAGE)):
            for segment in segments:
                told.extend(r for r in self._hub.batch(segment).recorded if is_told(r.event, node_id, number, wanted))
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

    async def node_diff(self, plan_id: str, node: str) -> Json:
        """What a node changed, against the base it started from: {diff, summary}. Raises ``NotFound`` before it has."""
        await self._plan_row(plan_id)
        repo, base, commit = await self._supervisor.read(
            plan_id, lambda state, _: _range(state, find_node(state, node))
        )
        summary = await self._git.summary(repo, base, commit)
        return {
            "planId": plan_id,
            "node": node,
            "baseCommit": base,
            "commit": commit,
            "summary": {
                "commits": summary.commits,
                "filesAdded": summary.files_added,
                "filesModified": summary.files_modified,
                "filesDeleted": summary.files_deleted,
            },
            "diff": await self._git.diff(repo, base, commit),
        }

    async def _plan_row(self, plan_id: str) -> RunRow:
        row = await self._store.row(plan_id)
        if row.kind != PlanKind.name:
            raise NotFound(f"{plan_id} is a {row.kind}, not a plan")
        return row


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


def _attempt(state: PlanState, node: NodeState, number: int | None) -> tuple[str, int]:
    """(node id, the number of the attempt that is meant); 0 when there was none yet."""
    if number is not None and not 1 <= number <= len(node.attempts):
        raise NotFound(f"Attempt {number} not found; there are {len(node.attempts)}")
    return node.node.id, len(node.attempts) if number is None else number


def _outputs(
    state: PlanState, node: NodeState, number: int | None, phases: tuple[Phase, ...]
) -> list[tuple[int, str, str]]:
    """(attempt, phase, output) of everything that may have printed something."""
    _, number = _attempt(state, node, number)
    if not number:
        return []
    attempt = node.attempts[number - 1]
    stem = f"{state.common.run_id}/{node.node.id}/{attempt.number}"
    found = []
    for phase in phases:
        for tried in range(1, (attempt.phases[phase].tries if phase in attempt.phases else 0) + 1):
            suffix = "" if tried == 1 else f".{tried}"
            output = f"{stem}/{phase}{suffix}"
            found += [(attempt.number, str(phase), output), (attempt.number, str(phase), errors_of(output))]
    return found


def _range(state: PlanState, node: NodeState) -> tuple[str, str, str]:
    if not node.attempts or node.attempt.completed_commit is None:
        raise NotFound(f"{node.node.producer_id} has committed nothing yet")
    base = node.attempt.base_commit or state.facts.base_commit
    return state.facts.repo_path, base, node.attempt.completed_commit
