"""UUID version 7 (RFC 9562, section 5.7), made here because Python 3.11 to 3.13 have none.

48 bits of Unix time in milliseconds, then a 12-bit counter (method 1 of section 6.2), which keeps identifiers of one
process and millisecond in order, then 62 random bits.
"""

from __future__ import annotations

import secrets
import time
import uuid

_COUNTER_BITS = 12


class Uuid7Ids:
    """The engine's ``Ids`` port. Identifiers of one instance only rise."""

    def __init__(self) -> None:
        self._last = 0
        """Milliseconds and counter as one number."""

    def new(self) -> str:
        now = (time.time_ns() // 1_000_000) << _COUNTER_BITS
        # A clock that went backwards, or a full counter, borrows from the future: order matters more than time.
        self._last = max(self._last + 1, now)
        millis, counter = self._last >> _COUNTER_BITS, self._last & ((1 << _COUNTER_BITS) - 1)
        value = (millis & ((1 << 48) - 1)) << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | secrets.randbits(62)
        return str(uuid.UUID(int=value))
