"""Following a stream whatever happens to the connection or the server: what to ask next, and what is new. No I/O.

A course is asked for a request, fed what arrives, and told when the connection broke; it says how long to wait before
the next one. Events seen before are dropped, so that there is neither a gap nor a duplicate.
"""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

from pilothouse.client.events import ENDS, ChatEvent, read_event
from pilothouse.client.failures import Unreachable
from pilothouse.client.flows import Ask, segment
from pilothouse.client.sse import Decoder, Message

T = TypeVar("T")

SILENCE_S = 45.0
"""Seconds without a byte after which a connection counts as broken: keepalives come every 15."""
GIVE_UP_S = 60.0
"""Seconds without anything new after which following fails, when connections break soon or cannot be made."""
BEGIN_S = 10.0
"""The same where nothing has come at all: there may be nobody."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_EVENTS = {"Accept": "text/event-stream"}


class Course(Generic[T]):
    """One stream. ``ended`` once it has nothing more to say."""

    def __init__(self, after: int = 0) -> None:
        """``after``: the number of the last event that is known already."""
        self.after = after
        self.ended = False
        self._decoder = Decoder()
        self._heard = False
        self._pause = _FIRST_PAUSE
        self._since: float | None = None
        """When the trouble began."""
        self._stood = False
        """The connection at hand brought something, if only a sign of life."""
        self._broke_at = 0.0

    def request(self) -> Ask:
        """What to ask for the next connection."""
        self._decoder = Decoder()
        self._stood = False
        return self._request()

    def feed(self, chunk: bytes) -> list[T]:
        """What is new in a piece of the stream."""
        self._heard = self._stood = True
        found: list[T] = []
        for message in self._decoder.feed(chunk):
            if self.ended:
                break
            if not message.id.isdecimal() or (number := int(message.id)) <= self.after:
                continue
            self.after = number
            self._pause, self._since = _FIRST_PAUSE, None
            found.append(self._read(message))
        return found

    def empty(self) -> None:
        """The server has nothing more (204)."""
        self.ended = True

    def broke(self, error: Unreachable, now: float) -> float:
        """The connection ended before the stream did. Answers the seconds to wait; raises ``error`` when there was
        nothing new for too long. ``now`` is of a clock that only goes forward."""
        if self._stood and now - self._broke_at > GIVE_UP_S:
            self._pause, self._since = _FIRST_PAUSE, None  # it stood for a while, and there was nothing to say
        self._broke_at = now
        self._since = self._since if self._since is not None else now
        if now - self._since > (GIVE_UP_S if self._heard else BEGIN_S):
            raise error
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        return pause

    def _request(self) -> Ask:
        raise NotImplementedError

    def _read(self, message: Message) -> T:
        raise NotImplementedError


class RunCourse(Course[dict[str, Any]]):
    """The events of a run, as its log has them, to the end of its last leg."""

    def __init__(self, run_id: str, after: int = 0) -> None:
        super().__init__(after)
        self._path = f"/api/runs/{segment(run_id)}/events"

    def _request(self) -> Ask:
        return Ask("GET", self._path, {"after": self.after}, headers=_EVENTS)

    def _read(self, message: Message) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(message.data)
        return event


class TurnCourse(Course[ChatEvent]):
    """A turn, from its message or from any of its events to the end of its leg."""

    def __init__(self, message: dict[str, object] | None = None, turn_id: str = "", after: int = 0) -> None:
        """``message`` is the body that sends it, with a ``messageId`` by which it may be sent again; without one the
        turn ``turn_id`` is followed."""
        super().__init__(after)
        self._message = message
        self.turn_id = turn_id
        self.chat_id = ""

    def _request(self) -> Ask:
        if not self.turn_id:
            return Ask("POST", "/api/copilot/chat", body=self._message, headers=_EVENTS)
        query = {"streamId": self.turn_id, "after": self.after}
        return Ask("GET", "/api/copilot/chat/stream", query, headers=_EVENTS)

    def _read(self, message: Message) -> ChatEvent:
        event = read_event(message.data)
        self.turn_id = self.turn_id or event.stream_id
        self.chat_id = self.chat_id or getattr(event, "chat_id", "")
        self.ended = isinstance(event, ENDS)
        return event
