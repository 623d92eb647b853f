"""Detached worktrees: add, look, remove.

Adding and removing take no lock. Twelve at a time succeed, and the two races git has (a registration read
while another is half written; the common folder removed while it is empty) can come from the user's own git
as well, where no lock of ours would help: both are told by their message and tried again.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pilothouse.adapters.git import layout, nested, parse, refs
from pilothouse.adapters.git.layout import CommonDir
from pilothouse.adapters.git.removal import remove_empty_parents, remove_tree
from pilothouse.adapters.git.run import SLOW_SECONDS, Result, Runner
from pilothouse.errors import GitFailed

_TRIES = 8
_PAUSE_SECONDS = 0.02
_SETTLE_SECONDS = 1.0
"""How long a git that outlived its owner may take to finish an ``add`` before it counts as killed."""
_RACES = ("failed to read", "could not create leading directories", "could not create directory", "Unable to create")
_ANY = range(-64, 256)
_LEVELS = 2
"""Folders above a worktree that are ours: ``<plan>/<node>/<attempt>``."""


async def add_worktree(git: Runner, repo: str, common_dir: str, path: str, commit: str) -> None:
    place = Path(path)
    if not place.is_absolute():
        raise ValueError(f"a worktree path is absolute, not {path!r}")
    if _occupied(place):
        if await _usable(git, common_dir, place, commit):
            return
        await remove_worktree(git, repo, common_dir, path)
    # --force replaces a registration whose directory is gone; nothing else, as HEAD is detached.
    await _registration(git, "add", "--quiet", "--force", "--detach", "--", path, commit, repo=repo)
    if (place / ".gitmodules").exists():
        await git.run(
            "submodule", "update", "--init", "--recursive", "--quiet", cwd=path, ceiling=True, timeout=SLOW_SECONDS
        )
        admin = layout.admin_dir(path)
        if admin is not None:
            await nested.record(git, admin)


async def worktree_head(git: Runner, path: str) -> str:
    """Read from the file where HEAD is detached, which it is unless somebody checked a branch out."""
    admin = layout.admin_dir(path)
    head = None if admin is None else layout.detached_head(admin)
    if head is not None:
        return head
    return (await git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=path, writes=False, ceiling=True)).text


async def remove_worktree(git: Runner, repo: str, common_dir: str, path: str) -> None:
    place = Path(path)
    if _holds(place, common_dir):
        raise GitFailed(["worktree", "remove", path], 1, "the repository itself lies inside; nothing was removed")
    # git would follow a link to whatever worktree it points at.
    if place.is_symlink():
        place.unlink()
    # Twice: also when it is locked, as a half-made one is.
    removed = await _registration(git, "remove", "--force", "--force", "--", path, repo=repo, ok=(0, 128, 255))
    if os.path.lexists(place):
        try:
            await asyncio.to_thread(remove_tree, place)
        except OSError as failed:
            raise GitFailed(["worktree", "remove", path], 1, str(failed)) from failed
        if removed.status != 0:
            await _registration(git, "remove", "--force", "--force", "--", path, repo=repo, ok=(0, 128, 255))
    remove_empty_parents(place, _LEVELS)


async def list_worktrees(git: Runner, repo: str) -> list[parse.Worktree]:
    return parse.worktrees((await _registration(git, "list", "--porcelain", "-z", repo=repo)).stdout)


async def where_checked_out(git: Runner, repo: str, common: CommonDir, branch: str) -> str | None:
    """The worktree that has ``branch`` as HEAD, or will come back to it after a rebase or bisect."""
    found = layout.checked_out(common).get(layout.real_branch(common, branch))
    if found is None and not layout.keeps_heads_in_files(common):
        listed = await list_worktrees(git, repo)
        found = next((entry.path for entry in listed if entry.branch == branch and not entry.bare), None)
    return found


async def _registration(git: Runner, *args: str, repo: str, ok: tuple[int, ...] = (0,)) -> Result:
    """``git worktree …``, tried again when it met another one half-way."""
    for attempt in range(_TRIES):
        done = await git.run("worktree", *args, cwd=repo, ok=_ANY, timeout=SLOW_SECONDS)
        raced = done.status != 0 and any(race in done.stderr for race in _RACES)
        if not raced or attempt == _TRIES - 1:
            break
        await asyncio.sleep(_PAUSE_SECONDS * (attempt + 1))
    if done.status not in ok:
        raise GitFailed(["worktree", *args], done.status, done.stderr)
    return done


async def _usable(git: Runner, common_dir: str, place: Path, commit: str) -> bool:
    """True for a finished worktree of this repository that holds ``commit``, False for a leftover to replace.

    Anything else is somebody's: refused."""
    admin = layout.admin_dir(place)
    if admin is None:
        if os.path.lexists(place / ".git"):
            raise GitFailed(["worktree", "add", str(place)], 1, "a repository of its own lies there")
        return False
    if not layout.is_registered(place):
        return False
    if os.path.realpath(admin.parent.parent) != os.path.realpath(common_dir):
        raise GitFailed(["worktree", "add", str(place)], 1, "a worktree of another repository lies there")
    waited = 0.0
    while layout.half_made(admin):
        if waited >= _SETTLE_SECONDS:
            return False
        await asyncio.sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    head = await worktree_head(git, str(place))
    if await refs.is_ancestor(git, str(place), commit, head):
        return True
    raise GitFailed(["worktree", "add", str(place)], 1, f"another worktree lies there, with HEAD at {head}")


def _occupied(place: Path) -> bool:
    """Whether something lies there; an empty directory is nothing to git either."""
    if place.is_symlink() or not place.is_dir():
        return os.path.lexists(place)
    try:
        return any(place.iterdir())
    except PermissionError as failed:
        raise GitFailed(["worktree", "add", str(place)], 1, str(failed)) from failed


def _holds(place: Path, common_dir: str) -> bool:
    """Whether removing ``place`` would remove the repository. A link holds nothing."""
    if place.is_symlink():
        return False
    top, common = os.path.realpath(place), os.path.realpath(common_dir)
    return common == top or common.startswith(top.rstrip(os.sep) + os.sep)
