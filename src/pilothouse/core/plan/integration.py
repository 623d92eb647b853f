"""What git answers: the values that cross the git port. Pure data, no git here.

Commits and trees are full hexadecimal object names. Paths of files are relative to the repository root.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


def plain(name: str) -> str:
    """A file name as text that can be recorded and shown. File names are bytes: those that are no UTF-8 come with lone
    surrogates, which no JSON can hold, and any may hold control characters, which no terminal should be sent."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A repository as it stands. ``head_branch`` is None when HEAD is detached; ``head_commit`` is None
    when the branch is unborn. ``checked_out`` maps each branch that is checked out in some worktree to
    that worktree's path."""

    root: str
    common_dir: str
    bare: bool = False
    head_branch: str | None = None
    head_commit: str | None = None
    checked_out: dict[str, str] = {}


class Strategy(StrEnum):
    """How a leaf's work lands on the target branch."""

    SQUASH = "squash"
    """One commit with one parent."""
    MERGE = "merge"
    """A merge commit with two parents."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """A merge went through. ``commit`` is the result; ``moved`` is False when there was nothing to merge."""

    commit: str
    moved: bool = True


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides changed the same places. Nothing was moved or written but objects.

    ``source`` is the commit that could not be merged (of several, the first that did not fit)."""

    files: tuple[str, ...]
    source: str = ""
    detail: str = ""


class CheckedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The branch is checked out at ``path``, so it was not moved."""

    path: str


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    status: str
    """A added, M modified, D deleted, R renamed, T type changed."""
    added: int = 0
    removed: int = 0


class WorkSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What lies between two commits: the document's work summary."""

    commits: int = 0
    files_added: int = 0
    files_modified: int = 0
    files_deleted: int = 0
    changes: tuple[FileChange, ...] = ()


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The commit phase found or made a commit. ``changed`` is False when the tree is that of the baseline
    and this was allowed (``expectsNoChanges`` or an evidence file said so)."""

    commit: str
    changed: bool = True
    evidence: str = ""


class NoEvidence(msgspec.Struct, frozen=True):
    """Nothing changed, nothing was committed, and nobody said that this was to be expected."""


class Rescued(msgspec.Struct, frozen=True, kw_only=True):
    """Uncommitted (or unpinned) work was saved under ``ref``."""

    ref: str
    commit: str
