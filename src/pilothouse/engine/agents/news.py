"""What an agent tells, on its way into the log: made sound, merged, bounded, and recorded a few times a second.

News go in a whole line of output at a time and are recorded a whole line at a time, with the offset after it: so the
log never holds half of what a line said. Knows neither files nor readers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from pilothouse.core.plan.agent_events import agent_event
from pilothouse.core.plan.approvals import approval
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.run.agents import (
    MAX_TEXT,
    Asked,
    News,
    Noted,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStarted,
    Used,
)
from pilothouse.core.run.events import Event
from pilothouse.core.run.usage import Usage
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.ports import Clock

N = TypeVar("N", bound=News)

RECORD_INTERVAL_S = 0.15
_AT_ONCE = (ToolStarted, ToolEnded, SessionStarted, Asked)
_ALWAYS = (Used, SessionStarted, Asked, ToolEnded)
"""Told also when a run has told all it may: sums, conversations and questions must be right."""
_MOST_HELD = 64 << 10
"""Characters that wait to be recorded."""
_LARGEST = 1 << 53
"""Beyond this, numbers mean something else to other readers of JSON."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of one run of an agent is told. The rest is in its raw output."""

    characters: int = 8 << 20
    items: int = 20_000
    """Not counting pieces of text."""
    notes: int = 500
    """Of the items: notes are what an agent's output holds beside its events, and what junk becomes."""
    items_in_all: int = 50_000
    """Of those too that are told always, but for usage."""
    models: int = 100
    """By so many names usage is told; that of more has none. Sums by model are kept as long as the plan."""


BOUNDS = Bounds()


class _Told(NamedTuple):
    news: News
    to: int


Tell = Callable[[Sequence[News]], None]
"""Where the news of an agent go instead of into the log of a plan."""


