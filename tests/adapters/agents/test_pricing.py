"""What tokens cost by a table."""

from __future__ import annotations

import msgspec
import pytest

from pilothouse.adapters.agents.pricing import Price, price_of, priced
from pilothouse.core.run.usage import Usage

PLAIN = Price(input=2, output=10)
USAGE = Usage(
    input_tokens=1_000_000, cached_tokens=600_000, cache_write_tokens=300_000, output_tokens=200_000, reasoning_tokens=9
)


def test_every_kind_of_token_has_its_price_and_none_is_counted_twice() -> None:
    table = {"m": Price(input=2, output=10, cached=0.5, cache_write=3)}
    found = priced("m", USAGE, table)
    assert found.cost == pytest.approx(0.1 * 2 + 0.6 * 0.5 + 0.3 * 3 + 0.2 * 10)
    assert msgspec.structs.replace(found, cost=0.0) == USAGE


def test_cached_tokens_without_a_price_of_their_own_cost_what_others_do() -> None:
    assert priced("m", USAGE, {"m": PLAIN}).cost == pytest.approx(2 + 2)


def test_a_model_nobody_has_a_price_for_costs_nothing_and_says_so() -> None:
    found = priced("other", USAGE, {"m": PLAIN})
    assert (found.cost, found.unpriced_tokens) == (0, 1_200_000)
    assert priced("", USAGE, {"*": PLAIN}).unpriced_tokens == 1_200_000


def test_a_cost_that_the_source_has_made_up_is_not_taken_over() -> None:
    assert priced("other", Usage(output_tokens=1, cost=3.0), {}).cost == 0


def test_time_and_lines_need_no_price() -> None:
    assert priced("", Usage(wall_ms=5, lines_added=3), {}) == Usage(wall_ms=5, lines_added=3)


def test_prices_that_are_zero_are_prices() -> None:
    assert priced("m", USAGE, {"m": Price(input=0, output=0)}) == USAGE


def test_an_exact_name_counts_before_a_pattern_and_a_long_pattern_before_a_short_one() -> None:
    table = {"*": Price(input=1, output=1), "gpt-*": Price(input=2, output=2), "gpt-5": Price(input=3, output=3)}
    found = [price_of(model, table) for model in ("gpt-5", "gpt-5-mini", "claude")]
    assert [price.input for price in found if price] == [3, 2, 1]
    assert price_of("claude", {"gpt-*": PLAIN}) is None
