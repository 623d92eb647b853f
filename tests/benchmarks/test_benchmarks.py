"""Every benchmark runs, on as little as possible. What it measures is nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.catalogue import BENCHMARKS, figures
from benchmarks.figure import AtLeast, AtMost, Skipped, Within, in_turns, quantile, show
from tests.support.needs import need

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_it_runs_and_every_figure_has_a_floor(name: str) -> None:
    need("git")
    found = list(figures([name], "tiny"))
    assert found
    for figure in found:
        assert figure.text()
        assert json.loads(json.dumps(figure.data()))["name"] == figure.name
        if isinstance(figure, Skipped):
            assert figure.why
        else:
            assert len(figure.ours) > 0
            assert len(figure.floor) > 0


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "speed"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "'speed'" in done.stderr and "plan-fanout" in done.stderr


def test_targets_compare_medians_and_quantiles() -> None:
    assert AtMost(1.2).compare([1.0, 1.1, 9.0], [1.0]) == ("1.10 × the floor's time, target ≤ 1.2 ×", True)
    assert AtLeast(0.5).compare([3.0], [1.0]) == ("0.33 of the floor's speed, target ≥ 0.5", False)
    assert Within(0.99, 0.010).compare([0.001, 0.020], [0.001]) == (
        "p99 20.00 × the floor's, and 20 ms, target < 10 ms",
        False,
    )


def test_a_quantile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert quantile([7.0], 0.99) == 7.0


def test_seconds_are_shown_in_the_unit_that_suits() -> None:
    assert [show(seconds) for seconds in (2.5, 0.0215, 0.000021)] == ["2.5 s", "21.5 ms", "21 µs"]


def test_sides_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    assert in_turns(2, lambda: side("a"), lambda: side("b")) == [[3.0, 6.0], [4.0, 5.0]]
    assert order == ["b", "a", "a", "b", "b", "a"]