class Telling:
    """The news of one run of an agent. ``priced``: usage with its cost. ``tell`` takes them instead of the log."""

    def __init__(
        self,
        effect: RunWork,
        within: Within,
        clock: Clock,
        priced: Callable[[str, Usage], Usage],
        bounds: Bounds = BOUNDS,
        tell: Tell | None = None,
    ) -> None:
        self._effect = effect
        self._tell = tell
        self._within = within
        self._clock = clock
        self._priced = priced
        self._bounds = bounds
        self._characters = self._items = self._notes = 0
        self._more_said = False
        self._session: SessionStarted | None = None
        self._models: set[str] = set()
        self._waiting: list[_Told] = []
        self._held = 0
        self._bell = asyncio.Event()

    def line(self, news: Iterable[News], to: int) -> None:
        """All the news of a line that ends at ``to``. What lies in the log already is left out."""
        at_once = False
        for item in self._within_bounds(news):
            if to <= self._effect.read_to:
                continue
            self._waiting.append(_Told(sound(item), to))
            self._held += len(item.text) if isinstance(item, Text | Reasoning) else 1
            at_once = at_once or isinstance(item, _AT_ONCE)
        if at_once or self._held > _MOST_HELD:
            self.flush()
        elif self._waiting:
            self._bell.set()

    async def run(self) -> None:
        """Record what waits, at once the first time, then at intervals. Until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            self.flush()
            await self._clock.sleep(RECORD_INTERVAL_S)

    def flush(self) -> None:
        """Record what waits, now."""
        waiting, self._waiting, self._held = self._waiting, [], 0
        if not waiting:
            return
        merged = [told._replace(news=self._with_price(told.news)) for told in _merged(waiting)]
        if self._tell is not None:
            self._tell([told.news for told in merged])
        else:
            self._within.record(tuple(self._event(told) for told in merged))

    def at_the_end(self, news: Iterable[News]) -> tuple[News, ...]:
        """What was known only at the end, as it is to be recorded with the outcome."""
        self.flush()
        known = (self._by_known_model(item) if isinstance(item, Used) else item for item in news)
        return tuple(self._with_price(item) for item in map(sound, known))

    def _event(self, told: _Told) -> Event:
        effect, news = self._effect, told.news
        if isinstance(news, Asked):
            return approval(effect, news, told.to)
        return agent_event(news, node_id=effect.node_id, attempt=effect.attempt, phase=effect.phase, to=told.to)

    def _with_price(self, news: News) -> News:
        if not isinstance(news, Used):
            return news
        return msgspec.structs.replace(news, usage=self._priced(news.model, news.usage))

    # How much is told. Counted from the start of the output, so that every owner who reads it counts alike.

    def _within_bounds(self, news: Iterable[News]) -> Iterator[News]:
        for told in news:
            item = told
            if isinstance(item, SessionStarted):
                if item == self._session:
                    continue
                self._session = item
            if isinstance(item, Used):
                item = self._by_known_model(item)
            left = self._bounds.characters - self._characters
            self._characters += _characters(item)
            if not isinstance(item, Text | Reasoning | Used):
                self._items += 1
            self._notes += isinstance(item, Noted)
            if self._notes > self._bounds.notes and isinstance(item, Noted):
                yield from self._more()
            elif self._characters <= self._bounds.characters and self._items <= self._bounds.items:
                yield item
            elif isinstance(item, Used) or (isinstance(item, _ALWAYS) and self._items <= self._bounds.items_in_all):
                yield msgspec.structs.replace(item, output="") if isinstance(item, ToolEnded) else item
            elif isinstance(item, Text | Reasoning) and left > 0:
                yield msgspec.structs.replace(item, text=item.text[:left])
                yield from self._more()
            else:
                yield from self._more()

    def _by_known_model(self, used: Used) -> Used:
        if len(self._models) < self._bounds.models:
            self._models.add(used.model)
        return used if used.model in self._models else msgspec.structs.replace(used, model="")

    def _more(self) -> Iterator[Noted]:
        if not self._more_said:
            self._more_said = True
            yield Noted(text="… more in the raw output", level="warning")


def _characters(news: News) -> int:
    if isinstance(news, Text | Reasoning):
        return len(news.text)
    return sum(min(len(value), MAX_TEXT) for value in _strings(news).values())


def _strings(news: News) -> dict[str, str]:
    values = ((name, getattr(news, name)) for name in news.__struct_fields__)
    return {name: value for name, value in values if isinstance(value, str)}


def _merged(waiting: Iterable[_Told]) -> Iterator[_Told]:
    """Neighbours that can be one event are one: pieces of text, and usage of the same model."""

    def alike(told: _Told) -> object:
        match told.news:
            case Text() | Reasoning():
                return type(told.news)
            case Used(model=model):
                return Used, model
        return object()

    for _, group in groupby(waiting, alike):
        first, *others = group
        if not others:
            yield first
            continue
        to = others[-1].to
        if isinstance(first.news, Used):
            usages = (told.news.usage for told in others if isinstance(told.news, Used))
            yield _Told(msgspec.structs.replace(first.news, usage=sum(usages, first.news.usage)), to)
        else:
            texts: Iterator[str] = map(attrgetter("news.text"), (first, *others))
            yield _Told(msgspec.structs.replace(first.news, text="".join(texts)), to)


def sound(news: N) -> N:
    """The same, as a log can hold it: text that is Unicode and not without end, numbers that are finite and not
    negative. What an agent prints decides neither what the log can be read with nor how large it gets."""
    changes: dict[str, Any] = {}
    for name, value in _strings(news).items():
        if not isinstance(news, Text | Reasoning) and len(value) > MAX_TEXT:
            changes[name] = value = f"{value[: MAX_TEXT - 1]}…"
        if not value.isascii():
            plain = value.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
            if plain != value:
                changes[name] = plain
    if isinstance(news, Used):
        usage = {name: _number(getattr(news.usage, name)) for name in Usage.__struct_fields__}
        changes["usage"] = Usage(**usage)
    for name in ("lines_added", "lines_removed"):
        if hasattr(news, name):
            changes[name] = _number(getattr(news, name))
    return msgspec.structs.replace(news, **changes) if changes else news


def _number(value: float) -> Any:
    return min(max(value, 0), _LARGEST) if math.isfinite(value) else 0
