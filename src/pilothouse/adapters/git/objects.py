"""Merges and commits on objects alone: no ref, no index, no worktree.

Owns how a merge is computed and who is named as its committer; does not know branches or pins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pilothouse.adapters.git import parse
from pilothouse.adapters.git.names import is_object_name
from pilothouse.adapters.git.run import Runner
from pilothouse.core.plan.integration import Conflict, Merged, Strategy

_NAME = "Pilothouse"
_EMAIL = "pilothouse@localhost.invalid"


class Tip(NamedTuple):
    """A commit with its tree."""

    commit: str
    tree: str


class Identity:
    """Who commits: the user, as configured; Pilothouse only where nothing is, rather than a guess from the host name.

    Asked once per repository. Only what is missing is filled in, so a configured name keeps its own.
    """

    def __init__(self, git: Runner) -> None:
        self._git = git
        self._known: dict[str, dict[str, str]] = {}

    async def env(self, repo: str) -> dict[str, str]:
        if repo not in self._known:
            found = await self._git.run(
                "config", "-z", "--get-regexp", r"^(user|author|committer)\.(name|email)$",
                cwd=repo, writes=False, ok=(0, 1),
            )  # fmt: skip
            set_keys = {entry.partition("\n")[0] for entry in found.text.split("\0") if entry.partition("\n")[2]}
            self._known[repo] = {
                f"GIT_{role.upper()}_{what.upper()}": fallback
                for role in ("author", "committer")
                for what, fallback in (("name", _NAME), ("email", _EMAIL))
                if not {f"user.{what}", f"{role}.{what}"} & set_keys
                and not self._git.has_variable(f"GIT_{role.upper()}_{what.upper()}")
            }
        return self._known[repo]


async def commit_tree(
    git: Runner,
    identity: Identity,
    repo: str,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    at: int | None = None,
) -> str:
    """Write a commit; ``at`` is its time in seconds since the epoch, by default now."""
    date = {} if at is None else {"GIT_AUTHOR_DATE": f"@{at} +0000", "GIT_COMMITTER_DATE": f"@{at} +0000"}
    env = await identity.env(repo) | date
    args = [part for parent in parents for part in ("-p", parent)]
    made = await git.run("commit-tree", tree, *args, "-F", "-", cwd=repo, stdin=message or "\n", env=env)
    return made.text


async def merge_trees(git: Runner, repo: str, ours: str, theirs: str) -> parse.MergeOutcome:
    """Three-way merge of two commits with their real merge base; renames followed, as ``git merge`` does."""
    found = await git.run(
        "merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs, cwd=repo, ok=(0, 1)
    )
    return parse.merge_tree(found.stdout, clean=found.status == 0)


async def tip(git: Runner, repo: str, target: str) -> Tip:
    """The tip of a branch, or a commit given by its full name; a tag named like the branch does not matter."""
    revision = target if is_object_name(target) else f"refs/heads/{target}"
    found = await git.run("rev-parse", f"{revision}^{{commit}}", f"{revision}^{{tree}}", cwd=repo, writes=False)
    commit, tree = found.text.splitlines()
    return Tip(commit, tree)


async def merge_forward(
    git: Runner, identity: Identity, repo: str, commits: Sequence[str], message: str
) -> Merged | Conflict:
    current = commits[0]
    for source in commits[1:]:
        if source == current:
            continue
        base = (await git.run("merge-base", current, source, cwd=repo, writes=False, ok=(0, 1))).text
        if base == source:
            continue
        if base == current:
            current = source
            continue
        outcome = await merge_trees(git, repo, current, source)
        if not outcome.clean:
            return Conflict(files=outcome.files, source=source, detail=outcome.detail)
        # As old as its younger parent, so that the same merge repeated after a crash is the same commit.
        asked = ("--no-walk", "--no-commit-header", "--format=%ct", current, source, "--")
        times = await git.run("rev-list", *asked, cwd=repo, writes=False)
        at = max(map(int, times.text.split()))
        current = await commit_tree(git, identity, repo, outcome.tree, (current, source), message, at=at)
    return Merged(commit=current, moved=current != commits[0])


async def merge_onto(
    git: Runner,
    identity: Identity,
    repo: str,
    target: Tip,
    source: str,
    *,
    message: str,
    strategy: Strategy,
    already_merged: Sequence[str] = (),
) -> Merged | Conflict:
    """The commit that brings ``source`` onto ``target``; ``moved`` is False when the tree would be the same."""
    ours = target.commit
    if already_merged:
        # A squash keeps content and drops ancestry. A commit that is never referenced puts it back: with the
        # merged leaves as further parents, the merge base becomes what the leaves really have in common.
        ours = await commit_tree(git, identity, repo, target.tree, (ours, *already_merged), "merge base\n")
    outcome = await merge_trees(git, repo, ours, source)
    if not outcome.clean:
        return Conflict(files=outcome.files, source=source, detail=outcome.detail)
    if outcome.tree == target.tree:
        return Merged(commit=target.commit, moved=False)
    parents = (target.commit, source) if strategy is Strategy.MERGE else (target.commit,)
    return Merged(commit=await commit_tree(git, identity, repo, outcome.tree, parents, message))
