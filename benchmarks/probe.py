"""When effects began and ended, on the monotonic clock: events carry wall clock milliseconds, which is too coarse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

import msgspec

from pilothouse.core.plan.effects import PhaseEffect
from pilothouse.core.run.contract import Effect
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.plans.effects import PlanEffects


class Span(NamedTuple):
    """One phase of one attempt: its effect, and when it was performed, in seconds."""

    effect: PhaseEffect
    began: float
    ended: float


@contextmanager
def watched_phases() -> Iterator[list[Span]]:
    """Every phase that is performed from here on, in the order of their ends."""
    spans: list[Span] = []
    perform = PlanEffects.__call__

    async def watched(self: PlanEffects, effect: Effect, within: Within) -> msgspec.Struct:
        began = time.perf_counter()
        result = await perform(self, effect, within)
        if isinstance(effect, PhaseEffect):
            spans.append(Span(effect, began, time.perf_counter()))
        return result

    with patch.object(PlanEffects, "__call__", watched):
        yield spans
