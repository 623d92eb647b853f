"""The smallest kind of run: numbered steps, one after the other, each an effect of a scripted performer.

It shows that actors, supervisor, capacity and hub know nothing of plans. ``Script`` is its performer: what a test lets
happen, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from pilothouse.core.run import control
from pilothouse.core.run.contract import Effect, Ended, Failed, NotStarted
from pilothouse.core.run.events import (
    RUN_EVENTS,
    Event,
    Recorded,
    RunCreated,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunStarted,
)
from pilothouse.core.run.inputs import (
    Cancel,
    Grant,
    Input,
    Outcome,
    Pause,
    Progress,
    Recover,
    Resume,
    Settle,
    Stop,
)
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.state import Common
from pilothouse.engine.driving.effects import Within
from pilothouse.errors import BadInput, Refused


class StepsGiven(Event, frozen=True, kw_only=True, tag="STEPS_GIVEN"):
    """``width``: how many may run at once. ``tidies``: clean-up is owed once the run has stopped."""

    steps: int
    width: int = 1
    tidies: bool = False


class StepStarted(Event, frozen=True, kw_only=True, tag="STEP_STARTED"):
    number: int


class StepEnded(Event, frozen=True, kw_only=True, tag="STEP_ENDED"):
    number: int
    status: str


class StepSaid(Event, frozen=True, kw_only=True, tag="STEP_SAID"):
    durable: ClassVar[bool] = False

    text: str


class Tidied(Event, frozen=True, kw_only=True, tag="TIDIED"):
    pass


REGISTRY = Registry(RUN_EVENTS, (StepsGiven, StepStarted, StepEnded, StepSaid, Tidied))


class Step(Effect, frozen=True, kw_only=True):
    number: int


class Tidy(Effect, frozen=True, kw_only=True):
    gated: ClassVar[bool] = False


class Create(Input, frozen=True, kw_only=True):
    steps: int = 1
    width: int = 1
    tidies: bool = False


@dataclass
class Steps:
    """``waiting``: the numbers of steps that have not been done."""

    common: Common
    width: int = 1
    tidies: bool = False
    waiting: list[int] = field(default_factory=list)
    open: dict[str, Effect] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)


class TrivialKind:
    """See ``core.run.contract.Kind``."""

    name = "trivial"

    def initial(self, run_id: str) -> Steps:
        return Steps(Common(run_id))

    def common(self, state: Steps) -> Common:
        return state.common

    def unfinished(self, state: Steps) -> Mapping[str, Effect]:
        return state.open

    def todo(self, state: Steps) -> Mapping[str, Effect]:
        if state.common.lifecycle is Lifecycle.STOPPING:
            return {}
        tidy: dict[str, Effect] = {}
        if state.tidies and state.common.lifecycle is Lifecycle.STOPPED:
            tidy["tidy"] = Tidy(key="tidy")
        return {**state.open, **tidy}

    def slots(self, state: Steps) -> int:
        return len(state.open)

    def demand(self, state: Steps) -> int:
        if state.common.lifecycle is not Lifecycle.RUNNING:
            return 0
        return max(0, min(state.width - len(state.open), len(state.waiting)))

    def decide(self, state: Steps, given: Input) -> Sequence[Event]:
        run = state.common
        match given:
            case Create():
                if given.steps < 0:
                    raise BadInput("has to be 0 or more", field="steps")
                return (
                    RunCreated(kind=self.name, name="steps", owner="local", root_run_id=run.run_id),
                    StepsGiven(steps=given.steps, width=given.width, tidies=given.tidies),
                    RunStarted(),
                )
            case Settle():
                return self._settle(state)
            case Grant():
                return [StepStarted(number=number) for number in state.waiting[: given.slots]]
            case Outcome():
                return self._outcome(state, given)
            case Progress():
                return given.events
            case Recover():
                return (RunRecovered(epoch=given.epoch, adopted=tuple(state.open)),)
            case Stop():
                return control.stop(run, given.source, state.open)
            case Cancel():
                return control.cancel(run, given.source, given.reason, state.open)
            case Pause():
                return control.pause(run)
            case Resume():
                return control.resume(run)
        raise Refused(f"steps do not understand {type(given).__name__.lower()}")

    def _settle(self, state: Steps) -> Sequence[Event]:
        run = state.common
        if run.terminal:
            return ()
        if ends := control.settle(run, draining=bool(state.open), working=bool(state.open)):
            return ends
        if run.lifecycle not in (Lifecycle.RUNNING, Lifecycle.PAUSING) or state.open:
            return ()
        if state.failed:
            return (RunFailed(error=f"steps {state.failed} failed"),)
        return () if state.waiting else (RunFinished(),)

    @staticmethod
    def _outcome(state: Steps, given: Outcome) -> Sequence[Event]:
        if given.key == "tidy":
            return (Tidied(),) if state.tidies else ()
        effect = state.open.get(given.key)
        if not isinstance(effect, Step):
            return ()
        match given.result:
            case Failed():
                status = "failed"
            case NotStarted():
                status = "not started"
            case Ended():
                status = "ended"
            case _:
                status = "done"
        return (StepEnded(number=effect.number, status=status),)

    def evolve(self, state: Steps, recorded: Recorded) -> Steps:
        state.common.evolve(recorded)
        match recorded.event:
            case StepsGiven(steps=steps, width=width, tidies=tidies):
                state.waiting, state.width, state.tidies = list(range(1, steps + 1)), width, tidies
            case StepStarted(number=number):
                state.waiting.remove(number)
                tries = state.tries[number] = state.tries.get(number, 0) + 1
                state.open[f"{number}.{tries}"] = Step(key=f"{number}.{tries}", number=number)
            case StepEnded(number=number, status=status):
                del state.open[f"{number}.{state.tries[number]}"]
                if status == "failed":
                    state.failed.append(number)
                elif status != "done":
                    state.waiting.insert(0, number)
            case Tidied():
                state.tidies = False
        return state


class Done(msgspec.Struct, frozen=True):
    """A step's result."""


class Script:
    """A performer that a test conducts: every effect waits until the test lets it end."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        """Keys of effects that ended because they were not wanted any more."""
        self.let_go: list[str] = []
        """Keys of effects this process let go of."""
        self.at_once = at_once
        self.stubborn: frozenset[str] = frozenset()
        """Keys that do not end when they are not wanted."""
        self.on_begin: Callable[[Effect, Within], None] = lambda effect, within: None
        self._ends: dict[str, asyncio.Future[msgspec.Struct]] = {}

    def end(self, key: str, result: msgspec.Struct | Exception | None = None) -> None:
        """Let an effect end with ``result`` (or raise it)."""
        future = self._ends.pop(key)
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result or Done())

    async def __call__(self, effect: Effect, within: Within) -> msgspec.Struct:
        self.begun.append(effect.key)
        self.on_begin(effect, within)
        if self.at_once:
            return Done()
        future: asyncio.Future[msgspec.Struct] = asyncio.get_running_loop().create_future()
        self._ends[effect.key] = future
        unwanted = asyncio.ensure_future(within.unwanted.wait())
        try:
            if effect.key in self.stubborn:
                return await future
            await asyncio.wait((future, unwanted), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.let_go.append(effect.key)
            raise
        finally:
            unwanted.cancel()
        if future.done():
            return future.result()
        self.ended.append(effect.key)
        return Ended()
