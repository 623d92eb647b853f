"""One seed, run to its end."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation.faults import Faults
from tests.simulation.final import judge_end
from tests.simulation.loop import VirtualLoop
from tests.simulation.plans import random_plan, submission
from tests.simulation.report import Report, watched
from tests.simulation.schedule import Schedule
from tests.simulation.world import World

from pilothouse.core.plan.kind import Submit
from pilothouse.core.plan.spec import PlanSpec
from pilothouse.core.run.inputs import Input
from pilothouse.errors import PilothouseError

STEPS = 400_000


@dataclass
class Result(Report[World]):
    virtual_s: float


def _meant(_: logging.LogRecord, error: BaseException | None) -> bool:
    return isinstance(error, PilothouseError)


def _given(submit: Submit) -> Input:
    return submit


def simulate(seed: int, *, agents: bool | None = None) -> Result:
    """Everything follows from ``seed``; also whether there are ``agents``, unless that is said."""
    random = Random(seed)
    loop = VirtualLoop(STEPS)
    troubled = random.random() < 0.3
    budget = {port: random.choice((0, 1, 1, 2)) for port in ("store", "git", "executor")} if troubled else {}
    world = World(seed, loop, Faults(Random(seed ^ 0xFA17), budget))
    drawn = Random(seed ^ 0xA6E7)
    world.has_agents = drawn.random() < 0.6 if agents is None else agents
    if world.has_agents and troubled:
        world.faults.budget["logs"] = drawn.choice((0, 0, 1, 2))
    target = random.choice((None, "result", "result", "feature/x", "main"))
    world.watch.updates_checkout = random.random() < 0.3
    if random.random() < 0.3:
        head = world.repo.refs["refs/heads/main"]
        world.repo.refs["refs/heads/result"] = head
    numbers = itertools.count(1)

    def submit(name: str, spec: PlanSpec) -> Submit:
        base = world.repo.refs["refs/heads/main"]
        update = world.watch.updates_checkout
        return submission(spec, name, base, lambda: f"n{next(numbers)}", update_checkout=update)

    submissions: list[tuple[str, Callable[[], Input]]] = []
    for name in ("p1", "p2")[: random.choice((1, 1, 1, 2))]:
        given = submit(name, random_plan(random, name, target, drawn if world.has_agents else None))
        submissions.append((name, functools.partial(_given, given)))
    schedule = Schedule(world, random, submissions, slots=random.choice((1, 2, 3, 8)), people=drawn)
    with watched(world, loop, _meant):
        loop.run_until_complete(schedule.run())
        if world.watch.first is None:
            judge_end(world)
    return Result(seed, world.watch.first, world, loop.now)
