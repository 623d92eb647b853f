"""What a run can be told: the inputs of ``decide``.

An input is a request, the outcome of an effect, or news from the world. Only its consequences are recorded, as
events; the input itself is not.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.run.events import Event, Source


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all inputs."""


class Start(Input, frozen=True, kw_only=True):
    """Open the first leg."""


class Stop(Input, frozen=True, kw_only=True):
    """End everything now, cleanly; resumable."""

    source: Source = Source.USER


class Cancel(Input, frozen=True, kw_only=True):
    """End everything now, for good. Of an interrupted run this is what *discard* does."""

    source: Source = Source.USER
    reason: str = "canceled"


class Pause(Input, frozen=True, kw_only=True):
    """Let what runs finish; start nothing new."""


class Resume(Input, frozen=True, kw_only=True):
    """Go on after a pause or a clean stop."""


class Retry(Input, frozen=True, kw_only=True):
    """Try failed parts again; all of them when ``scopes`` is empty. ``fresh``: from the start, not from where
    they failed."""

    scopes: tuple[str, ...] = ()
    fresh: bool = False


class CancelPart(Input, frozen=True, kw_only=True):
    """End one part (a node or a group) for good; the rest goes on."""

    scope: str


class Answer(Input, frozen=True, kw_only=True):
    """A person answered an open wait."""

    wait_id: str
    answer: str
    by: str
    arguments: dict[str, Any] | None = None
    """What the tool that asked is to be used with instead."""
    message: str = ""


class Outcome(Input, frozen=True, kw_only=True):
    """An effect came to its end. ``result`` is what its performer answered, see ``contract``."""

    key: str
    result: msgspec.Struct


class Progress(Input, frozen=True, kw_only=True):
    """An effect reports while it goes on. It is recorded as these events, or some of them; what follows from them
    is decided from the state, as ever."""

    key: str
    events: tuple[Event, ...]


class Grant(Input, frozen=True, kw_only=True):
    """``slots`` more parts may run."""

    slots: int


class Recover(Input, frozen=True, kw_only=True):
    """A new owner took over. ``known`` are the keys of effects that still run or whose end is waiting to be
    fetched; ``instance`` is the executor's life that says so."""

    epoch: int
    instance: str
    known: frozenset[str]


class Settle(Input, frozen=True, kw_only=True):
    """Nothing new: decide what follows from the state as it is (the supervisor asks until nothing does)."""
