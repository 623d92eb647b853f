"""Everything that outlives the owner process: disk, repository, warden, and time.

Owns what can happen to it: a crash of the owner (with or without the machine's power), of the warden, a person at work
in the repository. Which of that happens when is the schedule's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.agents import SimulatedAgent
from tests.simulation.faults import Faults
from tests.simulation.loop import VirtualLoop
from tests.simulation.programs import program
from tests.simulation.watch import Watch

from pilothouse.adapters.agents.memory import AgentWorld
from pilothouse.adapters.agents.pricing import Price
from pilothouse.adapters.git.memory_world import MemoryWorld as GitWorld
from pilothouse.adapters.store.memory import MemoryWorld as Disk
from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.work.memory import MemoryProgram, MemoryWarden
from pilothouse.core.plan.effects import AnswerAgent
from pilothouse.core.run.commands import Command

if TYPE_CHECKING:
    from tests.simulation.life import Life

REPO = "/repo"
ORPHAN_GRACE_S = 4.0
_EPOCH_MS = 1_700_000_000_000


class VirtualClock:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return _EPOCH_MS + int(self._loop.now * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class World:
    """``told`` is what happened to it, for people."""

    def __init__(self, seed: int, loop: VirtualLoop, faults: Faults) -> None:
        self.seed = seed
        self.loop = loop
        self.faults = faults
        self.random = Random(seed ^ 0x5EED)
        self.clock = VirtualClock(loop)
        self.disk = Disk()
        self.git = GitWorld()
        files = {"readme.md": "base\n", **{f"shared{n}.txt": "base\n" for n in range(3)}}
        self.repo = self.git.add_repository(REPO, files)
        self.repo.worktrees[REPO].files["notes.txt"] = "not committed\n"
        self.logs = MemoryLogStore()
        self.agents = AgentWorld(prices={"m": Price(input=1.0, output=4.0)}, answered=self._answered)
        self.has_agents = False
        self.at_work: dict[str, SimulatedAgent] = {}
        """Agents that were started, by the key of their command."""
        self.warden = MemoryWarden(self.clock, self._started, self.logs, orphan_grace=ORPHAN_GRACE_S)
        self.watch = Watch(self)
        self.life: Life | None = None
        self.lives = 0
        self.zombies: list[Life] = []
        """Owners that were frozen and have been taken over from."""
        self.froze = False
        self._hurt = 0
        self.told: list[str] = []
        self._die_after_effect = False
        self._people: dict[str, str] = {}
        """Checkouts people made in the middle: path to branch."""

    def tell(self, what: str) -> None:
        self.told.append(f"{self.loop.now:9.3f}  {what}")

    def _started(self, command: Command, key: str) -> MemoryProgram:
        self.watch.command_starts(command, key)
        return program(self, command, key)

    def printed(self, output: str) -> Iterator[bytes]:
        """All that is kept of an output, which in these small worlds is all there was."""
        segments = self.logs._outputs.get(tuple(output.split("/")), {})
        return (bytes(segments[start]) for start in sorted(segments))

    def _answered(self, answer: AnswerAgent) -> None:
        agent = self.at_work[answer.output]  # an agent's output is called like its command
        self.warden.settle()
        program = agent.answered(answer) if answer.output in self.warden.running() else None
        if program is not None:
            self.warden.go_on(answer.output, program)

    # What happens to it.

    def owner_dies(self, *, power: bool | None = None) -> None:
        """kill -9 of the owner; when the power fails too, what was not synced is lost in part. ``None``: by chance."""
        self._die_after_effect = False
        life, self.life = self.life, None
        if life is None:
            return
        life.kill()
        self._hurt += 1
        lost = 0
        if power or (power is None and self.random.random() < 0.5):
            for zombie in self.zombies:
                zombie.kill()
            lost = self.disk.crash(self.random)
        self.tell(f"owner {life.number} is killed, {lost} batches lost")
        self.watch.crashed()

    def die_after_next_effect(self) -> None:
        self._die_after_effect = True

    def dies_after_effect(self) -> bool:
        return self._die_after_effect

    def owner_freezes(self) -> None:
        """It stands still; who comes next takes over from it."""
        if self.life is not None and not self.life.up:  # it holds nothing yet that could be taken over
            self.owner_dies(power=False)
            return
        life, self.life = self.life, None
        if life is not None:
            life.freeze()
            self.zombies.append(life)
            self.froze = True
            self._hurt += 1
            self.tell(f"owner {life.number} freezes")

    @property
    def troubles(self) -> int:
        """How often something has gone wrong so far."""
        return self._hurt + sum(self.faults.failed_at.values())

    def warden_dies(self, *, forgets: bool) -> None:
        self._hurt += 1
        self.warden.kill()
        if forgets:  # as after a reboot: nothing is left of what it knew
            for key in self.warden.inventory().ended:
                self.warden.forget(key)
        self.tell(f"warden is killed{', and forgets' if forgets else ''}")

    # People in the repository.

    def checks_out(self, branch: str) -> None:
        path = f"/home/user/checkout{len(self._people)}"
        if f"refs/heads/{branch}" in self.repo.refs and branch not in self._people.values():
            self.repo.checkout(path, self.repo.refs[f"refs/heads/{branch}"], branch)
            self._people[path] = branch
            self.tell(f"a person checks out {branch}")

    def leaves_checkouts(self) -> None:
        for path in self._people:
            del self.repo.worktrees[path]
            self.tell(f"a person leaves {path}")
        self._people.clear()

    def commits_to(self, branch: str) -> None:
        """Somebody else moves a branch forward."""
        ref = f"refs/heads/{branch}"
        if ref not in self.repo.refs or any(tree.branch == branch for tree in self.repo.worktrees.values()):
            return
        head = self.repo.refs[ref]
        name = self.random.choice(("person.txt", "person.txt", "shared0.txt"))
        files = dict(self.repo.commits[head].files) | {name: f"by a person at {self.loop.now}\n"}
        self.repo.refs[ref] = self.repo.commit(files, (head,), "by a person")
        self.tell(f"a person commits {name} to {branch}")
