"""A backend that says what it was told to: the in-memory twin that tests and the simulation use.

A script is asked for each request and gives steps. It has no clock but the event loop's, and makes no ids: the same
script in the same loop says the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pilothouse.core.chat.backend import BackendEvent, Completed, Failed, Paused
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.errors import BackendFailed


@dataclass(frozen=True, slots=True)
class Delay:
    """Say nothing for that long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reports:
    """Say nothing until the ends of these calls have been reported."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Say nothing until ``MemoryBackend.release`` is called with this name."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """Fail as a connection does."""

    error: BackendFailed


Step: TypeAlias = BackendEvent | Sequence[BackendEvent] | Delay | Reports | Hold | Break
"""A sequence of events is one network chunk; the end of the steps is the end of the stream."""
Script: TypeAlias = Callable[[BackendRequest], Iterable[Step]]

_FEATURES = Features(repeats=True)


def events_of(step: BackendEvent | Sequence[BackendEvent]) -> Sequence[BackendEvent]:
    """What one network chunk says."""
    return step if isinstance(step, Sequence) else (step,)


def by_call(*legs: Sequence[Step]) -> Script:
    """A script that plays ``legs[n]`` for the n-th request of every turn, and the last one again after that."""
    return lambda request: legs[min(request.call, len(legs)) - 1]


class MemoryBackend:
    """``requests``, ``reports``, ``steers``, ``aborts``, ``answers`` and ``titles`` are what it was told, in order.
    ``open`` are the requests that go on, as (turn id, call)."""

    name = "memory"

    def __init__(
        self, script: Script | Sequence[Step] = (), *, features: Features = _FEATURES, title: str = ""
    ) -> None:
        self._script: Script = script if callable(script) else by_call(script)
        self.features = features
        self._title = title
        self._changed = asyncio.Event()
        self._released: set[str] = set()
        self.requests: list[BackendRequest] = []
        self.reports: list[ToolReport] = []
        self.steers: list[SteerBackend] = []
        self.aborts: list[AbortBackend] = []
        self.answers: list[AnswerBackend] = []
        self.titles: list[MakeTitle] = []
        self.open: set[tuple[str, int]] = set()
        self.failing: list[BackendFailed] = []
        """What the next reports, steers, aborts and titles raise instead, in order."""

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        self.requests.append(request)
        key = (request.turn_id, request.call)
        self.open.add(key)
        try:
            for step in self._script(request):
                if isinstance(step, Delay):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Break):
                    raise step.error
                elif isinstance(step, Hold):
                    while step.name not in self._released:
                        await self._changed.wait()
                elif isinstance(step, Reports):
                    wanted = {(request.turn_id, one) for one in step.ids}
                    while not wanted <= {(one.turn_id, one.tool_call_id) for one in self.reports}:
                        await self._changed.wait()
                else:
                    chunk = events_of(step)
                    yield chunk
                    if any(isinstance(event, Completed | Failed | Paused) for event in chunk):
                        return
        finally:
            self.open.discard(key)

    def release(self, name: str = "") -> None:
        """Let every ``Hold`` of that name go on, also those yet to come."""
        self._released.add(name)
        self._wake()

    async def report(self, report: ToolReport) -> None:
        self._fail()
        self.reports.append(report)
        self._wake()

    async def steer(self, steer: SteerBackend) -> None:
        self._fail()
        self.steers.append(steer)

    async def abort(self, abort: AbortBackend) -> None:
        self._fail()
        self.aborts.append(abort)

    async def answer(self, answer: AnswerBackend) -> None:
        self._fail()
        self.answers.append(answer)

    async def title(self, make: MakeTitle) -> str:
        self._fail()
        self.titles.append(make)
        return self._title or make.message[:60]

    async def models(self) -> list[ChatModel]:
        return [ChatModel(id="memory", name="In memory", default=True)]

    def _fail(self) -> None:
        if self.failing:
            raise self.failing.pop(0)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
