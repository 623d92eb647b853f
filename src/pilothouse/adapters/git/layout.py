"""The files of ``.git`` that are read directly, each documented in ``gitrepository-layout``.

Where git has no command for a question, or a process per question costs more than the answer, this is the one
place that knows file names inside a repository. It only reads; everything is written by git itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_HEADS = b"refs/heads/"
_DETACHED = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


def read(path: Path) -> bytes | None:
    """A small file without its final newline; None when it is not there."""
    try:
        return path.read_bytes().removesuffix(b"\n")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def admin_dir(worktree: str | Path) -> Path | None:
    """Where git keeps HEAD and index of a linked worktree, as its ``.git`` file says; None when it has none."""
    pointer = Path(worktree) / ".git"
    if pointer.is_symlink():
        return None
    content = read(pointer)
    if content is None or not content.startswith(b"gitdir: "):
        return None
    return Path(worktree, os.fsdecode(content.removeprefix(b"gitdir: ")))


def is_registered(worktree: str | Path) -> bool:
    """Whether the worktree and a repository, whichever, point at each other."""
    admin = admin_dir(worktree)
    back = None if admin is None else read(admin / "gitdir")
    if admin is None or back is None:
        return False
    return os.path.realpath(admin / os.fsdecode(back)) == os.path.realpath(Path(worktree) / ".git")


def registered(common_dir: str) -> Iterator[tuple[Path, Path]]:
    """(worktree, admin directory) of every linked worktree of a repository, also of those that are gone."""
    try:
        admins = sorted(Path(common_dir, "worktrees").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for admin in admins:
        pointer = read(admin / "gitdir")
        if pointer:
            yield (admin / os.fsdecode(pointer)).parent, admin


def detached_head(admin: Path) -> str | None:
    """The commit of a detached HEAD; None when HEAD names a branch or cannot be read this way."""
    content = read(admin / "HEAD")
    return content.decode("ascii") if content is not None and _DETACHED.match(content) else None


def half_made(admin: Path) -> bool:
    """Whether ``git worktree add`` was killed in the middle: it locks with this reason until it is done."""
    return read(admin / "locked") == b"initializing" or not (admin / "index").exists()


def busy_branches(common_dir: str) -> dict[str, str]:
    """Branches that a rebase or bisect in some worktree will come back to, with that worktree's path.

    HEAD is detached meanwhile, so ``git worktree list`` does not name them; ``git branch -f`` refuses to move
    them for the same reason.
    """
    common = Path(common_dir)
    places = [(common.parent if common.name == ".git" else common, common), *registered(common_dir)]
    found: dict[str, str] = {}
    for worktree, admin in places:
        rebased = (read(admin / folder / "head-name") for folder in ("rebase-merge", "rebase-apply"))
        bisected = read(admin / "BISECT_START")
        for name in (*rebased, None if bisected is None else _HEADS + bisected.removeprefix(_HEADS)):
            if name is not None and name.startswith(_HEADS):
                found.setdefault(os.fsdecode(name.removeprefix(_HEADS)), str(worktree))
    return found
