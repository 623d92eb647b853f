"""One command to run, and how it ended: the values that cross the executor port.

Knows nothing of plans, processes or sockets. All times are milliseconds, all wall clock instants
milliseconds since the epoch.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run.

    ``output`` names the attempt output it writes to, a relative path such as ``<run>/<node>/<attempt>/work``;
    ``redact`` are secret values that must never reach what it writes. ``env`` is the whole environment.
    """

    argv: tuple[str, ...]
    cwd: str
    output: str
    errors: str = ""
    """The output that stderr is written to. Empty: to ``output`` as well, in the order in which both were written."""
    env: dict[str, str] = {}
    stdin: str = ""
    timeout_ms: int = 0
    """0 means none; a timeout ends the whole tree."""
    grace_ms: int = 100
    """Between the polite signal and the final one."""
    redact: tuple[str, ...] = ()


class ExitReason(StrEnum):
    """Why a command is no longer running."""

    EXITED = "exited"
    """It ended by itself."""
    TIMEOUT = "timeout"
    """Its own timeout ended it."""
    CANCELED = "canceled"
    """Somebody asked for its end."""
    NOT_STARTED = "not_started"
    """It could not be started at all (no such executable, no such directory)."""
    LOST = "lost"
    """The executor that ran it is gone, or it ended everything for want of an owner: outcome unknown."""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. ``code`` is set when it exited, ``signal`` when a signal killed it."""

    reason: ExitReason
    code: int | None = None
    signal: int | None = None
    error: str = ""
    output_to: int = 0
    """Bytes of output it wrote in all, also those no longer kept."""
    started_at: int = 0
    ended_at: int = 0

    @property
    def ok(self) -> bool:
        """True when the command itself ended with status 0 and nobody interfered."""
        return self.reason is ExitReason.EXITED and self.code == 0


class Grew(msgspec.Struct, frozen=True):
    """More was written: ``output`` is ``to`` bytes now. The same ``to`` again means that only ``errors`` has grown."""

    to: int


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor knows: commands it runs or whose end it still remembers, by key.

    ``instance`` names this life of the executor. A key that is absent from the *same* instance that was
    asked to run it has certainly never started; absent from a new instance it is unknown.
    """

    instance: str
    running: frozenset[str] = frozenset()
    ended: dict[str, Exit] = {}

    def knows(self, key: str) -> bool:
        return key in self.running or key in self.ended
