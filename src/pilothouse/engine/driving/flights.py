"""The effects of one run that are in flight: begun, told that they are not wanted any more, awaited, let go of.

Knows neither why an effect is wanted nor what a gate is: whoever dispatches says both. What an effect reports or
answers goes to ``post``; what it tells and waits for goes to ``ask``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from pilothouse.core.run.contract import Effect, Failed
from pilothouse.core.run.inputs import Input, Outcome, Progress
from pilothouse.engine.driving.effects import Performer, Within
from pilothouse.errors import PilothouseError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Flight:
    within: Within
    task: asyncio.Task[None] = field(init=False)


class Flights:
    """By key. None is a task that nobody awaits: ``let_go`` ends what is left."""

    def __init__(
        self,
        run_id: str,
        epoch: int,
        performer: Performer,
        post: Callable[[Input], None],
        ask: Callable[[Input], Awaitable[None]],
    ) -> None:
        self._run_id = run_id
        self._epoch = epoch
        self._performer = performer
        self._post = post
        self._ask = ask
        self._flights: dict[str, _Flight] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._flights)

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    def landed(self, keys: Iterable[str]) -> None:
        """Their outcomes are in the log."""
        for key in keys:
            self._flights.pop(key, None)

    def match(self, wanted: Mapping[str, Effect], gate_open: bool) -> None:
        """Begin what should be in flight and is not, the gate permitting; end what is and should not be. No await."""
        for key, flight in self._flights.items():
            if key not in wanted:
                flight.within.unwanted.set()
        for key, effect in wanted.items():
            if key not in self._flights and (gate_open or not effect.gated):
                self._begin(effect)

    def follow(self, effects: Mapping[str, Effect]) -> None:
        """Effects of which nobody knows how far they came: what is not in flight is begun as unwanted, so that its
        performer finds its end, and brings it about."""
        for key, effect in effects.items():
            if key not in self._flights:
                self._begin(effect).within.unwanted.set()

    def _begin(self, effect: Effect) -> _Flight:
        within = Within(
            self._run_id,
            self._epoch,
            lambda events: self._post(Progress(key=effect.key, events=events)),
            self._ask,
        )
        flight = self._flights[effect.key] = _Flight(within)
        flight.task = asyncio.create_task(self._perform(effect, within), name=f"{self._run_id}/{effect.key}")
        return flight

    async def _perform(self, effect: Effect, within: Within) -> None:
        result: msgspec.Struct
        try:
            result = await self._performer(effect, within)
        except PilothouseError as error:
            result = Failed(error=str(error))
        except Exception as error:  # a bug in a performer fails its effect alone, and says so
            log.exception("effect.crashed", extra={"run_id": self._run_id, "key": effect.key})
            result = Failed(error=f"internal error: {type(error).__name__}: {error}")
        self._post(Outcome(key=effect.key, result=result))

    async def end(self, patience_s: float) -> None:
        """None of them is wanted any more: wait for their ends, but not for ever."""
        for flight in self._flights.values():
            flight.within.unwanted.set()
        tasks = [flight.task for flight in self._flights.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)

    async def let_go(self) -> None:
        """This process lets go of them; what runs elsewhere goes on for the next owner."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
