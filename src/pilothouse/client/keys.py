"""Keys under which something that is asked twice is done once."""

from __future__ import annotations

import secrets
import time
from uuid import UUID


def fresh_key() -> str:
    """A UUIDv7: the id of what is made under it takes its time from it."""
    millis = time.time_ns() // 1_000_000 & ((1 << 48) - 1)
    return str(UUID(int=millis << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)))
