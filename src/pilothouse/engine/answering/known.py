"""How much of what an agent told in a turn is in the log already: for whoever follows it after a restart."""

from __future__ import annotations

from dataclasses import dataclass, field

from pilothouse.core.chat.events import BackendCalled, ReasoningDelta, TextDelta, TurnNoticed, UsageRecorded
from pilothouse.core.run.events import Event
from pilothouse.core.run.registry import Registry
from pilothouse.engine.ports import EventStore

NOTE, FILE_EDITED = "agent_note", "file_edited"
"""The kinds of notices that an agent's news become."""
_PAGE = 500


@dataclass(slots=True)
class Known:
    """How much of one request's agent is in the log. Tokens are (in, out, cached) by model."""

    text: int = 0
    reasoning: int = 0
    notices: int = 0
    tokens: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, event: Event, call: int, now: int) -> int:
        """Count an event; ``now`` is the request that it is of. Answers the one that the next is of."""
        match event:
            case BackendCalled():
                return event.call
            case UsageRecorded() if event.call == call:
                before = self.tokens.get(event.model, (0, 0, 0))
                added = (event.input_tokens, event.output_tokens, event.cached_tokens)
                self.tokens[event.model] = tuple(map(sum, zip(before, added, strict=True)))  # type: ignore[assignment]  # of three come three
            case TextDelta(text=text) if now == call:
                self.text += len(text)
            case ReasoningDelta(text=text) if now == call:
                self.reasoning += len(text)
            case TurnNoticed(kind=kind) if now == call and kind in (NOTE, FILE_EDITED):
                self.notices += 1
        return now


class KnownInLog:
    """Reads it from the log of a turn."""

    def __init__(self, store: EventStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def __call__(self, turn_id: str, call: int) -> Known:
        """What is known of a turn's request. Raises ``Gone``, ``StoreFailed``."""
        known, now, after = Known(), 0, 0
        while segments := await self._store.read(turn_id, after, _PAGE):
            for segment in segments:
                for event in self._registry.decode(segment.body):
                    now = known.add(event, call, now)
            after = segments[-1].last_seq
        return known
