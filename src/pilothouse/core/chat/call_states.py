"""Where a tool call stands, and the one table of moves between these places.

The rules:

1. Everything that decides whether a move is legal is in ``MOVES``. A move that is not there is a bug of the caller,
   never what a backend or a person did: ``check_move`` raises ``IllegalMove``, which nobody catches.
2. A call that is over stays as it ended, whatever is said of it later.
3. A call that the backend executes itself is executing from when it is told.
4. Only what was pending is ever begun, and only what waits for a person is ever approved.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.run.lifecycle import IllegalMove

_GENERATING, _PENDING, _AWAITING = CallStatus.GENERATING, CallStatus.PENDING, CallStatus.AWAITING_APPROVAL
_EXECUTING, _BACKGROUND = CallStatus.EXECUTING, CallStatus.BACKGROUND
_SUCCESS, _ERROR, _SKIPPED = CallStatus.SUCCESS, CallStatus.ERROR, CallStatus.SKIPPED
_REJECTED, _CANCELLED = CallStatus.REJECTED, CallStatus.CANCELLED

_ANSWERED = {
    _SUCCESS: "answered",
    _ERROR: "failed",
    _SKIPPED: "not permitted",
    _REJECTED: "refused",
    _CANCELLED: "turn ended",
}

MOVES: Mapping[CallStatus, Mapping[CallStatus, str]] = MappingProxyType(
    {
        _GENERATING: {_PENDING: "told whole", _EXECUTING: "the backend's own", **_ANSWERED},
        _PENDING: {
            _AWAITING: "somebody must allow it",
            _EXECUTING: "begun",
            _BACKGROUND: "begun, nobody waits",
            **_ANSWERED,
        },
        _AWAITING: {_PENDING: "approved", **_ANSWERED},
        _EXECUTING: {
            _EXECUTING: "begun again after a restart",
            _BACKGROUND: "nobody waits any more",
            _PENDING: "was meant for us",
            **_ANSWERED,
        },
        _BACKGROUND: {_BACKGROUND: "begun again after a restart", **_ANSWERED},
        _SUCCESS: {},
        _ERROR: {},
        _SKIPPED: {},
        _REJECTED: {},
        _CANCELLED: {},
    }
)
"""From, to, and what it is called in the diagram."""

OVER = frozenset(status for status, moves in MOVES.items() if not moves)
"""Nothing follows for a call in one of these."""


def check_move(old: CallStatus, new: CallStatus) -> None:
    """Raises ``IllegalMove`` unless a call may go from ``old`` to ``new``."""
    if new not in MOVES[old]:
        raise IllegalMove(f"a tool call cannot go from {old} to {new}")


def mermaid() -> str:
    """The table as a Mermaid state diagram; the ways to an end are drawn once, from all that is open."""
    lines = ["stateDiagram-v2", f"    [*] --> {_GENERATING}", f"    [*] --> {_PENDING} : told whole"]
    lines += [
        f"    {old} --> {new} : {label}"
        for old, moves in MOVES.items()
        for new, label in moves.items()
        if new not in OVER
    ]
    lines += [f"    {old} --> over" for old in MOVES if old not in OVER]
    lines += [f"    over : {', '.join(status for status in CallStatus if status in OVER)}", "    over --> [*]"]
    return "\n".join(lines) + "\n"
