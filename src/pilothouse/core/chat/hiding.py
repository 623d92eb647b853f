"""What a backend says, without a secret: our key for it, which one that repeats what it was asked with would bring to
logs, models and people.

A secret may come in pieces, so of each text that is streamed the end is held back as long as it may be the beginning of
one; no other letter waits. It is no wall against a backend that wants to tell its key: that one can spell it backwards.
Knows neither where secrets come from nor any wire.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.core.chat.backend import (
    BackendEvent,
    ChatKnown,
    ConversationKnown,
    Noticed,
    NotUnderstood,
    Said,
    Spent,
    Thought,
    Titled,
    ToolArguments,
)
from pilothouse.core.chat.plain import plain
from pilothouse.core.run.output import Redactor

SHORTEST = 6
"""Characters of the shortest secret that is hidden: anything shorter is in every other text."""
HIDDEN = "***"
_MOST_HELD = 256
"""Texts whose ends are held back at once; of more the oldest goes on as it is."""

_Piece = Said | Thought | ToolArguments
_BESIDE = Spent | Noticed | ConversationKnown | ChatKnown | Titled | NotUnderstood
"""What breaks no text off: the pieces before and after it are read as one. Some servers tell usage with every piece."""
_Place = tuple[type[_Piece], str, str]
"""Which text a piece belongs to: its kind, its lane, and its call where it is one's arguments."""


class Secrets:
    """Secrets, and texts without them."""

    def __init__(self, values: Iterable[str], shortest: int = SHORTEST) -> None:
        """Of ``values`` those of at least ``shortest`` characters."""
        kept = (value for value in values if len(value) >= shortest)
        self._forms = tuple(dict.fromkeys(form for value in kept for form in _forms(value)))

    def __bool__(self) -> bool:
        return bool(self._forms)

    def stream(self) -> Redactor:
        """For bytes that come in pieces."""
        return Redactor(self._forms, HIDDEN.encode())

    def hide(self, value: Any) -> Any:
        """``value``, a text or any JSON value, without them."""
        match value:
            case str():
                return self._text(value)
            case dict() | list() | tuple():
                return self._walked(value) if self._may_hold(value) else value
        return value

    def _may_hold(self, value: Any) -> bool:
        try:
            body = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
            return True
        return any(_bytes(form) in body for form in self._forms)

    def _walked(self, value: Any) -> Any:
        try:
            return self._within(value)
        except RecursionError:  # nobody keeps it as deep as that
            return self.hide(plain(value))

    def _within(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case dict():
                return {self._within(key): self._within(inner) for key, inner in value.items()}
            case list():
                return [self._within(inner) for inner in value]
            case tuple():
                return tuple(self._within(inner) for inner in value)
        return value

    def _text(self, text: str) -> str:
        if not any(form in text for form in self._forms):
            return text
        stream = self.stream()
        return _text(stream.feed(_bytes(text)) + stream.flush())


class Hiding:
    """One stream of a backend. ``feed`` it what is said, then ``end`` it."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held: OrderedDict[_Place, tuple[_Piece, Redactor]] = OrderedDict()
        """Only texts of which an end is held back, each with its last piece."""
        self._idle: Redactor | None = None
        """One that holds nothing back, for whichever text comes next: to make one costs more than to use it."""

    def feed(self, said: Sequence[BackendEvent]) -> list[BackendEvent]:
        """What may be told now, in its order: all but the ends that are held back."""
        return [event for one in said for event in self._fed(one)] if self._secrets else list(said)

    def end(self) -> list[BackendEvent]:
        """What was held back, now that it turns out to be no secret."""
        return [rest for place in list(self._held) for rest in self._let_go(place)]

    def _fed(self, event: BackendEvent) -> Iterator[BackendEvent]:
        if not isinstance(event, _Piece):
            if not isinstance(event, _BESIDE):
                yield from self._before(event)
            yield self._whole(event)
            return
        place = (type(event), event.lane, event.id if isinstance(event, ToolArguments) else "")
        if place in self._held and isinstance(event, Thought) and event.begins:
            yield from self._let_go(place)
        if self._held:
            yield from self._before(event, place)
        stream = self._held.pop(place)[1] if place in self._held else self._idle or self._secrets.stream()
        self._idle = None
        text = stream.feed(_bytes(_text_of(event)))
        if isinstance(event, Thought) and event.ends:
            text += stream.flush()
        if text or (isinstance(event, Thought) and (event.begins or event.ends)):
            yield _with(event, text)
        if not stream.holds:
            self._idle = stream
            return
        self._held[place] = event, stream
        if len(self._held) > _MOST_HELD:
            yield from self._let_go(next(iter(self._held)))

    def _before(self, event: BackendEvent, place: _Place | None = None) -> Iterator[BackendEvent]:
        """The rest of what cannot go on, since its lane, or everybody, says something else now. Arguments of several
        calls may come side by side."""
        lane = getattr(event, "lane", None)
        for other in list(self._held):
            beside = other == place or (other[0] is ToolArguments and isinstance(event, ToolArguments))
            if not beside and lane in (None, other[1]):
                yield from self._let_go(other)

    def _let_go(self, place: _Place) -> Iterator[BackendEvent]:
        event, stream = self._held.pop(place)
        if text := stream.flush():
            yield _with(msgspec.structs.replace(event, begins=False) if isinstance(event, Thought) else event, text)

    def _whole(self, event: BackendEvent) -> BackendEvent:
        told = ((name, getattr(event, name)) for name in event.__struct_fields__)
        changes = {name: new for name, old in told if (new := self._secrets.hide(old)) is not old}
        return msgspec.structs.replace(event, **changes) if changes else event


def _forms(value: str) -> Iterator[str]:
    """As it is, and as JSON writes it, once or twice quoted."""
    yield value
    for in_ascii in (False, True):
        once = _quoted(value, in_ascii)
        yield from (once, _quoted(once, in_ascii))


def _quoted(text: str, in_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=in_ascii)[1:-1]


def _text_of(event: _Piece) -> str:
    return event.delta if isinstance(event, ToolArguments) else event.text


def _with(event: _Piece, text: bytes) -> BackendEvent:
    match event:
        case ToolArguments():
            return msgspec.structs.replace(event, delta=_text(text))
        case _:
            return msgspec.structs.replace(event, text=_text(text))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
