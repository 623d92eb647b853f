"""The read model of a run: one row, folded from its events, projected in the transaction that appends them.

The row is what lists, indexes and ``GET /api/runs`` show without replaying anything. It is a pure fold, so that it
can be rebuilt from the log and can never say what the log does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import msgspec

from pilothouse.core.run.events import (
    Event,
    Recorded,
    RunCanceled,
    RunCreated,
    RunFailed,
    RunResumed,
    RunStarted,
    WaitClosed,
    WaitOpened,
)
from pilothouse.core.run.lifecycle import LIFECYCLE_EVENTS, TERMINAL, Lifecycle, move
from pilothouse.core.run.waits import Wait


class RunRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run at a glance. Times are milliseconds since the epoch; ``counts`` is {state: how many} of its parts."""

    id: str
    kind: str
    name: str
    owner: str
    session_id: str | None = None
    parent_run_id: str | None = None
    root_run_id: str = ""
    link: str = "detached"
    cause: str = ""
    lifecycle: Lifecycle = Lifecycle.CREATED
    leg: int = 0
    seq: int = 0
    epoch: int = 0
    created_at: int = 0
    started_at: int | None = None
    updated_at: int = 0
    ended_at: int | None = None
    error: str = ""
    counts: dict[str, int] = {}
    waits: tuple[Wait, ...] = ()
    detail: dict[str, Any] = {}


class Projects(Protocol):
    """An event that changes the row beyond what all runs share: its kind says how."""

    def project(self, row: RunRow) -> RunRow: ...


def project(row: RunRow | None, recorded: Recorded) -> RunRow:
    """The row after one more event."""
    event, at = recorded.event, recorded.at
    if row is None:
        if not isinstance(event, RunCreated):
            raise ValueError(f"the first event of a run is RUN_CREATED, not {event.type_name()}")
        return RunRow(
            id=recorded.run_id,
            kind=event.kind,
            name=event.name,
            owner=event.owner,
            session_id=event.session_id,
            parent_run_id=event.parent_run_id,
            root_run_id=event.root_run_id,
            link=event.link,
            cause=event.cause,
            seq=recorded.seq,
            created_at=at,
            updated_at=at,
        )
    changes: dict[str, Any] = {"seq": recorded.seq, "updated_at": at}
    tag = event.type_name()
    if tag in LIFECYCLE_EVENTS:
        changes |= _lifecycle_changes(row, event, tag, at)
    elif isinstance(event, WaitOpened):
        changes["waits"] = (*row.waits, event.wait.opened(at))
    elif isinstance(event, WaitClosed):
        changes["waits"] = tuple(wait for wait in row.waits if wait.id != event.wait_id)
    return _own_projection(type(event))(event, msgspec.structs.replace(row, **changes))


@cache
def _own_projection(event_type: type[Event]) -> Callable[[Any, RunRow], RunRow]:
    """What a type adds, looked up once: asking every event whether it ``Projects`` cost more than all the rest."""
    found: Callable[[Any, RunRow], RunRow] = getattr(event_type, "project", lambda _, row: row)
    return found


def _lifecycle_changes(row: RunRow, event: Event, tag: str, at: int) -> dict[str, Any]:
    lifecycle = move(row.lifecycle, tag, getattr(event, "status", None))
    changes: dict[str, Any] = {"lifecycle": lifecycle}
    if isinstance(event, RunStarted | RunResumed):
        changes |= {"leg": event.leg, "started_at": row.started_at or at, "ended_at": None, "error": ""}
    if lifecycle in TERMINAL:
        changes["ended_at"] = at
    if isinstance(event, RunFailed):
        changes["error"] = event.error
    elif isinstance(event, RunCanceled):
        changes["error"] = event.reason
    return changes
