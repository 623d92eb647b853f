"""What befalls a simulated run, and when: people's verbs, crashes, freezes, people in the repository."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from tests.simulation.life import Life
from tests.simulation.world import World

from pilothouse.core.run.inputs import Answer, Cancel, CancelPart, Input, Pause, Resume, Retry, Stop
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.waits import WaitKind
from pilothouse.errors import PilothouseError

HORIZON_S = 5.0
PATIENCE_S = 900.0
_POLL_S = 0.25
_RETRIES = 2
_RESTARTS = 5


class Schedule:
    """One simulated run from its submission to its end."""

    def __init__(
        self,
        world: World,
        random: Random,
        submissions: list[tuple[str, Callable[[], Input]]],
        slots: int,
        people: Random,
    ) -> None:
        """``people``: those who answer agents. What befalls plans without agents does not depend on them."""
        self.world = world
        self.random = random
        self.slots = slots
        self._people = people
        self._submissions = submissions
        self._retries: dict[str, int] = {}
        self._seen: list[Life] = []

    async def run(self) -> None:
        self._start()
        for at, act in self._moments():
            await self._until(at)
            act()
        self.world.faults.quiet = True
        self.world.leaves_checkouts()
        await self._to_the_end()
        await self._once_more()
        for life in self._seen:
            life.kill()
            await self._bury(life)

    # Disturbances.

    def _moments(self) -> list[tuple[float, Callable[[], None]]]:
        """Everything planned, in order of time."""
        random, people = self.random, self._people
        moments: list[tuple[float, Callable[[], None]]] = []
        for run_id, given in self._submissions:
            moments.append((random.random() * 0.5, partial(self._submit, run_id, given)))
        calm = random.random() < 0.1
        deeds = (
            (self._verb, 8),
            (self._owner_dies_now, 1),
            (self._owner_dies_in_a_call, 3),
            (self._owner_dies_after_an_effect, 2),
            (self._warden_dies, 1),
            (self._both_die, 1),
            (self._owner_freezes, 1),
            (self._person, 4),
        )
        names, weights = zip(*deeds, strict=True)
        for _ in range(0 if calm else random.choice((1, 2, 3, 5, 8, 12))):
            moments.append((0.1 + random.random() ** 2 * HORIZON_S, random.choices(names, weights)[0]))
        if not calm:
            moments.append((HORIZON_S * random.random(), self.world.leaves_checkouts))
        if self.world.has_agents:
            moments += [(people.random() * HORIZON_S, self._answers) for _ in range(people.choice((0, 5, 20)))]
        moments.sort(key=lambda moment: moment[0])
        return moments

    async def _until(self, at: float) -> None:
        if at > self.world.loop.now:
            await asyncio.sleep(at - self.world.loop.now)

    def _start(self) -> None:
        life = self.world.life = Life(self.world, self.slots)
        self._seen.append(life)
        self.world.tell(f"owner {life.number} starts")

    def _start_later(self) -> None:
        delay = self.random.choice((0.0, 0.05, 0.3, 0.3, 1.0, 6.0))
        asyncio.get_running_loop().call_later(delay, self._start_if_none)

    def _start_if_none(self) -> None:
        life = self.world.life
        if life is not None and life.over:
            life.kill()
            self.world.life = life = None
        if life is None:
            self._start()

    def _owner_dies_now(self) -> None:
        self.world.owner_dies()
        self._start_later()

    def _owner_dies_in_a_call(self) -> None:
        if self.world.life is not None:
            self.world.life.kill_after_calls = self.random.randint(0, 40)
            self._start_after_death()

    def _owner_dies_after_an_effect(self) -> None:
        self.world.die_after_next_effect()
        self._start_after_death()

    def _start_after_death(self) -> None:
        asyncio.get_running_loop().call_later(1.0 + self.random.random(), self._start_if_none)

    def _warden_dies(self) -> None:
        self.world.warden_dies(forgets=self.random.random() < 0.5)

    def _both_die(self) -> None:
        self.world.owner_dies(power=True)
        self._warden_dies()
        self._start_later()

    def _owner_freezes(self) -> None:
        zombie = self.world.life
        self.world.owner_freezes()
        self._start_later()
        if zombie is not None:
            asyncio.get_running_loop().call_later(self.random.random() * 4, self._thaw, zombie)

    def _thaw(self, zombie: Life) -> None:
        if not zombie.dead:
            self.world.tell(f"owner {zombie.number} thaws")
            zombie.thaw()
            asyncio.get_running_loop().call_later(2.0, zombie.kill)

    def _person(self) -> None:
        targets = sorted(
            {run.state.target.branch for run in self.world.watch.runs.values() if run.state.target is not None}
        )
        if targets:
            branch = self.random.choice(targets)
            self.random.choice((self.world.checks_out, self.world.commits_to, self.world.commits_to))(branch)

    # Verbs.

    def _submit(self, run_id: str, given: Callable[[], Input]) -> None:
        life = self.world.life
        if life is not None and life.up and run_id not in self.world.disk.runs:
            supervisor = life.supervisor
            assert supervisor is not None
            life.do(_quietly(lambda: supervisor.create("plan", run_id, given())))

    def _verb(self) -> None:
        run_id = self.random.choice(self._submissions)[0]
        run = self.world.watch.runs.get(run_id)
        if run is None:
            return
        nodes = list(run.state.nodes.values())
        waits = [wait for wait in run.state.common.waits.values() if wait.options]
        producer = self.random.choice(nodes).node.producer_id
        choices: list[tuple[Input, int]] = [
            (Stop(), 6),
            (Cancel(), 1),
            (Pause(), 3),
            (Resume(), 5),
            (Retry(), 3),
            (Retry(fresh=True), 1),
            (Retry(scopes=(producer,)), 2),
            (CancelPart(scope=producer), 2),
            (CancelPart(scope=self.random.choice(("g", "g/h", "k"))), 1),
        ]
        for wait in waits:
            choices.append((Answer(wait_id=wait.id, answer=self.random.choice(wait.options), by="somebody"), 5))
        inputs, weights = zip(*choices, strict=True)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self._tell(run_id, self.random.choices(inputs, weights)[0])

    def _answers(self) -> None:
        """Somebody answers an agent; now and then somebody else does too."""
        people = self._people
        for run_id, run in self.world.watch.runs.items():
            asked = [wait for wait in run.state.common.waits.values() if wait.kind is WaitKind.APPROVAL]
            if asked and people.random() < 0.7:
                wait = people.choice(asked)
                for _ in range(people.choice((1, 1, 1, 2))):
                    self._tell(run_id, Answer(wait_id=wait.id, answer=people.choice(wait.options), by="somebody"))

    def _tell(self, run_id: str, given: Input) -> None:
        life = self.world.life
        if life is None or not life.up:
            return
        supervisor = life.supervisor
        assert supervisor is not None
        self.world.tell(f"{type(given).__name__} {run_id}")
        life.do(_quietly(lambda: supervisor.tell(run_id, given)))

    # To the end.

    async def _to_the_end(self) -> None:
        """Answer, resume and retry until nothing is left to do."""
        while not self._over():
            if self.world.loop.now > PATIENCE_S:
                left = {run_id: str(run.state.common.lifecycle) for run_id, run in self.world.watch.runs.items()}
                self.world.watch.broken(f"it does not come to an end: {left}")
                return
            self._start_if_none()
            for run_id, given in self._submissions:
                row = self.world.disk.runs.get(run_id)
                if row is None:
                    self._submit(run_id, given)
                elif (step := self._next(row.row)) is not None:
                    self._tell(run_id, step)
                    if isinstance(step, Retry):
                        self._retries[run_id] = self._retries.get(run_id, 0) + 1
            await asyncio.sleep(_POLL_S)

    def _over(self) -> bool:
        life = self.world.life
        return (
            life is not None
            and life.up
            and life.supervisor is not None
            and not life.supervisor.live
            and all(
                run_id in self.world.disk.runs and self._next(self.world.disk.runs[run_id].row) is None
                for run_id, _ in self._submissions
            )
        )

    def _next(self, row: RunRow) -> Input | None:
        """What a person would do now; None when there is nothing to be done, or to wait for."""
        if row.lifecycle in (Lifecycle.PAUSED, Lifecycle.CREATED):
            return Resume()
        if row.lifecycle is Lifecycle.STOPPED:
            return Resume() if len(row.id) + row.seq & 7 else Cancel(reason="discarded")
        if row.lifecycle in (Lifecycle.FAILED, Lifecycle.PARTIAL):
            if not row.counts.get("failed"):  # no target, so nothing was tried at all; or nothing but canceled nodes
                return Retry() if row.lifecycle is Lifecycle.FAILED else None
            return Retry() if self._retries.get(row.id, 0) < _RETRIES else None
        if asked := [wait for wait in row.waits if wait.options]:
            wait = asked[0]
            return Answer(wait_id=wait.id, answer=wait.options[row.seq % len(wait.options)], by="somebody")
        if row.lifecycle in (Lifecycle.SUCCEEDED, Lifecycle.CANCELED):
            return None
        life = self.world.life
        driven = life is not None and life.supervisor is not None and row.id in life.supervisor.live
        return None if driven else Resume()  # nothing, to one that runs; one that was halted is brought up by it

    async def _once_more(self) -> None:
        """A restart after the end changes nothing, but for what a run that was halted at its very end still owes."""
        world = self.world
        for zombie in world.zombies:
            zombie.kill()
        for _ in range(_RESTARTS):  # an owner may be killed before it comes to it
            if any(run.row.detail.get("owed", 0) for run in world.disk.runs.values()):
                await self._restart()
        before = (world.disk.position, dict(world.repo.refs), sorted(world.repo.worktrees))
        await self._restart()
        after = (world.disk.position, dict(world.repo.refs), sorted(world.repo.worktrees))
        world.watch.check(before == after, "a restart after the end changed something")

    async def _restart(self) -> None:
        if self.world.life is not None:
            await self.world.life.close()
        self._start()
        await asyncio.sleep(1.0)

    async def _bury(self, life: Life) -> None:
        error = await life.buried()
        if error is not None and not _expected(error):
            self.world.watch.broken(f"owner {life.number} ended with {error!r}")


def _expected(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_expected(inner) for inner in error.exceptions)
    return isinstance(error, PilothouseError | asyncio.CancelledError)


async def _quietly(ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """People take no for an answer."""
    with suppress(PilothouseError):
        await ask()
