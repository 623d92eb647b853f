"""The lifecycle of a run: one table, and the rules it follows.

Rules
  * Everything that affects a run's lifecycle is in this file, and this file does not know what kind of run
    it speaks of: a chat turn, a plan and a task run move alike.
  * A move is caused by exactly one event; an event that does not appear in the row of the present lifecycle
    is a bug, and looking it up raises.
  * A *leg* is opened by RUN_STARTED, or by RUN_RESUMED after a terminal lifecycle, and closed by exactly one
    terminal event. RUN_RESUMED after a pause goes on with the same leg: a pause closes nothing.
  * STOPPED is terminal for its leg, yet resumable. SUCCEEDED and CANCELED are final.
  * Waiting is not a lifecycle: open waits are a set beside it (see ``waits``), so that one node that waits
    for a person never moves fifty others.
"""

from __future__ import annotations

from enum import StrEnum


class Lifecycle(StrEnum):
    """Where a run stands."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    PAUSING = "PAUSING"
    """What runs finishes; nothing new is started."""
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    """The gate is closed; what was dispatched is being ended."""
    STOPPED = "STOPPED"
    """Ended by a stop, clean, resumable."""
    SUCCEEDED = "SUCCEEDED"
    PARTIAL = "PARTIAL"
    """Ended; some of the work succeeded, some did not."""
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    """Ended for good by a person."""


class RunState(StrEnum):
    """The runtime document's ``runState``: a projection of the lifecycle."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


_L = Lifecycle
_ASK = {"STOP_REQUESTED": (_L.STOPPING,), "CANCEL_REQUESTED": (_L.STOPPING,)}
_END = {
    "RUN_FINISHED": (_L.SUCCEEDED, _L.PARTIAL),
    "RUN_FAILED": (_L.FAILED,),
    "RUN_CANCELED": (_L.CANCELED,),
}

MOVES: dict[Lifecycle, dict[str, tuple[Lifecycle, ...]]] = {
    _L.CREATED: {"RUN_STARTED": (_L.RUNNING,), **_ASK},
    _L.RUNNING: {"PAUSE_REQUESTED": (_L.PAUSING,), **_ASK, **_END},
    _L.PAUSING: {"PAUSED": (_L.PAUSED,), "RUN_RESUMED": (_L.RUNNING,), **_ASK, **_END},
    _L.PAUSED: {"RUN_RESUMED": (_L.RUNNING,), **_ASK},
    _L.STOPPING: {
        "STOPPED": (_L.STOPPED,),
        "RUN_CANCELED": (_L.CANCELED,),
        "CANCEL_REQUESTED": (_L.STOPPING,),
    },
    _L.STOPPED: {"RUN_RESUMED": (_L.RUNNING,), "RUN_CANCELED": (_L.CANCELED,)},
    _L.PARTIAL: {"RUN_RESUMED": (_L.RUNNING,), "RUN_CANCELED": (_L.CANCELED,)},
    _L.FAILED: {"RUN_RESUMED": (_L.RUNNING,), "RUN_CANCELED": (_L.CANCELED,)},
    _L.SUCCEEDED: {},
    _L.CANCELED: {},
}
"""(lifecycle, event type) → where it may lead. Where there are several, the event's ``status`` says which."""

TERMINAL = frozenset({_L.STOPPED, _L.SUCCEEDED, _L.PARTIAL, _L.FAILED, _L.CANCELED})
"""No leg is open."""

OPEN = frozenset(_L) - TERMINAL

TERMINAL_EVENTS = frozenset({"STOPPED", "RUN_FINISHED", "RUN_FAILED", "RUN_CANCELED"})
"""Exactly one of these closes a leg."""

FINAL = frozenset({_L.SUCCEEDED, _L.CANCELED})
"""No leg will ever be opened again."""

LIFECYCLE_EVENTS = frozenset(tag for row in MOVES.values() for tag in row)

_RUN_STATE = {
    _L.CREATED: RunState.IDLE,
    _L.SUCCEEDED: RunState.IDLE,
    _L.RUNNING: RunState.RUNNING,
    _L.PAUSING: RunState.RUNNING,
    _L.STOPPING: RunState.RUNNING,
    _L.PAUSED: RunState.PAUSED,
    _L.STOPPED: RunState.STOPPED,
    _L.CANCELED: RunState.STOPPED,
    _L.PARTIAL: RunState.FAILED,
    _L.FAILED: RunState.FAILED,
}


class IllegalMove(Exception):
    """Raised when an event cannot follow in the present lifecycle. Always a bug, never bad input."""


def move(now: Lifecycle, event_type: str, status: str | None = None) -> Lifecycle:
    """Where ``event_type`` leads from ``now``. Raises ``IllegalMove``."""
    targets = MOVES[now].get(event_type)
    if targets is None:
        raise IllegalMove(f"{event_type} cannot follow in {now}")
    if status is None or len(targets) == 1:
        return targets[0]
    if status not in targets:
        raise IllegalMove(f"{event_type} with status {status} cannot follow in {now}")
    return Lifecycle(status)


def allows(now: Lifecycle, event_type: str) -> bool:
    return event_type in MOVES[now]


def run_state(now: Lifecycle) -> RunState:
    return _RUN_STATE[now]


def mermaid() -> str:
    """The state diagram, drawn from the table."""
    lines = ["stateDiagram-v2", "    [*] --> CREATED"]
    for source, row in MOVES.items():
        by_target: dict[Lifecycle, list[str]] = {}
        for tag, targets in row.items():
            for target in targets:
                by_target.setdefault(target, []).append(tag)
        lines += [f"    {source} --> {target} : {', '.join(tags)}" for target, tags in by_target.items()]
    lines += [f"    {state} --> [*]" for state in Lifecycle if state in FINAL]
    return "\n".join(lines)
