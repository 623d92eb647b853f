"""What goes wrong and when: one seeded source of delays and failures at every call of a port.

Knows nothing of what is called but the name of its port. All randomness of a simulated run, beyond what its plan does,
comes from here, so that the same seed asks for the same numbers in the same order.
"""

from __future__ import annotations

import asyncio
from random import Random

from pilothouse.errors import ExecutorFailed, GitFailed, PilothouseError, StoreFailed

_YIELDS = 0.30
_SLEEPS = 0.12
_LONG = 0.01


class Faults:
    """``budget``: how many calls of each port may still fail, by port."""

    def __init__(self, random: Random, budget: dict[str, int]) -> None:
        self.random = random
        self.budget = budget
        self.delayed = 0.0
        """Seconds of delay handed out so far."""
        self.delayed_until = 0.0
        """When the last of them is over."""
        self.failed_at = dict.fromkeys(("store", "git", "executor", "agents", "logs"), 0)
        """Failures that were raised, by port."""
        self.quiet = False
        """No failures and no long delays from here on."""

    async def delay(self) -> None:
        roll = self.random.random()
        if roll >= _YIELDS:
            return
        if roll >= _SLEEPS:
            await asyncio.sleep(0)
            return
        seconds = self.random.random() * 0.02
        if roll < _LONG and not self.quiet:
            seconds *= 50
        self.delayed += seconds
        self.delayed_until = max(self.delayed_until, asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(seconds)

    def failure(self, port: str, operation: str) -> PilothouseError | None:
        """The failure of this call, if it is to fail."""
        left = self.budget.get(port, 0)
        if self.quiet or not left or self.random.random() >= 0.02:
            return None
        self.budget[port] = left - 1
        if port in ("store", "logs"):
            return StoreFailed(f"simulated: {operation}")
        if port == "git":
            return GitFailed(["simulated", operation], 128, "simulated")
        return ExecutorFailed(f"simulated: {operation}")
