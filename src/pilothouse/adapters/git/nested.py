"""Repositories inside a worktree: submodules, and whatever else was cloned or initialised there.

The superproject records one commit of each and none of its objects, and they are removed with the worktree. Owns what
of them exists nowhere else, and brings it into the superproject under refs of its own. What is ignored is not looked
at, as everywhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pilothouse.adapters.git import layout, parse, snapshot
from pilothouse.adapters.git.objects import Identity, commit_tree
from pilothouse.adapters.git.run import SLOW_SECONDS, Runner
from pilothouse.errors import GitFailed

_RECORDED = "refs/pilothouse/recorded"
"""In a submodule: what was checked out when the worktree was made, so it can be had again."""
_ELSEWHERE = ("--remotes", f"--glob={_RECORDED}")
_RUNS_PROGRAMS = r"^(filter\..*\.(clean|smudge|process|required)|extensions\.partialclone|remote\..*\.promisor)$"
_OWN_SCOPES = ("local", "worktree")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class _Nested(NamedTuple):
    """``name`` is its path below the worktree. Without ``worktree`` only the repository is left, as after ``git
    submodule deinit``; without ``git_dir`` only files are, where a submodule should be."""

    name: str
    worktree: Path | None
    git_dir: Path | None


async def record(git: Runner, admin: Path) -> None:
    """Note for every submodule just checked out where it stands."""
    for git_dir in layout.modules(admin):
        env = snapshot.place(git_dir, git_dir)
        await git.run("update-ref", _RECORDED, "HEAD", cwd=str(git_dir), env=env, ok=(0, 128))


async def save(git: Runner, identity: Identity, repo: str, path: str, admin: Path, ref: str, message: str) -> bool:
    """Bring what would be lost with the worktree under ``<ref>-modules/<name>``; False when there is nothing.

    Raises ``GitFailed`` when something cannot be saved; the worktree must stay then."""
    saved = False
    seen: set[str] = set()
    ours = (os.path.realpath(path), os.path.realpath(admin))
    async for nested in _find(git, path, snapshot.place(admin, path), ""):
        if nested.git_dir is not None:
            seen.add(os.path.realpath(nested.git_dir))
        saved |= await _save(git, identity, repo, nested, ours, ref, message)
    for git_dir in await asyncio.to_thread(layout.modules, admin):
        if os.path.realpath(git_dir) not in seen:
            left = _Nested(str(git_dir.relative_to(admin / "modules")), None, git_dir)
            saved |= await _save(git, identity, repo, left, ours, ref, message)
    return saved


async def _find(git: Runner, path: str, place: Mapping[str, str], prefix: str) -> AsyncIterator[_Nested]:
    listed = await git.run(
        "ls-files", "-z", "--stage", "--others", "--exclude-standard",
        cwd=path, env=place, writes=False, timeout=SLOW_SECONDS,
    )  # fmt: skip
    for name in parse.nested(listed.stdout):
        worktree = Path(path, name)
        # A link on the way leads to what is not removed.
        if not worktree.is_dir() or worktree.resolve() != Path(path).resolve() / name:
            continue
        git_dir = layout.git_dir(worktree)
        yield _Nested(prefix + name, worktree, git_dir)
        if git_dir is not None:
            async for deeper in _find(git, str(worktree), await _place(git, git_dir, worktree), f"{prefix}{name}/"):
                yield deeper


async def _place(git: Runner, git_dir: Path, top: Path) -> dict[str, str]:
    """For git in a repository that whatever worked here may have set up: no filter of its configuration runs, and
    nothing is fetched. A partial clone would fetch by a program that it names, also for whoever fetches from it: it is
    not looked at. Raises ``GitFailed`` for one."""
    env = {**snapshot.place(git_dir, top), "GIT_ALLOW_PROTOCOL": "none"}
    listed = await git.run(
        "config", "--show-scope", "--name-only", "-z", "--get-regexp", _RUNS_PROGRAMS,
        cwd=str(git_dir), env=env, ok=(0, 1), writes=False,
    )  # fmt: skip
    fields = os.fsdecode(listed.stdout).split("\0")
    own = dict.fromkeys(key for scope, key in zip(fields[::2], fields[1::2], strict=False) if scope in _OWN_SCOPES)
    if any(not key.startswith("filter.") for key in own):
        raise GitFailed(["rescue", str(top)], 1, "it is a partial clone, so nothing could be saved")
    for number, key in enumerate(own):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": ""}
    return env | {"GIT_CONFIG_COUNT": str(len(own))}


async def _save(
    git: Runner, identity: Identity, repo: str, nested: _Nested, ours: tuple[str, ...], ref: str, message: str
) -> bool:
    if nested.git_dir is None:
        return await _save_files(git, identity, repo, nested, ref, message)
    git_dir, top = str(nested.git_dir), nested.worktree or nested.git_dir
    env = await _place(git, nested.git_dir, top)
    goes = any(os.path.realpath(git_dir).startswith(folder + os.sep) for folder in ours)
    head, tips = await _unsaved(git, git_dir, env, goes)
    tree = None
    if nested.worktree is not None and not await snapshot.is_clean(git, str(top), env):
        tree = await snapshot.take(git, str(top), env, nested.git_dir / "index")
    if tree is None and not tips:
        return False
    parents = list(dict.fromkeys(([head] if head is not None else []) + tips))
    if tree is None and len(tips) == 1:
        commit = tips[0]
    else:
        tree = tree or (await git.run("rev-parse", f"{parents[0]}^{{tree}}", cwd=git_dir, env=env)).text
        text = f"{message}\n\nIn {nested.name}"
        commit = await commit_tree(identity, git_dir, tree, parents, text, place=env)
    await _fetch(git, repo, git_dir, commit, await _free(git, repo, _ref(ref, nested.name), commit, tree, parents))
    return True


async def _save_files(git: Runner, identity: Identity, repo: str, nested: _Nested, ref: str, message: str) -> bool:
    """Files where a submodule should be: git looks at them as little as at those of a submodule."""
    assert nested.worktree is not None
    common = (await git.run("rev-parse", "--absolute-git-dir", cwd=repo, writes=False)).text
    tree = await snapshot.take(git, str(nested.worktree), snapshot.place(Path(common), nested.worktree), None)
    if not (await git.run("ls-tree", tree, cwd=repo, writes=False)).stdout:
        return False
    name = _ref(ref, nested.name)
    commit = await commit_tree(identity, repo, tree, (), f"{message}\n\nIn {nested.name}")
    free = await _free(git, repo, name, commit, tree, [])
    if free is not None:
        await git.run("update-ref", free, commit, "0" * len(commit), cwd=repo)
    return True


async def _unsaved(git: Runner, git_dir: str, env: Mapping[str, str], goes: bool) -> tuple[str | None, list[str]]:
    """HEAD, and the commits to name so that nothing of a repository is lost. Of one that stays, HEAD alone is."""
    heads = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=git_dir, env=env, ok=(0, 1))
    head = heads.text or None
    tips = [head] if head is not None else []
    if goes:
        listed = await git.run(
            "for-each-ref", "--format=%(objectname)", "refs/heads/", "refs/stash", cwd=git_dir, env=env
        )
        tips += listed.text.split()
        stashed = await git.run(
            "rev-list", "--walk-reflogs", "--ignore-missing", "refs/stash", "--", cwd=git_dir, env=env, ok=(0, 128)
        )
        tips += stashed.text.split()
    if not tips:
        return head, []
    elsewhere = _ELSEWHERE if goes else ("--branches", "--tags", *_ELSEWHERE)
    listed = await git.run(
        "rev-list", *dict.fromkeys(tips), "--not", *elsewhere, cwd=git_dir, env=env, timeout=SLOW_SECONDS
    )
    missing = set(listed.text.split())
    wanted = [tip for tip in dict.fromkeys(tips) if tip in missing]
    if len(wanted) > 1:
        wanted = (await git.run("merge-base", "--independent", *wanted, cwd=git_dir, env=env)).text.split()
    return head, wanted


async def _free(git: Runner, repo: str, name: str, commit: str, tree: str | None, parents: list[str]) -> str | None:
    """The first of ``name``, ``name-2``, … that is free; None when one of them holds the same already."""
    listed = await git.run(
        "for-each-ref", "--format=%(refname) %(objectname) %(tree) %(parent)", f"{name}*", cwd=repo, writes=False
    )
    held = [line.split() for line in listed.text.splitlines()]
    if any(present == commit or [*rest] == [tree, *parents] for _, present, *rest in held):
        return None
    taken = {ref for ref, *_ in held}
    return next(free for n in range(1, len(taken) + 2) if (free := name if n == 1 else f"{name}-{n}") not in taken)


async def _fetch(git: Runner, repo: str, git_dir: str, commit: str, ref: str | None) -> None:
    """With all of its history: a commit whose parents are missing would break every later ``git gc``."""
    if ref is not None:
        await git.run(
            # Any commit may be asked for by its name in this version, so no ref has to be made there.
            "-c", "protocol.version=2", "fetch", "--quiet", "--no-tags", "--no-prune", "--no-write-fetch-head",
            "--no-recurse-submodules", git_dir, f"{commit}:{ref}",
            cwd=repo, env={"GIT_ALLOW_PROTOCOL": "file"}, timeout=SLOW_SECONDS,
        )  # fmt: skip


def _ref(ref: str, name: str) -> str:
    """Beside ``ref`` and not below it, as refs are files; without slashes, as one submodule lies below another."""
    if not _PLAIN.match(name):
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
        name = f"{_UNSAFE.sub('-', name)[:80].strip('-')}-{digest}"
    return f"{ref}-modules/{name}"
