"""Performing a plan's git effects: target, forward merge, worktree, commit, merge into the target, clean-up.

Every one of them may be performed again after a crash and finds out from refs and worktrees what has been done. Merges
into the target and commits are never cut off in the middle: they are short, and a ref that moved has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from pilothouse.core.plan.effects import (
    AddWorktree,
    CleanedUp,
    CommitWork,
    MergeForward,
    MergeIntoTarget,
    MergeRefused,
    OpenTarget,
    RemoveWorktree,
    Rescue,
    TargetReady,
    WorktreeReady,
)
from pilothouse.core.plan.integration import CheckedOut, Committed, Conflict, Merged, plain
from pilothouse.core.plan.intents import made_branch
from pilothouse.core.run.contract import Failed
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.ports import Executor, Git
from pilothouse.errors import BadInput, Refused

_NAMES_TRIED = 1000
_FILES_NAMED = 20
_MERGES_ASKED = 100
_COMMIT_PATIENCE_S = 0.2
"""A stop lets a commit come to its end, which takes a moment; one that waits for something is ended, and done again."""
_RESCUE_S = 300.0
"""Bound of saving what a worktree holds: a program or a pipe in it may keep git waiting, and others wait their turn."""
_CLEANED_AT_ONCE = 8
"""A plan that is canceled may owe thousands of clean-ups, each a few git processes."""


class PlanGit:
    """Performs the git effects of plans."""

    def __init__(self, git: Git, executor: Executor) -> None:
        self._git = git
        self._executor = executor
        self._cleaning = asyncio.Semaphore(_CLEANED_AT_ONCE)

    async def open_target(self, effect: OpenTarget) -> msgspec.Struct:
        """The asked-for branch, created at the base when it is missing; another one when it cannot be moved."""
        branch = effect.branch
        if branch is None:
            note = f"{effect.taken} was checked out in the middle of the plan" if effect.taken else ""
            return await self._new_branch(effect, effect.base, note)
        if await self._git.create_branch(effect.repo, branch, effect.base):
            return TargetReady(branch=branch, commit=effect.base)
        head = await self._git.branch_head(effect.repo, branch) or effect.base
        path = (await self._git.inspect(effect.repo)).checked_out.get(branch)
        if path is None:
            return TargetReady(branch=branch, commit=head)
        if effect.update_checkout and await self._git.fast_forward_checkout(path, branch, head):
            return TargetReady(branch=branch, commit=head)
        why = "it has uncommitted changes" if effect.update_checkout else "--update-checkout was not given"
        note = f"{branch} is checked out at {plain(path)} and was not moved ({why})"
        return await self._new_branch(effect, head, note)

    async def _new_branch(self, effect: OpenTarget, commit: str, note: str) -> TargetReady:
        for number in range(1, _NAMES_TRIED):
            branch = made_branch(effect.name, number)
            if branch != effect.taken and await self._git.create_branch(effect.repo, branch, commit):
                said = f"{note}; the result is on {branch}" if note else ""
                return TargetReady(branch=branch, commit=commit, note=said)
        raise Refused(f"there are already {_NAMES_TRIED} branches named {made_branch(effect.name)}-n; delete some")

    async def merge_forward(self, effect: MergeForward, within: Within) -> msgspec.Struct:
        merging = self._git.merge_forward(effect.repo, effect.commits, effect.message)
        result = await within.unless_unwanted(merging)
        if isinstance(result, Conflict):
            names = dict(zip(effect.commits, effect.names, strict=True))
            name = names.get(result.source, "a dependency")
            others = ", ".join(other for other in effect.names if other != name)
            return MergeRefused(
                error=f"{name} conflicts with {others} in {_listed(result.files)}; both commits are kept"
            )
        if isinstance(result, Merged) and effect.pin is not None:
            await self._git.pin(effect.repo, effect.pin, result.commit)
        return result

    async def add_worktree(self, effect: AddWorktree, within: Within) -> msgspec.Struct:
        place = await self._executor.open(effect.place_key, within.epoch)
        result = await within.unless_unwanted(self._git.add_worktree(effect.repo, effect.path, effect.commit))
        return WorktreeReady(place=place) if result is None else result

    async def commit(self, effect: CommitWork, within: Within) -> msgspec.Struct:
        committing = self._git.commit_all(
            effect.path,
            baseline=effect.baseline,
            message=effect.message,
            expects_no_changes=effect.expects_no_changes,
            evidence_id=effect.node_id,
        )
        result = await within.unless_unwanted(committing, _COMMIT_PATIENCE_S)
        if isinstance(result, Committed):
            await self._git.pin(effect.repo, effect.pin, result.commit)
        return result

    async def merge_into(self, effect: MergeIntoTarget) -> msgspec.Struct:
        merged = tuple(commit for _, commit in effect.merged)
        result = await self._git.merge_into(
            effect.repo,
            effect.branch,
            effect.source,
            message=effect.message,
            strategy=effect.strategy,
            already_merged=merged,
            pin=effect.pin,
        )
        if isinstance(result, CheckedOut) and effect.update_checkout:
            result = await self._merge_checkout(effect, result, merged)
        if isinstance(result, CheckedOut):
            return CheckedOut(path=plain(result.path))
        return await self._refused(effect, result) if isinstance(result, Conflict) else result

    async def _merge_checkout(
        self, effect: MergeIntoTarget, found: CheckedOut, merged: tuple[str, ...]
    ) -> Merged | Conflict | CheckedOut:
        """The user allowed it: move the target together with its clean checkout."""
        result = await self._git.merge_commits(
            effect.repo,
            effect.branch,
            effect.source,
            message=effect.message,
            strategy=effect.strategy,
            already_merged=merged,
        )
        if isinstance(result, Conflict):
            return result
        if not await self._git.fast_forward_checkout(found.path, effect.branch, result.commit):
            return found
        await self._git.pin(effect.repo, effect.pin, result.commit)
        return result

    async def _refused(self, effect: MergeIntoTarget, conflict: Conflict) -> MergeRefused:
        """Say which files, and which of the plan's nodes brought in the other side."""
        unexplained, others = set(conflict.files), list[str]()
        for name, commit in reversed(effect.merged[-_MERGES_ASKED:]):
            changes = (await self._git.summary(effect.repo, effect.base, commit)).changes
            if found := unexplained & {change.path for change in changes}:
                unexplained -= found
                others.append(name)
            if not unexplained:
                break
        against = f"what {' and '.join(others)} merged into" if others else "what others committed to"
        return MergeRefused(
            error=(
                f"Merging {effect.name} conflicts with {against} {effect.branch}, in {_listed(conflict.files)}. "
                f"Its commit {effect.source[:8]} is kept; merge by hand, or retry."
            )
        )

    async def rescue(self, effect: Rescue) -> msgspec.Struct:
        """Save, then remove if nobody needs it. What cannot be saved is not removed."""
        async with self._cleaning:
            try:
                async with asyncio.timeout(_RESCUE_S):
                    saved = await self._git.rescue(
                        effect.repo, effect.path, effect.ref, "Edits of an interrupted attempt"
                    )
            except BadInput:  # the worktree was never made, or somebody removed it
                saved = None
            except TimeoutError:
                return _not_saved()
            if effect.discard:
                await self._git.remove_worktree(effect.repo, effect.path)
        return CleanedUp(ref=saved.ref if saved else "", commit=saved.commit if saved else "", removed=effect.discard)

    async def remove_worktree(self, effect: RemoveWorktree) -> msgspec.Struct:
        async with self._cleaning:
            try:
                async with asyncio.timeout(_RESCUE_S):
                    await self._git.rescue(
                        effect.repo, effect.path, effect.ref, "Edits made after the commit", kept=effect.kept
                    )
            except BadInput:
                pass  # already gone
            except TimeoutError:
                return _not_saved()
            await self._git.remove_worktree(effect.repo, effect.path)
        return CleanedUp(removed=True)


def _not_saved() -> Failed:
    return Failed(error=f"saving its edits took longer than {_RESCUE_S:g} s; its worktree stays")


def _listed(files: Sequence[str]) -> str:
    """File names in a sentence: a few by name, the rest by number."""
    named = ", ".join(plain(name) for name in files[:_FILES_NAMED])
    return f"{named} and {len(files) - _FILES_NAMED} more" if len(files) > _FILES_NAMED else named
