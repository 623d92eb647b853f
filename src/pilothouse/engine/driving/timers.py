"""Waiting for a moment of the wall clock."""

from __future__ import annotations

from pilothouse.core.run.contract import TimeUp
from pilothouse.engine.ports import Clock

_LONGEST_SLEEP_S = 60.0
"""The clock is looked at again at least this often: it may have been set."""


async def time_up(clock: Clock, until: int) -> TimeUp:
    """Once ``until`` has come, in milliseconds since the epoch."""
    while (left := until - clock.now_ms()) > 0:
        await clock.sleep(min(left / 1000, _LONGEST_SLEEP_S))
    return TimeUp()
