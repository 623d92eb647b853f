"""How often something may happen: a token bucket, as a value.

It holds so many tokens, each use takes one, and they come back at an even rate. Times are milliseconds of any clock;
one that goes back gives nothing, and takes nothing away.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Rate(NamedTuple):
    """``per_second`` on average, ``burst`` at once."""

    per_second: float
    burst: float


class Bucket(NamedTuple):
    """What is left, as it was at a time."""

    tokens: float
    at_ms: int


def per_minute(count: int) -> Rate:
    """``count`` a minute, ten seconds' worth of them at once."""
    return Rate(count / 60, max(1.0, count / 6))


def take(bucket: Bucket | None, rate: Rate, now_ms: int) -> tuple[Bucket, int]:
    """Use one token. Answers the bucket after it, and 0, or, when there is none, the whole seconds until there is.

    No bucket is a full one."""
    if bucket is None:
        bucket = Bucket(rate.burst, now_ms)
    passed = max(0, now_ms - bucket.at_ms)
    tokens = min(rate.burst, bucket.tokens + passed * rate.per_second / 1000)
    if tokens >= 1:
        return Bucket(tokens - 1, now_ms), 0
    # Counted from the same moment again next time: adding up fractions at every try would lose some.
    since = min(now_ms, bucket.at_ms)
    return Bucket(bucket.tokens, since), max(1, math.ceil((1 - tokens) / rate.per_second))
