"""Repositories in memory: the world that survives when the process that uses :class:`MemoryGit` does not.

A commit is a mapping of paths to text with parents; a worktree is a mutable mapping of paths to text, which
simulated work writes to. Commit names are hashes of their content, so that the same run makes the same names
in any order: no clock, no counter, no randomness. Does not model ignore rules, file modes, lines or an index.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Files = dict[str, str]


@dataclass(frozen=True)
class MemoryCommit:
    """A commit; ``files`` is the whole tree and must not be changed."""

    files: Mapping[str, str]
    parents: tuple[str, ...] = ()
    message: str = ""


@dataclass
class MemoryWorktree:
    """A checkout: ``branch`` is None when HEAD is detached at ``head``."""

    files: Files
    head: str
    branch: str | None = None


@dataclass
class MemoryRepository:
    """One repository: objects, refs by full name, and worktrees by path, the main one (if any) at ``root``."""

    root: str
    bare: bool = False
    commits: dict[str, MemoryCommit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    worktrees: dict[str, MemoryWorktree] = field(default_factory=dict)

    def commit(self, files: Mapping[str, str], parents: Sequence[str] = (), message: str = "") -> str:
        """Write a commit object; answers its name. Moves no ref."""
        body = json.dumps([sorted(files.items()), list(parents), message])
        name = hashlib.sha1(body.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
        self.commits[name] = MemoryCommit(dict(files), tuple(parents), message)
        return name

    def checkout(self, path: str, commit: str, branch: str | None = None) -> MemoryWorktree:
        """Make a worktree at ``path``, replacing one that is there."""
        tree = MemoryWorktree(dict(self.commits[commit].files), commit, branch)
        self.worktrees[path] = tree
        return tree

    def head(self, tree: MemoryWorktree) -> str:
        return tree.head if tree.branch is None else self.refs[f"refs/heads/{tree.branch}"]

    def ancestors(self, commit: str) -> set[str]:
        """``commit`` and everything it descends from."""
        seen: set[str] = set()
        waiting = [commit]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(self.commits[name].parents)
        return seen

    def is_ancestor(self, older: str, newer: str) -> bool:
        return older == newer or older in self.ancestors(newer)

    def merge_bases(self, ours: str, theirs: str) -> list[str]:
        """The best common ancestors of two commits, sorted by name."""
        common = self.ancestors(ours) & self.ancestors(theirs)
        # The parents of a common ancestor are common as well, and worse; so are theirs.
        worse = {parent for name in common for parent in self.commits[name].parents}
        return sorted(common - worse)


@dataclass
class MemoryWorld:
    """Everything on the simulated disk that git has to do with.

    ``leftovers`` are directories that are no worktrees (what a crash or another program left behind), by path.
    """

    repositories: dict[str, MemoryRepository] = field(default_factory=dict)
    leftovers: dict[str, Files] = field(default_factory=dict)

    def add_repository(
        self, root: str, files: Mapping[str, str], *, branch: str = "main", bare: bool = False
    ) -> MemoryRepository:
        """A repository with one commit on ``branch``, checked out at ``root`` unless it is bare."""
        repository = MemoryRepository(root, bare)
        self.repositories[root] = repository
        repository.refs[f"refs/heads/{branch}"] = first = repository.commit(files, message="first")
        if not bare:
            repository.checkout(root, first, branch)
        return repository

    def worktree(self, path: str) -> MemoryWorktree:
        """The checkout at ``path``. Raises ``KeyError`` when there is none."""
        return self.owner(path).worktrees[path]

    def owner(self, path: str) -> MemoryRepository:
        """The repository of the checkout at ``path``, or whose root it is. Raises ``KeyError``."""
        for repository in self.repositories.values():
            if path == repository.root or path in repository.worktrees:
                return repository
        raise KeyError(path)
