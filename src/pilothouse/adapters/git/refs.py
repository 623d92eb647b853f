"""Refs: read, created, moved by compare-and-swap, deleted. Knows no merges and no worktrees."""

from __future__ import annotations

import re
from typing import NamedTuple

from pilothouse.adapters.git import names
from pilothouse.adapters.git.run import Runner
from pilothouse.errors import BadInput, GitFailed

OURS = "refs/pilothouse/"
_SAFE_REF = re.compile(r"refs/pilothouse(?:/(?!\.)[A-Za-z0-9._-]+(?<!\.)(?<!\.lock))+\Z")


class Heads(NamedTuple):
    """What one look at a branch and a pin found; ``tree`` is that of the branch's head."""

    head: str | None
    tree: str
    pinned: str | None


def check_ref(ref: str) -> None:
    """Raises ``BadInput`` for anything but a plain name below ``refs/pilothouse/``."""
    if not _SAFE_REF.match(ref) or ".." in ref:
        raise BadInput(f"{ref!r} is not a ref below {OURS}")


async def look(git: Runner, repo: str, branch: str, pin: str | None = None) -> Heads:
    """A branch's head with its tree, and a pin, in one process."""
    name = f"refs/heads/{branch}"
    answer = await git.run(
        "for-each-ref",
        "--format=%(refname)%00%(objectname)%00%(tree)%00",
        name, *([pin] if pin else []),
        cwd=repo, writes=False,
    )  # fmt: skip
    fields = answer.text.split("\0")
    found = {fields[i].lstrip("\n"): fields[i + 1 : i + 3] for i in range(0, len(fields) - 3, 3)}
    head, tree = found.get(name, ["", ""])
    pinned = found.get(pin, [""])[0] if pin else ""
    return Heads(head or None, tree, pinned or None)


async def branch_head(git: Runner, repo: str, branch: str) -> str | None:
    found = await git.run(
        "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}", cwd=repo, writes=False, ok=(0, 1)
    )
    return found.text or None


async def check_room(git: Runner, repo: str, branch: str) -> None:
    """Raises ``BadInput`` when a branch is in the way: refs are files, so ``a`` and ``a/b`` exclude each other."""
    family = f"refs/heads/{branch.partition('/')[0]}"
    listed = await git.run("for-each-ref", "--format=%(refname:lstrip=2)", family, cwd=repo, writes=False)
    if any(names.excludes(branch, other) for other in listed.text.splitlines()):
        raise names.no_room(branch)


async def create_branch(git: Runner, repo: str, branch: str, commit: str) -> bool:
    # Without a reflog message of its own the entry would be empty, and the user would wonder.
    made = await git.run(
        "update-ref", "--create-reflog", "-m", "pilothouse: created", f"refs/heads/{branch}", commit, "0" * len(commit),
        cwd=repo, ok=(0, 1, 128),
    )  # fmt: skip
    if made.status == 0:
        return True
    if await branch_head(git, repo, branch) is not None:
        return False
    if "cannot create" in made.stderr:
        raise names.no_room(branch)
    raise GitFailed(["update-ref", f"refs/heads/{branch}", commit], made.status, made.stderr)


async def pin(git: Runner, repo: str, ref: str, commit: str) -> None:
    """Create ``ref``, or move it forward. A pin is never taken from a commit that would be lost by it."""
    check_ref(ref)
    made = await git.run("update-ref", ref, commit, "0" * len(commit), cwd=repo, ok=(0, 1, 128))
    if made.status == 0:
        return
    present = (await git.run("rev-parse", "--verify", "--quiet", ref, cwd=repo, writes=False, ok=(0, 1))).text
    if present == commit:
        return
    if present and await is_ancestor(git, repo, present, commit):
        await git.run("update-ref", ref, commit, present, cwd=repo)
        return
    raise GitFailed(["update-ref", ref, commit], made.status, f"already pins {present}. {made.stderr}")


async def is_ancestor(git: Runner, repo: str, older: str, newer: str) -> bool:
    """Whether ``older`` is ``newer`` or an ancestor of it."""
    if older == newer:
        return True
    asked = await git.run("merge-base", "--is-ancestor", older, newer, cwd=repo, writes=False, ok=(0, 1))
    return asked.status == 0


async def delete_refs(git: Runner, repo: str, prefix: str) -> None:
    below = OURS + prefix.strip("/")
    check_ref(below)
    listed = await git.run("for-each-ref", "--format=delete %(refname)", below, cwd=repo, writes=False)
    if listed.stdout:
        await git.run("update-ref", "--stdin", cwd=repo, stdin=listed.stdout)
