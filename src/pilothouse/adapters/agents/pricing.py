"""What tokens cost by a price table. Pure: where the table comes from is ``prices``. Nothing is estimated.

Prices are US dollars per million tokens. ``Usage`` counts cached and cache-written tokens within the input, so they are
taken out of it where the table has a price of their own for them, and cost as much as other input where it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from pilothouse.core.run.usage import Usage

MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Of one model, or of all whose names fit a pattern."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None


PriceTable = Mapping[str, Price]
"""By model name, or by a pattern with ``*`` and ``?``; in the order of the file."""


def price_of(model: str, table: PriceTable) -> Price | None:
    """An exact name counts before patterns, a longer pattern before a shorter one."""
    if not model:
        return None
    if (exact := table.get(model)) is not None:
        return exact
    fitting = [pattern for pattern in table if fnmatchcase(model, pattern)]
    return table[max(fitting, key=len)] if fitting else None


def priced(model: str, usage: Usage, table: PriceTable) -> Usage:
    """``usage`` with its ``cost``, or with its tokens marked as unpriced. What a source says of cost is replaced."""
    price = price_of(model, table)
    if price is None:
        return msgspec.structs.replace(usage, cost=0.0, unpriced_tokens=usage.tokens)
    plain = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    total = (
        plain * price.input
        + usage.cached_tokens * (price.input if price.cached is None else price.cached)
        + usage.cache_write_tokens * (price.input if price.cache_write is None else price.cache_write)
        + usage.output_tokens * price.output
    )
    return msgspec.structs.replace(usage, cost=total / MILLION, unpriced_tokens=0)
