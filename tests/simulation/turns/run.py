"""One seed of turns, run to its end: what befalls them, and when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from tests.simulation.faults import Faults
from tests.simulation.loop import VirtualLoop
from tests.simulation.report import Report, watched
from tests.simulation.turns.life import TurnLife
from tests.simulation.turns.scripts import TOOLS, features
from tests.simulation.turns.world import TurnWorld

from pilothouse.core.chat.calls import OnApproval
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.chat.inputs import Confirm, Say, Steer
from pilothouse.core.run.events import RunCreated
from pilothouse.core.run.inputs import Answer, Cancel, Input, Resume, Retry, Stop
from pilothouse.core.run.lifecycle import TERMINAL, Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.errors import PilothouseError

STEPS = 400_000
HORIZON_S = 4.0
PATIENCE_S = 600.0
_POLL_S = 0.25
_RETRIES = 2


Result = Report[TurnWorld]


def _meant(record: logging.LogRecord, error: BaseException | None) -> bool:
    crashed = record.getMessage().startswith("tool.crashed")  # some of the tools do
    return record.levelno < logging.ERROR or crashed or isinstance(error, PilothouseError)


def simulate_turns(seed: int) -> Result:
    """Everything follows from ``seed``."""
    random = Random(seed)
    loop = VirtualLoop(STEPS)
    budget = {"store": random.choice((0, 1, 2))} if random.random() < 0.3 else {}
    world = TurnWorld(seed, loop, Faults(Random(seed ^ 0xFA17), budget), features(random))
    world.faults.failed_at |= {"backend": 0, "tools": 0}
    schedule = _Schedule(world, random)
    with watched(world, loop, _meant):
        loop.run_until_complete(schedule.run())
        if world.watch.first is None:
            world.watch.judge_end()
    return Result(seed, world.watch.first, world)


class _Schedule:
    def __init__(self, world: TurnWorld, random: Random) -> None:
        self.world = world
        self.random = random
        self._seen: list[TurnLife] = []
        self._retries: dict[str, int] = {}
        self._said = {name: self._say(name) for name in ("u1", "u2")[: random.choice((1, 1, 2))]}

    def _say(self, name: str) -> Say:
        random = self.random
        return Say(
            created=RunCreated(kind="turn", name=name, owner="ada", session_id=f"chat-{name}", root_run_id=name),
            received=TurnReceived(
                message_id=f"m-{name}",
                message="go",
                backend="simulated",
                features=self.world.features,
                tools=TOOLS,
                title=random.random() < 0.3,
                auto_execute=random.random() < 0.9,
                on_approval=random.choice((OnApproval.WAIT, OnApproval.WAIT, OnApproval.REFUSE)),
                approval_timeout_ms=random.choice((500, 5_000, 60_000)),
                timeout_ms=random.choice((800, 8_000, 60_000, 60_000)),
                headless=random.random() < 0.3,
            ),
        )

    async def run(self) -> None:
        self._start()
        for at, act in self._moments():
            if at > self.world.loop.now:
                await asyncio.sleep(at - self.world.loop.now)
            act()
        self.world.faults.quiet = True
        await self._to_the_end()
        await self._once_more()
        for life in self._seen:
            life.kill()
            error = await life.buried()
            if error is not None and not _expected(error):
                self.world.watch.broken(f"owner {life.number} ended with {error!r}")

    def _moments(self) -> list[tuple[float, Callable[[], None]]]:
        random = self.random
        acts = (self._verb, self._dies, self._dies_in_a_call, self._dies_after_an_effect)
        moments: list[tuple[float, Callable[[], None]]] = [(random.random() * 0.3, self._send)]
        for _ in range(random.choice((0, 1, 2, 4, 8, 12))):
            moments.append((0.05 + random.random() ** 2 * HORIZON_S, random.choices(acts, (8, 3, 4, 3))[0]))
        return sorted(moments, key=lambda moment: moment[0])

    # What happens to the owner.

    def _start(self) -> None:
        life = self.world.life = TurnLife(self.world)
        self._seen.append(life)
        self.world.tell(f"owner {life.number} starts")

    def _start_if_none(self) -> None:
        life = self.world.life
        if life is not None and life.over:
            life.kill()
            self.world.life = life = None
        if life is None:
            self._start()

    def _start_later(self, delay: float) -> None:
        asyncio.get_running_loop().call_later(delay, self._start_if_none)

    def _dies(self) -> None:
        self.world.owner_dies()
        self._start_later(self.random.choice((0.0, 0.05, 0.3, 2.0)))

    def _dies_in_a_call(self) -> None:
        if self.world.life is not None:
            self.world.life.kill_after_calls = self.random.randint(0, 25)
            self._start_later(1.0 + self.random.random())

    def _dies_after_an_effect(self) -> None:
        self.world.die_after_next_effect()
        self._start_later(1.0 + self.random.random())

    # What people do.

    def _send(self) -> None:
        life = self.world.life
        if life is None or not life.up:
            return
        supervisor = life.supervisor
        assert supervisor is not None
        for name, say in self._said.items():
            if name not in self.world.disk.runs and name not in supervisor.live:
                life.do(_quietly(partial(supervisor.create, "turn", name, say)))

    def _verb(self) -> None:
        random = self.random
        name = random.choice(list(self._said))
        run = self.world.watch.runs.get(name)
        if run is None:
            return
        choices: list[tuple[Input, int]] = [
            (Stop(), 4),
            (Cancel(), 1),
            (Resume(), 3),
            (Retry(), 3),
            (Steer(steering_id=f"s{random.randint(0, 2)}", content="left"), 3),
        ]
        for call in run.state.live.values():
            status = random.choice(("accepted", "rejected", "background"))
            choices.append((Confirm(tool_call_id=call.id, status=status, by="somebody"), 3))
        for wait in run.state.common.waits.values():
            if wait.options:
                choices.append((Answer(wait_id=wait.id, answer=random.choice(wait.options), by="somebody"), 5))
        inputs, weights = zip(*choices, strict=True)
        for _ in range(random.choice((1, 1, 2, 3))):
            self._tell(name, random.choices(inputs, weights)[0])

    def _tell(self, name: str, given: Input) -> None:
        life = self.world.life
        if life is None or not life.up:
            return
        supervisor = life.supervisor
        assert supervisor is not None
        self.world.tell(f"{given} {name}")
        life.do(_quietly(partial(supervisor.tell, name, given)))

    # To the end.

    async def _to_the_end(self) -> None:
        while not self._over():
            if self.world.loop.now > PATIENCE_S:
                left = {name: str(run.state.common.lifecycle) for name, run in self.world.watch.runs.items()}
                self.world.watch.broken(f"it does not come to an end: {left}")
                return
            self._start_if_none()
            self._send()
            for name in self._said:
                stored = self.world.disk.runs.get(name)
                if stored is not None and (step := self._next(stored.row)) is not None:
                    self._tell(name, step)
                    if isinstance(step, Retry):
                        self._retries[name] = self._retries.get(name, 0) + 1
            await asyncio.sleep(_POLL_S)

    def _over(self) -> bool:
        life = self.world.life
        if life is None or not life.up or life.supervisor is None or life.supervisor.live:
            return False
        stored = [self.world.disk.runs.get(name) for name in self._said]
        return all(one is not None and self._next(one.row) is None for one in stored)

    def _next(self, row: RunRow) -> Input | None:
        """What a person would do now; None when there is nothing to be done, or to wait for."""
        if row.lifecycle is Lifecycle.STOPPED:
            return Resume() if row.seq & 7 else Cancel(reason="discarded")
        if row.lifecycle is Lifecycle.FAILED:
            return Retry() if self._retries.get(row.id, 0) < _RETRIES else None
        if row.lifecycle in TERMINAL:
            return None
        if asked := [wait for wait in row.waits if wait.options]:
            return Answer(wait_id=asked[0].id, answer=asked[0].options[row.seq % len(asked[0].options)], by="somebody")
        life = self.world.life
        driven = life is not None and life.supervisor is not None and row.id in life.supervisor.live
        return None if driven else Resume()  # one that was halted is brought up by it

    async def _once_more(self) -> None:
        """A restart after the end does what is owed, and nothing else."""
        for _ in range(3):  # an owner may be killed before it comes to it
            await self._restart()
        before = self.world.disk.position
        await self._restart()
        self.world.watch.check(before == self.world.disk.position, "a restart after the end changed something")

    async def _restart(self) -> None:
        if self.world.life is not None:
            await self.world.life.close()
        self._start()
        await asyncio.sleep(20.0)


def _expected(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_expected(inner) for inner in error.exceptions)
    return isinstance(error, PilothouseError | asyncio.CancelledError)


async def _quietly(asking: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """People take no for an answer."""
    with suppress(PilothouseError):
        await asking()
