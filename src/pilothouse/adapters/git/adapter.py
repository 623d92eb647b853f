"""The ``Git`` port on the real git: composes the modules beside it and owns nothing but what they share.

What they share is the runner, the committer's identity, the queue per target branch, and which directory all
worktrees of a repository have in common. Docstrings of the methods are at the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from pilothouse.adapters.git import commits, history, merges, objects, refs, repository, rescue, sweep, worktrees
from pilothouse.adapters.git.layout import CommonDir
from pilothouse.adapters.git.run import Runner
from pilothouse.core.plan.integration import (
    CheckedOut,
    Committed,
    Conflict,
    Merged,
    NoEvidence,
    Repository,
    Rescued,
    Strategy,
    WorkSummary,
)


class GitAdapter:
    """Git >= 2.38 by its command line. ``environ`` is what git inherits, by default this process's own."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._git = Runner(environ)
        self._identity = objects.Identity(self._git)
        self._queue = merges.MergeQueue(self._git, self._identity)
        self._known: dict[str, CommonDir] = {}

    async def version(self) -> tuple[int, int, int]:
        return await repository.version(self._git)

    async def inspect(self, path: str) -> Repository:
        found, common = await repository.inspect(self._git, str(Path(path).absolute()) if path else path)
        self._known[path] = self._known[found.root] = common
        return found

    async def resolve(self, repo: str, revision: str) -> str:
        return await repository.resolve(self._git, repo, revision)

    async def check_branch_name(self, name: str, repo: str | None = None) -> None:
        await repository.check_branch_name(self._git, name)
        if repo is not None:
            await refs.check_room(self._git, repo, name)

    async def create_branch(self, repo: str, branch: str, commit: str) -> bool:
        return await refs.create_branch(self._git, repo, branch, commit)

    async def branch_head(self, repo: str, branch: str) -> str | None:
        return await refs.branch_head(self._git, repo, branch)

    async def merge_forward(self, repo: str, commits: Sequence[str], message: str) -> Merged | Conflict:
        return await objects.merge_forward(self._git, self._identity, repo, commits, message)

    async def add_worktree(self, repo: str, path: str, commit: str) -> None:
        await worktrees.add_worktree(self._git, repo, (await self._common(repo)).path, path, commit)

    async def worktree_head(self, path: str) -> str:
        return await worktrees.worktree_head(self._git, path)

    async def commit_all(
        self, path: str, *, baseline: str, message: str, expects_no_changes: bool, evidence_id: str
    ) -> Committed | NoEvidence:
        return await commits.commit_all(
            self._git,
            self._identity,
            path,
            baseline=baseline,
            message=message,
            expects_no_changes=expects_no_changes,
            evidence_id=evidence_id,
        )

    async def pin(self, repo: str, ref: str, commit: str) -> None:
        await refs.pin(self._git, repo, ref, commit)

    async def merge_into(
        self,
        repo: str,
        branch: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str] = (),
        pin: str,
    ) -> Merged | Conflict | CheckedOut:
        return await self._queue.merge_into(
            repo,
            await self._common(repo),
            branch,
            source,
            message=message,
            strategy=strategy,
            already_merged=already_merged,
            pin=pin,
        )

    async def fast_forward_checkout(self, path: str, branch: str, commit: str) -> bool:
        return await merges.fast_forward_checkout(self._git, path, branch, commit)

    async def merge_commits(
        self,
        repo: str,
        target: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str] = (),
    ) -> Merged | Conflict:
        tip = await objects.tip(self._git, repo, target)
        result = await objects.merge_onto(
            self._git,
            self._identity,
            repo,
            tip,
            source,
            message=message,
            strategy=strategy,
            already_merged=already_merged,
        )
        return result if isinstance(result, Conflict) else Merged(commit=result.commit, moved=result != tip)

    async def rescue(self, repo: str, path: str, ref: str, message: str, *, kept: str = "") -> Rescued | None:
        common = await self._common(repo)
        return await rescue.rescue(self._git, self._identity, repo, common.path, path, ref, message, kept)

    async def remove_worktree(self, repo: str, path: str) -> None:
        await worktrees.remove_worktree(self._git, repo, (await self._common(repo)).path, path)

    async def sweep(self, repo: str, root: str, tracked: frozenset[str]) -> Mapping[str, str]:
        return await asyncio.to_thread(sweep.sweep, (await self._common(repo)).path, root, tracked)

    async def summary(self, repo: str, base: str, commit: str) -> WorkSummary:
        return await history.summary(self._git, repo, base, commit)

    async def diff(self, repo: str, base: str, commit: str, limit: int = 1 << 20) -> str:
        return await history.diff(self._git, repo, base, commit, limit)

    async def delete_refs(self, repo: str, prefix: str) -> None:
        await refs.delete_refs(self._git, repo, prefix)

    async def _common(self, repo: str) -> CommonDir:
        if repo not in self._known:
            self._known[repo] = await repository.common_dir(self._git, repo)
        return self._known[repo]
