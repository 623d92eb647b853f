"""Moving a target branch: one merge at a time per branch here, compare-and-swap against everybody else.

Owns the queue per branch, the retry when a branch has moved, and the refusal to move what is checked out.
How a merge is computed is in ``objects``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from pilothouse.adapters.git import layout, objects, refs
from pilothouse.adapters.git.layout import CommonDir
from pilothouse.adapters.git.objects import Identity, Tip
from pilothouse.adapters.git.process import undisturbed
from pilothouse.adapters.git.run import SLOW_SECONDS, Runner
from pilothouse.adapters.git.worktrees import where_checked_out
from pilothouse.core.plan.integration import CheckedOut, Conflict, Merged, Strategy
from pilothouse.errors import BadInput, GitFailed

_TRIES = 20
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5


class _Left(NamedTuple):
    tip: Tip
    holds: str
    """A commit that is known to be in it."""


class MergeQueue:
    """Merges into branches. One per process: the locks serialise, compare-and-swap only has to catch the rest."""

    def __init__(self, git: Runner, identity: Identity) -> None:
        self._git = git
        self._identity = identity
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._left: dict[tuple[str, str], _Left] = {}
        """How the last merge here left each branch. A guess that saves a look: a wrong one fails to swap."""

    async def merge_into(
        self,
        repo: str,
        common: CommonDir,
        branch: str,
        source: str,
        *,
        message: str,
        strategy: Strategy,
        already_merged: Sequence[str],
        pin: str,
    ) -> Merged | Conflict | CheckedOut:
        refs.check_ref(pin)
        lock = self._locks.setdefault((common.path, branch), asyncio.Lock())
        async with lock:
            pause = _FIRST_PAUSE_SECONDS
            failure: GitFailed | None = None
            for _ in range(_TRIES):
                guess = self._left.pop((common.path, branch), None)
                tip = guess.tip if guess else await self._look(repo, branch, pin)
                if isinstance(tip, Merged):
                    return tip
                busy = await where_checked_out(self._git, repo, common, branch)
                if busy:
                    return CheckedOut(path=busy)
                # Mostly the leaves have one commit in common, and the target holds it: that needs no help to be found.
                common_base = _only_parent(common.path, source, *already_merged) if already_merged else ""
                held = bool(common_base) and (
                    (guess is not None and guess.holds == common_base)
                    or await refs.is_ancestor(self._git, repo, common_base, tip.commit)
                )
                result = await objects.merge_onto(
                    self._git, self._identity, repo, tip, source,
                    message=message, strategy=strategy, already_merged=() if held else already_merged,
                )  # fmt: skip
                if isinstance(result, Conflict):
                    if guess is None:
                        return result
                    continue  # perhaps only with what is no longer there
                failure = await self._swap(repo, branch, tip, result, pin, message)
                if failure is None:
                    self._left[common.path, branch] = _Left(result, common_base if held else "")
                    return Merged(commit=result.commit, moved=result != tip)
                if guess is None:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            assert failure is not None
            raise failure

    async def _look(self, repo: str, branch: str, pin: str) -> Tip | Merged:
        """Where the branch stands, or the merge that the pin says has been made. Raises ``BadInput``."""
        seen = await refs.look(self._git, repo, branch, pin)
        if seen.pinned is not None:
            return Merged(commit=seen.pinned)
        if seen.head is None:
            raise BadInput(f"there is no branch {branch!r} to merge into", fix="create it first")
        return Tip(seen.head, seen.tree)

    async def _swap(self, repo: str, branch: str, old: Tip, new: Tip, pin: str, message: str) -> GitFailed | None:
        """Move branch and pin in one transaction; answers the failure when trying again may help.

        The branch comes first: git renames one lock file after the other, and if it is killed between the two, a
        moved branch without its pin is found again as nothing left to merge, while a pin alone would lose the merge.
        """
        name = f"refs/heads/{branch}"
        move = f"verify {name} {old.commit}" if new == old else f"update {name} {new.commit} {old.commit}"
        title = message.partition("\n")[0]
        try:
            await self._git.run(
                "update-ref", "-m", f"pilothouse: {title}", "--stdin",
                cwd=repo, stdin=f"{move}\ncreate {pin} {new.commit}\n",
            )  # fmt: skip
        except GitFailed as failed:
            # Moved, pinned or locked meanwhile; a name that can never exist beside another is none of these.
            if "cannot lock ref" in failed.stderr and "cannot create" not in failed.stderr:
                return failed
            raise
        return None


def _only_parent(common_dir: str, *commits: str) -> str:
    """The one parent that all of them have, and no other; empty when that is not so, or not known without git."""
    found = {layout.parents(common_dir, commit) for commit in commits}
    if len(found) != 1 or not (parents := found.pop()) or len(parents) != 1:
        return ""
    return parents[0]


async def fast_forward_checkout(git: Runner, path: str, branch: str, commit: str) -> bool:
    """Only tracked changes make a checkout dirty; git itself refuses to overwrite an untracked file."""
    head = await git.run("symbolic-ref", "--quiet", "HEAD", cwd=path, writes=False, ok=(0, 1))
    if head.text != f"refs/heads/{branch}":
        return False
    status = await git.run(
        "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=none",
        cwd=path, writes=False, timeout=SLOW_SECONDS,
    )  # fmt: skip
    present = await refs.branch_head(git, path, branch)
    if status.stdout or present is None or not await refs.is_ancestor(git, path, present, commit):
        return False
    if present == commit:
        return True
    # Ended in the middle it would leave half of the files of one commit, half of another.
    moved = await undisturbed(git.run(
        "merge", "--ff-only", "--no-autostash", "--no-verify-signatures", "--quiet", commit,
        cwd=path, ok=(0, 1, 128), timeout=SLOW_SECONDS,
    ))  # fmt: skip
    if moved.status != 0 and "would be overwritten" not in moved.stderr and "have not concluded" not in moved.stderr:
        raise GitFailed(["merge", "--ff-only", os.fspath(commit)], moved.status, moved.stderr)
    return moved.status == 0
