"""The server's slots: how many parts of runs may work at once, over all runs.

Knows only run ids and numbers. A run says what it holds and how many more it could use; what is free is handed out
one slot at a time in turn, so that a plan of five hundred nodes does not starve one of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Account:
    held: int
    demand: int
    promised: int
    """Kept free for it until it asks again."""
    nudge: Callable[[], None]


class Capacity:
    """``limit`` slots; each run asks again after every change of its own."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("capacity needs at least one slot")
        self.limit = limit
        self._accounts: dict[str, _Account] = {}

    @property
    def free(self) -> int:
        return self.limit - sum(account.held + account.promised for account in self._accounts.values())

    def ask(self, run_id: str, held: int, demand: int, nudge: Callable[[], None]) -> int:
        """The run holds ``held`` and could use ``demand`` more: answers how many it may take now.

        What the run is given counts as held from here on; ``nudge`` is how it is told later that others
        freed slots, which are kept for it until it asks again. Others who wait are told at once of what became free.
        """
        account = self._accounts.get(run_id)
        if account is None:
            account = self._accounts[run_id] = _Account(held, demand, 0, nudge)
        account.held, account.demand, account.promised = held, demand, 0
        mine = self._share(run_id)
        account.held += mine
        account.demand -= mine
        return mine

    def release(self, run_id: str) -> None:
        """The run is gone from here."""
        if self._accounts.pop(run_id, None) is not None:
            self._share(None)

    def _share(self, asking: str | None) -> int:
        """Hand out what is free, one at a time in turn; answers what the asking run gets."""
        given: dict[str, int] = {}
        free = self.free
        while free > 0:
            wanting = [
                run_id
                for run_id, account in self._accounts.items()
                if account.demand - account.promised - given.get(run_id, 0) > 0
            ]
            if not wanting:
                break
            for run_id in wanting[:free]:
                given[run_id] = given.get(run_id, 0) + 1
            free -= len(wanting[:free])
        for run_id, slots in given.items():
            if run_id != asking:
                self._accounts[run_id].promised += slots
                self._accounts[run_id].nudge()
        return given.get(asking, 0) if asking is not None else 0
