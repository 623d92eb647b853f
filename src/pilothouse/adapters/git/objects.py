"""Merges and commits on objects alone: no ref, no index, no worktree.

Owns how a merge is computed and who is named as its committer; does not know branches or pins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pilothouse.adapters.git import parse
from pilothouse.adapters.git.names import is_object_name
from pilothouse.adapters.git.run import QUICK_SECONDS, Result, Runner
from pilothouse.core.plan.integration import Conflict, Merged, Strategy
from pilothouse.errors import GitFailed

_NAME = "Pilothouse"
_EMAIL = "pilothouse@localhost.invalid"
_NO_GUESSING = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "user.useConfigOnly",
    "GIT_CONFIG_VALUE_0": "true",
}
_NOBODY = ("auto-detection is disabled", "empty ident name")
"""How git says that it does not know who commits."""


class Tip(NamedTuple):
    """A commit with its tree."""

    commit: str
    tree: str


class Identity:
    """Who commits: the user, as configured; Pilothouse only where nothing is, rather than a guess from the host name.

    Git itself is asked at every commit, so that a name configured meanwhile counts, and the rules for ``EMAIL``,
    ``GIT_*`` and included files are its own. Only what is missing is filled in.
    """

    def __init__(self, git: Runner) -> None:
        self._git = git

    async def run(
        self,
        *args: str,
        cwd: str,
        stdin: str,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        ceiling: bool = False,
        timeout: float = QUICK_SECONDS,
    ) -> Result:
        """Run a git command that commits; arguments and errors as :meth:`Runner.run`."""
        given = _NO_GUESSING | dict(env or {})

        async def attempt(variables: Mapping[str, str]) -> Result:
            return await self._git.run(
                *args, cwd=cwd, stdin=stdin, env=variables, ok=ok, ceiling=ceiling, timeout=timeout
            )

        try:
            return await attempt(given)
        except GitFailed as failed:
            if not any(sentence in failed.stderr for sentence in _NOBODY):
                raise
        return await attempt(given | await self._missing(cwd, given))

    async def _missing(self, cwd: str, env: Mapping[str, str]) -> dict[str, str]:
        found = await self._git.run(
            "config", "-z", "--get-regexp", r"^(user|author|committer)\.(name|email)$",
            cwd=cwd, env=env, writes=False, ok=(0, 1),
        )  # fmt: skip
        configured = {key for key, _, value in (entry.partition("\n") for entry in found.text.split("\0")) if value}
        return {
            f"GIT_{role.upper()}_{what.upper()}": fallback
            for role in ("author", "committer")
            for what, fallback in (("name", _NAME), ("email", self._git.variable("EMAIL") or _EMAIL))
            if not {f"user.{what}", f"{role}.{what}"} & configured
            and not self._git.variable(f"GIT_{role.upper()}_{what.upper()}")
        }


async def commit_tree(
    identity: Identity,
    repo: str,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    at: int | None = None,
    place: Mapping[str, str] | None = None,
) -> str:
    """Write a commit; ``at`` is its time in seconds since the epoch, by default now; ``place`` are variables that name
    the repository where the directory ``repo`` does not."""
    date = {} if at is None else {"GIT_AUTHOR_DATE": f"@{at} +0000", "GIT_COMMITTER_DATE": f"@{at} +0000"}
    env = dict(place or {}) | date
    args = [part for parent in parents for part in ("-p", parent)]
    made = await identity.run("commit-tree", tree, *args, "-F", "-", cwd=repo, stdin=message or "\n", env=env)
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
        current = await commit_tree(identity, repo, outcome.tree, (current, source), message, at=at)
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
) -> Tip | Conflict:
    """The commit that brings ``source`` onto ``target``, with its tree; ``target`` itself when that has it already."""
    ours = target.commit
    if already_merged:
        # A squash keeps content and drops ancestry. A commit that is never referenced puts it back: with the
        # merged leaves as further parents, the merge base becomes what the leaves really have in common.
        ours = await commit_tree(identity, repo, target.tree, (ours, *already_merged), "merge base\n")
    outcome = await merge_trees(git, repo, ours, source)
    if not outcome.clean:
        return Conflict(files=outcome.files, source=source, detail=outcome.detail)
    if outcome.tree == target.tree:
        return target
    parents = (target.commit, source) if strategy is Strategy.MERGE else (target.commit,)
    return Tip(await commit_tree(identity, repo, outcome.tree, parents, message), outcome.tree)
