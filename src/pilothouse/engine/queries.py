"""Everything interfaces read: runs, plans, nodes, output, streams. They never see the store.

Reading changes nothing and starts nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.view import mermaid, node_detail, plan_brief, plan_view
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.driving.hub import Batch, Hub
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.plans.logs import PlanLogs, find_node
from pilothouse.engine.ports import EventStore, Git, LogStore
from pilothouse.errors import BadInput, NotFound

Json = dict[str, Any]

_PAGE = 1000
"""Segments read from the store at a time."""


class Queries:
    """Reads. All raise ``NotFound`` and ``Gone`` where an id is given."""

    def __init__(self, supervisor: Supervisor, store: EventStore, hub: Hub, logs: LogStore, git: Git) -> None:
        self._supervisor = supervisor
        self._store = store
        self._hub = hub
        self._plan_logs = PlanLogs(supervisor, store, hub, logs)
        self._git = git

    async def run(self, run_id: str) -> RunRow:
        return await self._store.row(run_id)

    async def runs(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        owner: str | None = None,
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
            kind=kind,
            lifecycles=lifecycles,
            owner=owner,
            session_id=session_id,
            waiting=waiting,
            limit=limit,
            before=before,
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

    def pages(
        self, run_id: str, after: int = 0, idle: float | None = None, *, to_end: bool = False
    ) -> AsyncGenerator[list[Batch], None]:
        """See ``Hub.pages``."""
        return self._hub.pages(run_id, after, idle, to_end=to_end)

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

    async def plans(self, *, status: str | None = None, owner: str | None = None, limit: int = 100) -> list[Json]:
        return [plan_brief(row) for row in await self.runs(kind=PlanKind.name, status=status, owner=owner, limit=limit)]

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
        raw: bool = False,
    ) -> Json:
        """See ``PlanLogs.text``."""
        await self._plan_row(plan_id)
        return await self._plan_logs.text(plan_id, node, phase=phase, attempt=attempt, tail=tail, raw=raw)

    async def transcript(
        self, plan_id: str, node: str, *, attempt: int | None = None, phase: str = Phase.WORK
    ) -> list[Recorded]:
        """See ``PlanLogs.transcript``."""
        await self._plan_row(plan_id)
        return await self._plan_logs.transcript(plan_id, node, attempt=attempt, phase=phase)

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


def _range(state: PlanState, node: NodeState) -> tuple[str, str, str]:
    if not node.attempts or node.attempt.completed_commit is None:
        raise NotFound(f"{node.node.producer_id} has committed nothing yet")
    base = node.attempt.base_commit or state.facts.base_commit
    return state.facts.repo_path, base, node.attempt.completed_commit
