"""The part of the state every kind of run has, and its fold."""

from __future__ import annotations

from dataclasses import dataclass, field

from pilothouse.core.run.events import (
    CancelRequested,
    Recorded,
    RunCreated,
    RunResumed,
    RunStarted,
    Source,
    StopRequested,
    WaitClosed,
    WaitOpened,
)
from pilothouse.core.run.lifecycle import LIFECYCLE_EVENTS, TERMINAL, Lifecycle, move
from pilothouse.core.run.waits import Wait


@dataclass(slots=True)
class Common:
    """Lifecycle, leg and waits of a run. ``final`` is True once a cancel was requested."""

    run_id: str
    name: str = ""
    lifecycle: Lifecycle = Lifecycle.CREATED
    leg: int = 0
    seq: int = 0
    created_at: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    stop_source: Source = Source.USER
    final: bool = False
    waits: dict[str, Wait] = field(default_factory=dict)

    @property
    def terminal(self) -> bool:
        return self.lifecycle in TERMINAL

    def evolve(self, recorded: Recorded) -> None:
        """Fold what all kinds share; events of a kind pass through. Raises ``IllegalMove``."""
        event = recorded.event
        self.seq = recorded.seq
        tag = event.type_name()
        if tag in LIFECYCLE_EVENTS:
            self.lifecycle = move(self.lifecycle, tag, getattr(event, "status", None))
            self.ended_at = recorded.at if self.terminal else None
        if isinstance(event, RunCreated):
            self.name, self.created_at = event.name, recorded.at
        elif isinstance(event, RunStarted | RunResumed):
            self.leg = event.leg
            self.started_at = self.started_at or recorded.at
            self.final = False
        elif isinstance(event, StopRequested | CancelRequested):
            self.stop_source = event.source
            self.final = self.final or isinstance(event, CancelRequested)
        elif isinstance(event, WaitOpened):
            self.waits[event.wait.id] = event.wait.opened(recorded.at)
        elif isinstance(event, WaitClosed):
            self.waits.pop(event.wait_id, None)
