"""Which signals a server has."""

from __future__ import annotations

from pilothouse.adapters.signals.memory import MemorySignals
from pilothouse.adapters.signals.over_redis import RedisSignals
from pilothouse.adapters.signals.signed import SignedSignals


def open_signals(redis_url: str | None, secret: bytes) -> MemorySignals | SignedSignals:
    """Through Redis where there is one, signed with ``secret``, else within this process. Nothing is connected yet.
    Raises ``Unavailable``, ``BadInput``."""
    return SignedSignals(RedisSignals(redis_url), secret) if redis_url else MemorySignals()
