"""Slots: never more than there are, and nobody starves."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest

from pilothouse.engine.driving.capacity import Capacity


class Runs:
    """Runs that ask as actors do; ``todo`` is what each has left."""

    def __init__(self, limit: int, todo: dict[str, int]) -> None:
        self.capacity = Capacity(limit)
        self.todo = dict(todo)
        self.held: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.nudged: list[str] = []

    def ask(self, run_id: str) -> None:
        while got := self.capacity.ask(
            run_id, self.held[run_id], self.todo[run_id], partial(self.nudged.append, run_id)
        ):
            assert got <= self.todo[run_id]
            self.held[run_id] += got
            self.todo[run_id] -= got
            assert self.held.total() <= self.capacity.limit

    def finish(self, run_id: str) -> None:
        self.held[run_id] -= 1
        self.done[run_id] += 1
        self.ask(run_id)
        self.answer_nudges()

    def answer_nudges(self) -> None:
        rounds = 0
        while self.nudged:
            self.ask(self.nudged.pop(0))
            rounds += 1
            assert rounds < 1000, "they nudge each other for ever"


def test_there_is_at_least_one_slot() -> None:
    with pytest.raises(ValueError):
        Capacity(0)


def test_the_limit_is_never_passed_and_all_work_gets_done() -> None:
    for seed in range(30):
        random = Random(seed)
        runs = Runs(random.randint(1, 5), {f"r{n}": random.randint(0, 9) for n in range(random.randint(1, 6))})
        work = sum(runs.todo.values())
        for run_id in runs.todo:
            runs.ask(run_id)
        while runs.held.total():
            runs.finish(random.choice([run_id for run_id, held in runs.held.items() if held]))
        assert runs.done.total() == work


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_large_run_does_not_starve_a_small_one(limit: int) -> None:
    runs = Runs(limit, {"large": 500, "small": 3})
    runs.ask("large")
    runs.ask("small")
    random = Random(limit)
    for _ in range(10 * limit):
        runs.finish(random.choice([run_id for run_id, held in runs.held.items() if held]))
    assert runs.done["small"] == 3


def test_equal_runs_share_equally() -> None:
    runs = Runs(1, {"a": 50, "b": 50, "c": 50})
    for run_id in runs.todo:
        runs.ask(run_id)
    for _ in range(30):
        runs.finish(next(run_id for run_id, held in runs.held.items() if held))
    assert max(runs.done.values()) - min(runs.done.values()) <= 1


def test_what_a_run_leaves_goes_to_who_waits() -> None:
    runs = Runs(2, {"a": 5, "b": 5})
    runs.ask("a")
    runs.ask("b")
    assert runs.held == {"a": 2}
    runs.capacity.release("a")
    assert runs.nudged == ["b"]
    runs.held["a"] = 0
    runs.answer_nudges()
    assert runs.held["b"] == 2


def test_what_was_promised_is_kept_until_it_is_fetched() -> None:
    runs = Runs(1, {"a": 1, "b": 1, "c": 1})
    for run_id in runs.todo:
        runs.ask(run_id)
    runs.held["a"] -= 1
    runs.ask("a")
    assert runs.nudged == ["b"]
    runs.ask("c")
    assert runs.held["c"] == 0
    runs.answer_nudges()
    assert runs.held["b"] == 1
