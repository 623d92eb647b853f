"""Cleaning up behind crashes, in the background: orphaned worktrees, ends of commands nobody will ask for, and runs
that halted.

Never blocks a start, goes on after every failure, and touches nothing a live run may still need.
"""

from __future__ import annotations

import logging
from itertools import count

from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.chat.state import TurnState
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.recover import command_key
from pilothouse.core.plan.state import PlanState
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.own_tools.shell import of_shell_tool
from pilothouse.engine.ports import Clock, EventStore, Executor, Git
from pilothouse.errors import Gone, NotFound, PilothouseError

log = logging.getLogger(__name__)

FIRST_AFTER_S = 2.0
EVERY_S = 15.0
THOROUGH_EVERY = 20
"""In this many rounds one cleans up; the others look for runs that halted."""


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
        for round in count():
            thorough = round % THOROUGH_EVERY == 0
            chores = (self.sweep_worktrees, self.forget_commands) if thorough else (self._supervisor.recover,)
            for chore in chores:
                try:
                    await chore()
                except Exception as error:  # nobody else would hear of it, and the next round may go well
                    log.warning("janitor.failed", exc_info=error)
            await self._clock.sleep(EVERY_S)

    async def sweep_worktrees(self) -> dict[str, str]:
        """Remove worktree directories that neither git nor a plan knows; answers what became of each.

        Raises what keeps a plan from being read: then nobody knows what it needs, and nothing is removed."""
        tracked: set[str] = set()
        repositories = {repo.path for repo in await self._repos.list()}
        for row in await self._store.rows(kind=PlanKind.name, limit=1_000_000):
            repositories.add(row.detail["repoPath"])
            if row.lifecycle is not Lifecycle.SUCCEEDED:  # what those keep, git has registered
                tracked |= await self._worktrees(row.id)
        swept: dict[str, str] = {}
        for repo in sorted(repositories):
            try:
                swept.update(await self._git.sweep(repo, self._worktree_root, frozenset(tracked)))
            except PilothouseError as error:
                log.warning("janitor.sweep_failed", exc_info=error, extra={"repo": repo})
        if swept:
            log.info("janitor.swept", extra={"worktrees": swept})
        return swept

    async def _worktrees(self, run_id: str) -> frozenset[str]:
        try:
            return await self._supervisor.read(run_id, _standing_worktrees)
        except (NotFound, Gone):
            return frozenset()

    async def forget_commands(self) -> list[str]:
        """Let the executor forget ended commands whose outcome is in the log; answers their keys.

        Forgotten too early, a command would pass for one that was never started, and run twice. Those of shell tools
        are in no log: the tool forgets them when it has looked, and the next owner those of a life that is over."""
        ended = (await self._executor.inventory()).ended
        by_run: dict[str, list[str]] = {}
        for key in ended:
            if of_shell_tool(key):
                continue
            by_run.setdefault(key.partition("/")[0], []).append(key)
        forgotten: list[str] = []
        for run_id, keys in by_run.items():
            try:
                awaited = await self._awaited(run_id)
            except PilothouseError as error:
                log.warning("janitor.unreadable", exc_info=error, extra={"run_id": run_id})
                continue
            for key in keys:
                if key not in awaited:
                    await self._executor.forget(key)
                    forgotten.append(key)
        return forgotten

    async def _awaited(self, run_id: str) -> frozenset[str]:
        try:
            return await self._supervisor.read(run_id, _open_commands)
        except (NotFound, Gone):
            return frozenset()  # never created, or deleted; of any other run the ends may still be asked for


def _standing_worktrees(state: PlanState, _: RunRow) -> frozenset[str]:
    attempts = (attempt for node in state.nodes.values() for attempt in node.attempts)
    return frozenset(attempt.worktree_path for attempt in attempts if attempt.worktree_exists)


def _open_commands(state: PlanState | TurnState, row: RunRow) -> frozenset[str]:
    commands = (effect for effect in state.open.values() if isinstance(effect, RunWork | CallBackend))
    return frozenset(command_key(row.id, effect.key) for effect in commands)
