"""Everything that outlives the owner of simulated turns: the disk, what a backend was told, what tools did."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.faults import Faults
from tests.simulation.loop import VirtualLoop
from tests.simulation.turns.watch import TurnWatch
from tests.simulation.world import VirtualClock

from pilothouse.adapters.store.memory import MemoryWorld as Disk
from pilothouse.core.chat.calls import Features

if TYPE_CHECKING:
    from tests.simulation.turns.life import TurnLife


class TurnWorld:
    """``told`` is what happened, for people."""

    def __init__(self, seed: int, loop: VirtualLoop, faults: Faults, features: Features) -> None:
        self.seed = seed
        self.loop = loop
        self.faults = faults
        self.features = features
        self.random = Random(seed ^ 0x5EED)
        self.clock = VirtualClock(loop)
        self.disk = Disk()
        self.watch = TurnWatch(self)
        self.life: TurnLife | None = None
        self.lives = 0
        self.reported: set[tuple[str, str]] = set()
        """Calls whose end the backend was told, with their turns."""
        self.told: list[str] = []
        self._die_after_effect = False

    def tell(self, what: str) -> None:
        self.told.append(f"{self.loop.now:9.3f}  {what}")

    def owner_dies(self, *, power: bool | None = None) -> None:
        """kill -9 of the owner; when the power fails too, what was not synced is lost in part."""
        self._die_after_effect = False
        life, self.life = self.life, None
        if life is None:
            return
        life.kill()
        lost = 0
        if power or (power is None and self.random.random() < 0.5):
            lost = self.disk.crash(self.random)
        self.tell(f"owner {life.number} is killed, {lost} batches lost")
        self.watch.crashed(powerless=bool(lost))

    def die_after_next_effect(self) -> None:
        self._die_after_effect = True

    def dies_after_effect(self) -> bool:
        return self._die_after_effect
