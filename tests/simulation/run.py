"""One seed, run to its end."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from tests.simulation.faults import Faults
from tests.simulation.final import judge_end
from tests.simulation.loop import Deadlock, Exhausted, VirtualLoop
from tests.simulation.plans import random_plan, submission
from tests.simulation.schedule import Schedule
from tests.simulation.watch import recorded_in
from tests.simulation.world import World

from pilothouse.core.plan.kind import Submit
from pilothouse.core.plan.spec import PlanSpec
from pilothouse.core.run.inputs import Input
from pilothouse.errors import PilothouseError

STEPS = 400_000


@dataclass
class Result:
    """``broken`` is the first promise that was broken, None when all were kept."""

    seed: int
    broken: str | None
    world: World
    virtual_s: float

    @property
    def fingerprint(self) -> str:
        """The log, byte for byte."""
        digest = sha256()
        for segment in self.world.disk.log:
            digest.update(f"{segment.position} {segment.run_id} {segment.first_seq} {segment.at}\n".encode())
            digest.update(segment.body)
        return digest.hexdigest()

    def story(self) -> str:
        """What happened, and the log of every run."""
        lines = [f"seed {self.seed}: {self.broken or 'all promises kept'}", "", *self.world.told, ""]
        for run_id, run in self.world.disk.runs.items():
            lines.append(f"{run_id} ({run.row.lifecycle})")
            for recorded in recorded_in(run.segments):
                fields = {n: getattr(recorded.event, n) for n in recorded.event.__struct_fields__ if n != "plan"}
                said = " ".join(f"{name}={value}" for name, value in fields.items() if value not in ("", None, (), {}))
                at = (recorded.at - 1_700_000_000_000) / 1000
                lines.append(f"{at:9.3f}  {recorded.seq:4} {recorded.event.type_name()} {said}")
        return "\n".join(lines)


class _Listener(logging.Handler):
    """The engine says in the server's own log when it met a bug."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._world.tell(f"server log: {record.getMessage()}: {error!r}")
        if not isinstance(error, PilothouseError):
            self._world.watch.broken(f"{record.getMessage()}: {error!r}")


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
    listener = _Listener(world)
    logger = logging.getLogger("pilothouse")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        loop.run_until_complete(schedule.run())
        if world.watch.first is None:
            judge_end(world)
    except (Deadlock, Exhausted) as stuck:
        world.watch.broken(str(stuck))
    except Exception as error:
        world.watch.broken(f"the simulation itself failed: {error!r}")
        raise
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate
    for told in loop.errors:
        world.watch.broken(f"unhandled: {told.get('message')}: {told.get('exception')!r}")
    return Result(seed, world.watch.first, world, loop.now)
