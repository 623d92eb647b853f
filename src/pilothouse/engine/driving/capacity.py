"""The server's slots: how many parts of runs may work at once, over all runs.

Knows only run ids and numbers. A run says what it holds and how many more it could use; each slot that is free goes to
whoever holds fewest, and among those to whoever was served longest ago, so that a plan of five hundred nodes does not
starve one of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Account:
    nudge: Callable[[], None]
    held: int = 0
    demand: int = 0
    """Beyond what it holds and was promised."""
    promised: int = 0
    """Kept free for it until it asks again."""
    served: int = 0
    """When it last was given a slot; 0 for never."""


class Capacity:
    """``limit`` slots; each run asks again after every change of its own."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("capacity needs at least one slot")
        self.limit = limit
        self._accounts: dict[str, _Account] = {}
        self._turn = 0

    @property
    def free(self) -> int:
        return self.limit - sum(account.held + account.promised for account in self._accounts.values())

    def ask(self, run_id: str, held: int, demand: int, nudge: Callable[[], None]) -> int:
        """The run holds ``held`` and could use ``demand`` more: answers how many it may take now.

        What the run is given counts as held from here on; ``nudge`` is how it is told later that others
        freed slots, which are kept for it until it asks again. Others who wait are told at once of what became free.
        """
        account = self._accounts.setdefault(run_id, _Account(nudge))
        account.held, account.demand = held, demand
        # What it was promised it gets: to share that out anew would let two who wait nudge each other for ever.
        mine = min(account.promised, demand)
        account.promised = 0
        account.held += mine
        account.demand -= mine
        return mine + self._share(run_id)

    def release(self, run_id: str) -> None:
        """The run is gone from here."""
        if self._accounts.pop(run_id, None) is not None:
            self._share(None)

    def _share(self, asking: str | None) -> int:
        """Hand out what is free, slot by slot; answers what the asking run gets."""
        mine = 0
        told: dict[str, _Account] = {}
        for _ in range(self.free):
            wanting = [(run_id, account) for run_id, account in self._accounts.items() if account.demand > 0]
            if not wanting:
                break
            run_id, account = min(wanting, key=lambda item: (item[1].held + item[1].promised, item[1].served))
            self._turn += 1
            account.served = self._turn
            account.demand -= 1
            if run_id == asking:
                account.held += 1
                mine += 1
            else:
                account.promised += 1
                told[run_id] = account
        for account in told.values():
            account.nudge()
        return mine
