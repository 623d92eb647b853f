"""Saving what is in a worktree under a ref, without touching the worktree.

Owns what one rescue commit holds. How files become a tree is in ``snapshot``; what other repositories inside the
worktree hold is in ``nested``.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pilothouse.adapters.git import layout, nested, refs, snapshot
from pilothouse.adapters.git.objects import Identity, Tip, commit_tree
from pilothouse.adapters.git.run import Runner
from pilothouse.core.plan.integration import Rescued
from pilothouse.errors import GitFailed


async def rescue(
    git: Runner, identity: Identity, repo: str, common_dir: str, path: str, ref: str, message: str, kept: str
) -> Rescued | None:
    refs.check_ref(ref)
    if Path(path).is_symlink() or not Path(path).is_dir():
        # Whatever a link leads to is somebody else's: it would end up in the repository.
        return None
    admin = await asyncio.to_thread(_admin, common_dir, path)
    if admin is None:
        raise GitFailed(["rescue", path], 1, "not a worktree of this repository, so nothing could be saved")
    if trap := layout.disarm(admin):
        raise GitFailed(["rescue", path], 1, f"its {trap} was no file, so nothing could be saved")
    env = snapshot.place(admin, path)
    clean = await snapshot.is_clean(git, path, env)
    within = (not clean or await asyncio.to_thread(layout.may_nest, admin)) and await nested.save(
        git, identity, repo, path, admin, ref, message
    )
    detached = layout.detached_head(admin)
    if clean and not within and detached is not None and (detached == kept or await _is_kept(git, repo, detached)):
        # The common case, before every removal: nothing more is asked.
        return None
    known = await _tips(git, path, env, "HEAD", ref)
    head, saved = known["HEAD"], known[ref]
    if clean and not within and (head is None or await _is_kept(git, repo, head.commit)):
        return None
    tree = head.tree if clean and head is not None else await snapshot.take(git, path, env, admin / "index")
    commit = await _commit(git, identity, repo, tree, head, saved, message)
    old = saved.commit if saved is not None else "0" * len(commit)
    await git.run("update-ref", "-m", "pilothouse: rescue", ref, commit, old, cwd=repo)
    return Rescued(ref=ref, commit=commit)


async def _commit(
    git: Runner, identity: Identity, repo: str, tree: str, head: Tip | None, saved: Tip | None, message: str
) -> str:
    """A commit that holds this tree, HEAD, and what an earlier rescue saved: one there is, or a new one."""
    if saved is not None and saved.tree == tree and await _holds(git, repo, saved, head):
        return saved.commit
    if head is not None and head.tree == tree and await _holds(git, repo, head, saved):
        return head.commit
    parents = [tip.commit for tip in (head, saved) if tip is not None]
    return await commit_tree(identity, repo, tree, parents, message)


async def _holds(git: Runner, repo: str, newer: Tip, older: Tip | None) -> bool:
    return older is None or await refs.is_ancestor(git, repo, older.commit, newer.commit)


async def _is_kept(git: Runner, repo: str, commit: str) -> bool:
    found = await git.run(
        "for-each-ref", "--contains", commit, "--count=1", "--format=%(refname)",
        "refs/heads/", "refs/tags/", "refs/remotes/", refs.OURS,
        cwd=repo, writes=False,
    )  # fmt: skip
    return bool(found.stdout)


async def _tips(git: Runner, path: str, env: dict[str, str], *names: str) -> dict[str, Tip | None]:
    """Commit and tree of each name, all asked at once; None where there is none."""
    questions = "".join(f"{name}^{{commit}}\n{name}^{{tree}}\n" for name in names)
    answer = await git.run(
        "cat-file", "--batch-check=%(objectname) %(objecttype)", cwd=path, env=env, stdin=questions, writes=False
    )
    lines = [line.partition(" ") for line in answer.text.splitlines()]
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return {
        name: Tip(commit, tree) if (kind, tree_kind) == ("commit", "tree") else None
        for name, ((commit, _, kind), (tree, _, tree_kind)) in zip(names, pairs, strict=True)
    }


def _admin(common_dir: str, path: str) -> Path | None:
    """The admin directory by the repository's own records, so that whatever lies at ``.git`` does not matter."""
    place = os.path.realpath(path)
    pointed = layout.admin_dir(path)
    if pointed is not None and layout.is_registered(path) and os.path.realpath(pointed.parent.parent) == common_dir:
        return pointed
    layout.disarm_all(common_dir)
    return next((admin for tree, admin in layout.registered(common_dir) if os.path.realpath(tree) == place), None)
