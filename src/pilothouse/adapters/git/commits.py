"""The commit phase: everything a node left in its worktree becomes one commit, judged against its baseline.

Owns what counts as work done, and what in a worktree is ours and never committed. Does not look for conflict
markers, and does not write messages.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from pilothouse.adapters.git import evidence, layout, refs, snapshot
from pilothouse.adapters.git.locks import await_locks
from pilothouse.adapters.git.objects import Identity
from pilothouse.adapters.git.owned import EVIDENCE, OURS
from pilothouse.adapters.git.run import SLOW_SECONDS, Runner
from pilothouse.adapters.git.worktrees import worktree_head
from pilothouse.core.plan.integration import Committed, NoEvidence
from pilothouse.errors import GitFailed

_log = logging.getLogger(__name__)


async def commit_all(
    git: Runner,
    identity: Identity,
    path: str,
    *,
    baseline: str,
    message: str,
    expects_no_changes: bool,
    evidence_id: str,
) -> Committed | NoEvidence:
    admin = layout.admin_dir(path)
    if admin is None:
        raise GitFailed(["commit"], 1, f"{path} is no longer a worktree of its repository: its .git file is gone")
    if trap := layout.disarm(admin):
        raise GitFailed(["commit"], 1, f"{path} is no longer a worktree of its repository: its {trap} was no file")
    if not layout.is_registered(path):
        # What ran here may have pointed it at the user's own checkout, which would be committed and moved instead.
        raise GitFailed(["commit"], 1, f"{path} is no longer a worktree of its repository: it leads to another one")
    await await_locks(path, admin)
    if layout.detached_head(admin) is None:
        # Somebody checked a branch out here. Branches move by compare-and-swap only, so leave it where it is.
        head = await worktree_head(git, path)
        await git.run("update-ref", "--no-deref", "HEAD", head, cwd=path, ceiling=True)
    # Named explicitly: a ``core.worktree`` that was set here would have the files of another directory committed.
    place = {"GIT_DIR": str(admin), "GIT_WORK_TREE": path}
    await _stage(git, path, place)
    if await _commit(git, identity, path, place, message):
        return Committed(commit=await worktree_head(git, path))
    head = await worktree_head(git, path)
    # Going back to an ancestor is no work: taking it for some would drop what the dependencies brought.
    if head != baseline and not await refs.is_ancestor(git, path, head, baseline):
        return Committed(commit=head)
    said = await asyncio.to_thread(read_evidence, path, evidence_id)
    if said is None and not expects_no_changes:
        return NoEvidence()
    return Committed(commit=baseline, changed=False, evidence=said or "")


def read_evidence(path: str, evidence_id: str) -> str | None:
    """The summary of the evidence file, None when there is no valid one. A link is not followed."""
    file = Path(path, EVIDENCE, f"{evidence_id}.json")
    try:
        if file.resolve() != Path(path).resolve() / EVIDENCE / f"{evidence_id}.json":
            return None
        if not file.is_file() or file.stat().st_size > evidence.MAX_BYTES:
            return None
        return evidence.summary(file.read_bytes(), evidence_id)
    except OSError:
        return None


async def _stage(git: Runner, path: str, place: dict[str, str]) -> None:
    staged = await snapshot.add_all(git, path, place, Path(place["GIT_DIR"], "index"))
    for line in staged.stderr.splitlines():
        if "adding embedded git repository" in line:
            _log.warning("git.embedded_repository path=%s %s: only its commit is recorded", path, line)
    if any(Path(path, folder).exists() for folder in OURS):
        # Not an exclude pathspec for ``add``: that fails when the folder is ignored already.
        await git.run("reset", "--quiet", "--", *OURS, cwd=path, env=place)


async def _commit(git: Runner, identity: Identity, path: str, place: dict[str, str], message: str) -> bool:
    """False when there was nothing to commit. Committing blindly saves the ``git status`` before it."""
    made = await identity.run(
        "commit", "--quiet", "--no-verify", "--no-status", "--allow-empty-message", "--cleanup=whitespace", "-F", "-",
        cwd=path, stdin=message or "\n", env=place, ok=(0, 1), timeout=SLOW_SECONDS,
    )  # fmt: skip
    if made.status == 0:
        return True
    staged = await git.run("diff", "--cached", "--quiet", cwd=path, env=place, writes=False, ok=(0, 1))
    if staged.status == 1:
        raise GitFailed(["commit"], made.status, made.stderr)
    return False
