"""Cleaning up behind crashes, in the background: orphaned worktrees, and ends of commands nobody will ask for.

Never blocks a start, goes on after every failure, and touches nothing a live run may still need.
"""

from __future__ import annotations

import logging

from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.recover import command_key
from pilothouse.core.plan.state import PlanState
from pilothouse.engine.ports import Clock, EventStore, Executor, Git
from pilothouse.engine.repos import Repos
from pilothouse.engine.supervisor import Supervisor
from pilothouse.errors import PilothouseError

log = logging.getLogger(__name__)

FIRST_AFTER_S = 2.0
EVERY_S = 300.0


class Janitor:
    """Runs until cancelled."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        store: EventStore,
        repos: Repos,
        git: Git,
        executor: Executor,
        clock: Clock,
        worktree_root: str,
    ) -> None:
        self._supervisor = supervisor
        self._store = store
        self._repos = repos
        self._git = git
        self._executor = executor
        self._clock = clock
        self._worktree_root = worktree_root

    async def run(self) -> None:
        await self._clock.sleep(FIRST_AFTER_S)
        while True:
            for chore in (self.sweep_worktrees, self.forget_commands):
                try:
                    await chore()
                except PilothouseError as error:
                    log.warning("janitor.failed", exc_info=error)
            await self._clock.sleep(EVERY_S)

    async def sweep_worktrees(self) -> dict[str, str]:
        """Remove worktree directories that neither git nor a plan knows; answers what became of each."""
        tracked: set[str] = set()
        repositories = {repo.path for repo in await self._repos.list()}
        for row in await self._store.rows(kind=PlanKind.name, limit=1_000_000):
            state: PlanState = await self._supervisor.read(row.id, lambda state, _: state)
            repositories.add(state.facts.repo_path)
            tracked.update(a.worktree_path for n in state.nodes.values() for a in n.attempts if a.worktree_exists)
        swept: dict[str, str] = {}
        for repo in sorted(repositories):
            try:
                swept.update(await self._git.sweep(repo, self._worktree_root, frozenset(tracked)))
            except PilothouseError as error:
                log.warning("janitor.sweep_failed", exc_info=error, extra={"repo": repo})
        if swept:
            log.info("janitor.swept", extra={"worktrees": swept})
        return swept

    async def forget_commands(self) -> list[str]:
        """Let the executor forget ended commands whose outcome is in the log; answers their keys."""
        ended = (await self._executor.inventory()).ended
        by_run: dict[str, list[str]] = {}
        for key in ended:
            by_run.setdefault(key.partition("/")[0], []).append(key)
        forgotten: list[str] = []
        for run_id, keys in by_run.items():
            awaited = await self._awaited(run_id)
            for key in keys:
                if key not in awaited:
                    await self._executor.forget(key)
                    forgotten.append(key)
        return forgotten

    async def _awaited(self, run_id: str) -> frozenset[str]:
        try:
            state: PlanState = await self._supervisor.read(run_id, lambda state, _: state)
        except PilothouseError:
            return frozenset()  # deleted, or never created
        commands = (effect for effect in state.open.values() if isinstance(effect, RunWork))
        return frozenset(command_key(run_id, effect.key) for effect in commands)
