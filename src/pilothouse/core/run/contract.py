"""The contract of the three kinds of run: ``decide``, ``evolve``, ``todo``.

A kind is pure. The supervisor takes an input, lets ``decide`` answer events, appends them, lets ``evolve`` fold
them, compares ``todo`` with what is in flight, starts what is missing and ends what is no longer wanted. Recovery is
the same loop from a folded log. A kind never awaits, reads a clock or makes an id: times come with recorded events,
ids and outcomes with inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

import msgspec

from pilothouse.core.run.events import Event, Recorded
from pilothouse.core.run.inputs import Input
from pilothouse.core.run.state import Common


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done in the world.

    ``key`` names it for ever within its run: the same key is never performed twice to its end. A *gated* effect has its
    intent in the log before it is performed and is never begun after a stop; an ungated one is housekeeping (safe to
    repeat, and done also when the run has stopped).
    """

    gated: ClassVar[bool] = True
    key: str


class Timer(Effect, frozen=True, kw_only=True):
    """Wait for a moment: milliseconds since the epoch. Answered with ``TimeUp``; begun anew by the next owner."""

    until: int


class TimeUp(msgspec.Struct, frozen=True, kw_only=True):
    """A timer's result: its moment has come."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """An effect's result: it could not be performed. ``error`` is one sentence."""

    error: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """An effect's result: it was ended because it was no longer wanted."""


class NotStarted(msgspec.Struct, frozen=True, kw_only=True):
    """An effect's result: it was never begun, the gate having closed between its intent and its start."""


S = TypeVar("S")


class Kind(Protocol[S]):
    """One kind of run. ``evolve`` may change the state it is given, and owns it."""

    name: str

    def initial(self, run_id: str) -> S: ...

    def common(self, state: S) -> Common:
        """The part of the state every kind has."""
        ...

    def decide(self, state: S, given: Input) -> Sequence[Event]:
        """What follows from an input. Raises ``Refused`` or ``BadInput`` for a request that does not apply."""
        ...

    def evolve(self, state: S, recorded: Recorded) -> S:
        """Raises ``IllegalMove`` for an event that cannot follow: a bug, or a corrupt log."""
        ...

    def todo(self, state: S) -> Mapping[str, Effect]:
        """The effects that should be in flight, by key."""
        ...

    def unfinished(self, state: S) -> Mapping[str, Effect]:
        """Every gated effect whose intent is in the log and whose outcome is not, wanted or not."""
        ...

    def slots(self, state: S) -> int:
        """Slots of the server's capacity it holds."""
        ...

    def demand(self, state: S) -> int:
        """Slots it could use more."""
        ...
