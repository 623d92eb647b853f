"""Which signals a server has."""

from __future__ import annotations

from pilothouse.adapters.signals.memory import MemorySignals
from pilothouse.adapters.signals.over_redis import RedisSignals


def open_signals(redis_url: str | None) -> MemorySignals | RedisSignals:
    """Through Redis where there is one, else within this process. Nothing is connected yet. Raises ``Unavailable``,
    ``BadInput``."""
    return RedisSignals(redis_url) if redis_url else MemorySignals()
