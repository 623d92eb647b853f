"""Looking at repositories: what stands at a path, what a name means. Moves nothing.

Owns the translation from what git says about a path or a name into ``BadInput``; does not know plans.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pilothouse.adapters.git import layout, names, parse
from pilothouse.adapters.git.layout import CommonDir
from pilothouse.adapters.git.names import is_object_name
from pilothouse.adapters.git.run import Runner
from pilothouse.adapters.git.worktrees import list_worktrees
from pilothouse.core.plan.integration import Repository
from pilothouse.errors import BadInput, GitFailed

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


async def version(git: Runner) -> tuple[int, int, int]:
    return parse.version((await git.run("version", cwd="/", writes=False)).text)


async def common_dir(git: Runner, path: str) -> CommonDir:
    """What all worktrees of the repository at ``path`` share. Raises ``BadInput`` as :func:`inspect`."""
    _check_directory(path)
    try:
        found = await git.run("rev-parse", "--git-common-dir", cwd=path, writes=False)
    except GitFailed as failed:
        raise _not_a_repository(path, failed) from failed
    common = str((Path(path) / found.text).resolve())
    # Not --is-bare-repository, which answers for where it is asked: a linked worktree is never bare.
    bare = await git.run("config", "--bool", "--get", "core.bare", cwd=common, writes=False, ok=(0, 1))
    return CommonDir(common, bare.text == "true")


async def inspect(git: Runner, path: str) -> tuple[Repository, CommonDir]:
    common = await common_dir(git, path)
    inside = await git.run("rev-parse", "--show-toplevel", cwd=path, writes=False, ok=(0, 128))
    listed = await list_worktrees(git, path)
    # Outside any checkout (a bare repository, or inside ``.git``) the main worktree is what is meant.
    root = inside.text if inside.status == 0 else listed[0].path
    here = next((entry for entry in listed if os.path.realpath(entry.path) == os.path.realpath(root)), listed[0])
    in_use = {entry.branch: entry.path for entry in listed if entry.branch and not entry.bare}
    repository = Repository(
        root=root,
        common_dir=common.path,
        bare=here.bare,
        head_branch=here.branch,
        head_commit=here.head or (await _head_commit(git, root) if here.bare else None),
        checked_out=layout.checked_out(common) | in_use,
    )
    return repository, common


async def _head_commit(git: Runner, root: str) -> str | None:
    found = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=root, writes=False, ok=(0, 1))
    return found.text or None


async def resolve(git: Runner, repo: str, revision: str) -> str:
    """A branch comes before a tag of the same name: plans speak of branches."""
    bad = BadInput(f"{revision!r} is not a branch, tag or commit of this repository", fix="name one that exists")
    if not revision or revision.startswith(("-", "^")) or _CONTROL.search(revision):
        raise bad
    # One process for both readings; a name that holds spaces is no revision, and is echoed as missing.
    question = f"refs/heads/{revision}^{{commit}}\n{revision}^{{commit}}\n"
    answer = await git.run(
        "cat-file", "--batch-check=%(objectname) %(objecttype)", cwd=repo, stdin=question, writes=False
    )
    for line in answer.text.splitlines():
        name, _, kind = line.rpartition(" ")
        if kind == "commit" and is_object_name(name):
            return name
    raise bad


async def check_branch_name(git: Runner, name: str) -> None:
    problem = names.branch_problem(name)
    if problem is None:
        checked = await git.run("check-ref-format", "--branch", name, cwd="/", writes=False, ok=(0, 1, 128))
        problem = None if checked.status == 0 else f"{name!r} is not a branch name"
    if problem is not None:
        raise BadInput(problem, fix=names.FIX)


def _check_directory(path: str) -> None:
    if not path or "\0" in path or not os.path.lexists(path):
        raise BadInput(f"{path!r} does not exist", fix="give the path of a git repository")
    if not Path(path).is_dir():
        raise BadInput(f"{path!r} is not a directory", fix="give the path of a git repository")


def _not_a_repository(path: str, failed: GitFailed) -> Exception:
    if "dubious ownership" in failed.stderr:
        return BadInput(
            f"{path!r} belongs to another user, and git refuses to work in it",
            fix=f"run: git config --global --add safe.directory {path}",
        )
    if "not a git repository" in failed.stderr:
        return BadInput(f"{path!r} is not a git repository", fix="run git init there, or give another path")
    return failed
