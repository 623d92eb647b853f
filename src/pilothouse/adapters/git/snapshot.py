"""Looking at a working tree, and writing all of it as a tree object, without touching its index or files.

Works with an index of its own, so it needs neither the index lock nor a finished merge. The repository is always named
by ``place``, the variables GIT_DIR and GIT_WORK_TREE, so it works when ``.git`` was deleted or replaced.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pilothouse.adapters.git import layout
from pilothouse.adapters.git.run import SLOW_SECONDS, Result, Runner


def place(git_dir: Path, worktree: str | Path) -> dict[str, str]:
    return {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(worktree)}


async def is_clean(git: Runner, path: str, place: Mapping[str, str]) -> bool:
    """Whether index and files are those of HEAD. Submodules count by their commit, not by what is edited in them."""
    status = await git.run(
        "status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty",
        cwd=path, env=place, writes=False, timeout=SLOW_SECONDS,
    )  # fmt: skip
    return not status.stdout


async def add_all(
    git: Runner, path: str, env: Mapping[str, str], index: Path, *options: str, ok: Sequence[int] = (0,)
) -> Result:
    """Stage everything that is not ignored. ``index`` is the one that ``env`` means.

    To see whether files of a submodule were edited ``git add`` runs git in it, and with that the filters that are
    configured there: by whatever worked here, maybe in a sandbox, which we are not in. So submodules are left out, and
    what they have checked out is recorded after that."""
    links = await _links(git, path, env) if await asyncio.to_thread(layout.may_have_gitlinks, index) else []
    if not links:
        return await git.run("add", "--all", *options, cwd=path, env=env, ok=ok, timeout=SLOW_SECONDS)
    added = await git.run(
        "add", "--all", *options, "--pathspec-from-file=-", "--pathspec-file-nul",
        cwd=path, env=env, ok=ok, timeout=SLOW_SECONDS,
        stdin="\0".join([".", *(f":(top,exclude,literal){link}" for link in links)]),
    )  # fmt: skip
    await git.run("update-index", "--add", "--remove", "-z", "--stdin", cwd=path, env=env, stdin="\0".join(links))
    return added


async def _links(git: Runner, path: str, env: Mapping[str, str]) -> list[str]:
    """Where the index records another repository."""
    listed = await git.run("ls-files", "-z", "--stage", cwd=path, env=env, writes=False)
    entries = (entry.partition("\t") for entry in os.fsdecode(listed.stdout).split("\0"))
    return list(dict.fromkeys(name for mode, _, name in entries if mode.startswith("160000 ")))


async def take(git: Runner, path: str, place: Mapping[str, str], index: Path | None) -> str:
    """The tree of everything in the working tree that is not ignored. ``index`` is the one to begin with."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-rescue-") as folder:
        copy = Path(folder, "index")
        if index is not None:
            # The stat information in it saves reading every file; without one they are all read.
            await asyncio.to_thread(_copy_if_there, index, copy)
        env = {**place, "GIT_INDEX_FILE": str(copy)}
        # What cannot be read (an embedded repository without a commit, a file without permission) is left out.
        await add_all(git, path, env, copy, "--ignore-errors", ok=(0, 1))
        return (await git.run("write-tree", cwd=path, env=env)).text


def _copy_if_there(source: Path, target: Path) -> None:
    try:
        # With its time stamp: git takes a file that is newer than the index for possibly changed.
        shutil.copy2(source, target)
    except FileNotFoundError:
        pass
