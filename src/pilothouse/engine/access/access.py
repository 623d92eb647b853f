"""Whose a run is, for those who must not learn of others': the policy, applied to what is in the log.

Every door asks here. Lists need no asking: they are filtered by owner where they are read.
"""

from __future__ import annotations

from collections import OrderedDict

from pilothouse.core.auth.policy import Action, require
from pilothouse.core.auth.principals import Principal
from pilothouse.engine.ports import EventStore
from pilothouse.errors import Gone, NotFound

_REMEMBERED = 10_000
"""Owners of runs kept in memory."""


class Access:
    """Who may do what. A run never changes its owner, so that whoever was seen once is known, also when the run is
    gone."""

    def __init__(self, store: EventStore, remembered: int = _REMEMBERED) -> None:
        self._store = store
        self._remembered = remembered
        self._owners: OrderedDict[str, str] = OrderedDict()

    async def require(self, principal: Principal, action: Action, run_id: str | None = None) -> None:
        """Raises ``NeedsScope`` when a principal may not do that at all, and ``NotFound`` for a run that it may not
        know of, as for one that never was."""
        require(principal, action)
        if run_id is not None and not await self.sees(principal, run_id):
            raise NotFound(f"there is no run {run_id}")

    async def sees(self, principal: Principal, run_id: str) -> bool:
        """Whether a run, which may be deleted by now, exists for a principal."""
        if principal.only is None:
            return True
        owner = self._owners.get(run_id)
        if owner is None:
            try:
                owner = (await self._store.row(run_id)).owner
            except (NotFound, Gone):
                return False  # of one that is gone nobody can say any more whose it was
            self._owners[run_id] = owner
            if len(self._owners) > self._remembered:
                self._owners.popitem(last=False)
        return principal.sees(owner)
