"""Pieces of one text, thought or argument that follow each other become one event; nothing else changes its place."""

from __future__ import annotations

from pilothouse.core.chat import backend, events, tool_events
from pilothouse.core.chat.plain import clean
from pilothouse.core.run.events import Event


class Joined:
    """Events in their order. What is appended to ``text(…)`` or ``arguments(…)`` is one event until another comes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._kind: type[backend.Said | backend.Thought | backend.ToolArguments] | None = None
        self._whose = ""
        self._pieces: list[str] = []
        self._begins = False

    def text(self, lane: str) -> list[str]:
        """Where pieces of an answer go until something else is told."""
        if self._kind is not backend.Said or lane != self._whose:
            self._begin(backend.Said, lane)
        return self._pieces

    def arguments(self, call_id: str) -> list[str]:
        if self._kind is not backend.ToolArguments or call_id != self._whose:
            self._begin(backend.ToolArguments, call_id)
        return self._pieces

    def thought(self, said: backend.Thought) -> None:
        if said.begins or self._kind is not backend.Thought or said.lane != self._whose:
            self._begin(backend.Thought, said.lane)
            self._begins = said.begins
        if said.text:
            self._pieces.append(said.text)
        if said.ends:
            self.flush(ends=True)

    def tell(self, *told: Event) -> None:
        self.flush()
        self.events.extend(told)

    def flush(self, *, ends: bool = False) -> None:
        kind, self._kind = self._kind, None
        if kind is None:
            return
        text, begins = clean("".join(self._pieces)), self._begins
        self._pieces, self._begins = [], False
        if kind is backend.Thought:
            if text or begins or ends:
                self.events.append(events.ReasoningDelta(text=text, lane=self._whose, begins=begins, ends=ends))
        elif text and kind is backend.Said:
            self.events.append(events.TextDelta(text=text, lane=self._whose))
        elif text:
            self.events.append(tool_events.ToolCallArgs(tool_call_id=self._whose, delta=text))

    def _begin(self, kind: type[backend.Said | backend.Thought | backend.ToolArguments], whose: str) -> None:
        self.flush()
        self._kind, self._whose = kind, whose
