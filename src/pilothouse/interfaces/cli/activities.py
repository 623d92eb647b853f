"""What the agents of a plan are doing, told by the events of its log: one line a node, the last one."""

from __future__ import annotations

from pilothouse.core.plan.agent_events import AgentEvent
from pilothouse.core.plan.transcript import Transcript
from pilothouse.core.run.events import Event
from pilothouse.interfaces.cli.words import last_line

_KEPT = 1_000
"""Characters of what an agent said last: more than a line on a screen holds."""


class Activities:
    """One transcript per run of an agent, of which only the end is kept."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[tuple[int, str], Transcript, str]] = {}

    def add(self, event: Event) -> tuple[str, str] | None:
        """(node id, its last line) when an event says something of what an agent does."""
        if not isinstance(event, AgentEvent):
            return None
        run = (event.attempt, str(event.phase))
        known, transcript, text = self._told.get(event.node_id, (run, Transcript(), ""))
        if known != run:
            transcript, text = Transcript(), ""
        added = transcript.add(event)
        if not added:
            return None
        text = (text + added)[-_KEPT:]
        self._told[event.node_id] = (run, transcript, text)
        return event.node_id, last_line(text)
