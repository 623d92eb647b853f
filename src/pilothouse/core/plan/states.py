"""The states of a node and the one table of moves between them.

The rules:

1. Everything that decides whether a move is legal is in ``MOVES``. A move that is not there is a bug of the
   caller, never a user's mistake: ``check_move`` raises ``IllegalNodeMove``, which nobody catches.
2. A root starts ready, every other node pending.
3. This file knows neither why a node moves nor what its move does to others: propagation is the decider's.
4. The terminal states end an *attempt*; only an explicit retry leaves them. Nothing leaves ``succeeded``.
5. An attempt that was interrupted (stopped, or lost in a crash) takes its node back to ready: the attempt
   ended, the node did not.

Rules 4 and 5 are ours. The document calls terminal states final and then lets retry and crash recovery bypass
its table; here they are moves like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class NodeStatus(StrEnum):
    """Where a node stands."""

    PENDING = "pending"
    """Waits for its dependencies."""
    READY = "ready"
    """Could start; waits for a slot."""
    SCHEDULED = "scheduled"
    """Was given a slot; its attempt is being placed."""
    RUNNING = "running"
    """An attempt is in one of its phases."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BLOCKED = "blocked"
    """Something it depends on failed or was canceled."""
    CANCELED = "canceled"
    """A person ended it."""


_PENDING, _READY, _SCHEDULED, _RUNNING = (
    NodeStatus.PENDING,
    NodeStatus.READY,
    NodeStatus.SCHEDULED,
    NodeStatus.RUNNING,
)
_SUCCEEDED, _FAILED, _BLOCKED, _CANCELED = (
    NodeStatus.SUCCEEDED,
    NodeStatus.FAILED,
    NodeStatus.BLOCKED,
    NodeStatus.CANCELED,
)

MOVES: Mapping[NodeStatus, Mapping[NodeStatus, str]] = MappingProxyType(
    {
        _PENDING: {
            _READY: "dependencies met",
            _BLOCKED: "dependency failed",
            _CANCELED: "user cancel",
        },
        _READY: {
            _SCHEDULED: "selected by scheduler",
            _BLOCKED: "dependency failed",
            _CANCELED: "user cancel",
        },
        _SCHEDULED: {
            _RUNNING: "executor started",
            _FAILED: "startup error",
            _CANCELED: "user cancel",
            _READY: "interrupted",
        },
        _RUNNING: {
            _SUCCEEDED: "work completed",
            _FAILED: "error occurred",
            _CANCELED: "user cancel",
            _READY: "interrupted",
        },
        _SUCCEEDED: {},
        _FAILED: {_PENDING: "retry"},
        _BLOCKED: {_PENDING: "retry"},
        _CANCELED: {_PENDING: "retry"},
    }
)
"""From, to, and what it is called in the diagram."""

OURS = frozenset(
    {
        (_SCHEDULED, _READY),
        (_RUNNING, _READY),
        (_FAILED, _PENDING),
        (_BLOCKED, _PENDING),
        (_CANCELED, _PENDING),
    }
)
"""The moves that are not in the plan document's table."""

TERMINAL = frozenset({_SUCCEEDED, _FAILED, _BLOCKED, _CANCELED})
"""Nothing happens to the node any more unless somebody asks for a retry."""

ACTIVE = frozenset({_SCHEDULED, _RUNNING})
"""An attempt exists that has not ended; a working node holds a slot."""


class IllegalNodeMove(RuntimeError):
    """Raised when code tries a move that the table does not have: a bug, not an expected failure."""


def check_move(old: NodeStatus, new: NodeStatus) -> None:
    """Raises ``IllegalNodeMove`` unless a node may go from ``old`` to ``new``. Staying put is no move."""
    if new not in MOVES[old]:
        raise IllegalNodeMove(f"a node cannot go from {old} to {new}")


def initial_status(*, is_root: bool) -> NodeStatus:
    """Where a node starts."""
    return _READY if is_root else _PENDING


def mermaid() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> pending", "    [*] --> ready : Root"]
    lines += [
        f"    {old} --> {new} : {label.capitalize()}" for old, moves in MOVES.items() for new, label in moves.items()
    ]
    lines += [f"    {status} --> [*]" for status in NodeStatus if status in TERMINAL]
    return "\n".join(lines) + "\n"
