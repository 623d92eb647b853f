"""A bucket never gives more than it may, and gives again when it said it would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.auth.rates import Bucket, Rate, per_minute, take

RATE = Rate(per_second=2, burst=5)


def test_a_burst_is_given_at_once_and_then_no_more() -> None:
    bucket, waits = None, []
    for _ in range(7):
        bucket, wait = take(bucket, RATE, 1000)
        waits.append(wait)
    assert waits == [0, 0, 0, 0, 0, 1, 1]


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=200), st.integers(1, 50), st.integers(1, 20))
def test_in_any_time_no_more_is_given_than_the_burst_and_what_came_back(
    pauses: list[int], per_second: int, burst: int
) -> None:
    rate, bucket, now, given_at = Rate(per_second, burst), None, 0, []
    for pause in pauses:
        now += pause
        bucket, wait = take(bucket, rate, now)
        if not wait:
            given_at.append(now)
    for first, begin in enumerate(given_at):
        for last in range(first, len(given_at)):
            assert last - first + 1 <= burst + (given_at[last] - begin) * per_second / 1000 + 1e-6


@given(st.floats(0, 0.999), st.floats(0.01, 1000))
def test_who_waits_as_long_as_told_is_served(tokens: float, per_second: float) -> None:
    rate = Rate(per_second, 10)
    bucket, wait = take(Bucket(tokens, 0), rate, 0)
    assert wait >= 1
    # What the seconds are rounded by is more than what adding up fractions of tokens loses.
    assert take(bucket, rate, wait * 1000 + 1)[1] == 0


def test_being_refused_costs_nothing() -> None:
    bucket: Bucket | None = Bucket(0.0, 0)
    for now in range(0, 500, 50):
        bucket, wait = take(bucket, RATE, now)
        assert wait
    assert take(bucket, RATE, 500)[1] == 0


def test_a_clock_that_goes_back_gives_nothing_and_locks_nobody_out() -> None:
    bucket, wait = take(Bucket(0.0, 3_600_000), RATE, 0)
    assert wait == 1
    assert take(bucket, RATE, 1000)[1] == 0


def test_a_rate_per_minute_allows_ten_seconds_worth_at_once() -> None:
    assert per_minute(1200) == Rate(20, 200)
    assert per_minute(1) == Rate(1 / 60, 1.0)
