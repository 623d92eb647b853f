"""Usage: sums, by model and in all; what of a budget is used up; what clients see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.run.usage import NOTHING, Budget, Tally, Usage, exceeded, usage_view

FIELDS = {field.name: field.type for field in msgspec.structs.fields(Usage)}
# Amounts that floats add without loss, so that sums can be compared.
AMOUNTS: dict[str, Any] = {
    name: st.integers(0, 10_000).map(lambda n: n / 8) if kind is float else st.integers(0, 10_000)
    for name, kind in FIELDS.items()
}
USAGES = st.builds(Usage, **AMOUNTS)
MODELS = st.sampled_from(["", "opus", "gpt"])


@given(USAGES, USAGES, USAGES)
def test_usage_adds_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c) == c + b + a
    assert a + NOTHING == a
    assert all(getattr(a + b, name) == getattr(a, name) + getattr(b, name) for name in FIELDS)


@given(st.lists(st.tuples(MODELS, USAGES)))
def test_a_tally_loses_nothing_and_keeps_models_apart(told: list[tuple[str, Usage]]) -> None:
    tally, halves = Tally(), (Tally(), Tally())
    for index, (model, usage) in enumerate(told):
        tally.add(model, usage)
        halves[index % 2].add(model, usage)
    assert tally.total == sum((usage for _, usage in told), NOTHING)
    assert set(tally.by_model) == {model for model, _ in told}
    halves[0].include(halves[1])
    assert halves[0].by_model == tally.by_model


@given(USAGES)
def test_usage_survives_being_stored(usage: Usage) -> None:
    assert msgspec.json.decode(msgspec.json.encode(usage), type=Usage) == usage


@given(USAGES, st.builds(Budget, tokens=st.none() | st.integers(1, 9), turns=st.none() | st.integers(1, 9)))
def test_a_budget_that_was_reached_stays_reached(usage: Usage, budget: Budget) -> None:
    if exceeded(budget, usage):
        assert exceeded(budget, usage + Usage(input_tokens=1, turns=1))


@pytest.mark.parametrize(
    ("budget", "used", "said"),
    [
        (Budget(), Usage(input_tokens=10**9), ""),
        (Budget(tokens=1000), Usage(input_tokens=600, output_tokens=399), ""),
        (Budget(tokens=1000), Usage(input_tokens=600, output_tokens=400), "1,000 of 1,000 tokens are used"),
        (Budget(tokens=10), Usage(cached_tokens=10, reasoning_tokens=10), ""),
        (Budget(turns=2), Usage(turns=2), "2 of 2 turns are used"),
        (Budget(time_ms=60_000), Usage(wall_ms=61_000, api_ms=5), "61 of 60 s are used"),
        (Budget(cost=1.5), Usage(cost=1.6), "1.6000 of 1.5000 USD are used"),
        (Budget(cost=1.5), Usage(cost=1.6, unpriced_tokens=5), "1.6000 of 1.5000 USD are used"),
        (Budget(cost=1.5), Usage(unpriced_tokens=5), "no price is known"),
    ],
)
def test_what_is_used_up_is_said_in_one_sentence(budget: Budget, used: Usage, said: str) -> None:
    told = exceeded(budget, used)
    assert told.startswith(said) and bool(told) == bool(said)


def test_clients_see_the_sums_and_every_model_and_nothing_where_nothing_was_used() -> None:
    assert usage_view(Tally()) == {}
    tally = Tally()
    tally.add("opus", Usage(input_tokens=5, output_tokens=2, cost=0.5))
    tally.add("gpt", Usage(input_tokens=1))
    tally.add("", Usage(wall_ms=70))
    view = usage_view(tally)
    assert (view["inputTokens"], view["totalTokens"], view["wallMs"], view["cost"]) == (6, 8, 70, 0.5)
    assert [(model["model"], model["totalTokens"]) for model in view["models"]] == [("gpt", 1), ("opus", 7)]  # type: ignore[attr-defined]  # plain JSON
    assert view["premiumRequests"] == 0, "what is zero is told too"
