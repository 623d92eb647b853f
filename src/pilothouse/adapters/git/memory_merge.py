"""Three-way merges of whole files: the twin's stand-in for git's line merge. Pure.

A path conflicts when both sides changed it since the merge base, and not to the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pilothouse.adapters.git.memory_world import MemoryRepository


class FileMerge(NamedTuple):
    """The merged files, and the paths that conflict (where ``ours`` was kept)."""

    files: dict[str, str]
    conflicts: tuple[str, ...]


def merge_files(base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> FileMerge:
    merged: dict[str, str] = {}
    conflicts: list[str] = []
    for path in sorted({*base, *ours, *theirs}):
        was, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if mine != was and other != was and mine != other:
            conflicts.append(path)
        kept = other if mine == was else mine
        if kept is not None:
            merged[path] = kept
    return FileMerge(merged, tuple(conflicts))


def merge_commits(repository: MemoryRepository, ours: str, theirs: str) -> FileMerge | None:
    """Merge two commits over their merge base; None when they have nothing in common."""
    bases = repository.merge_bases(ours, theirs)
    if not bases:
        return None
    commits = repository.commits
    return merge_files(_base_files(repository, bases), commits[ours].files, commits[theirs].files)


def _base_files(repository: MemoryRepository, bases: list[str]) -> Mapping[str, str]:
    """Several bases are merged into one first, as git does; what conflicts there keeps the first's text."""
    files: Mapping[str, str] = repository.commits[bases[0]].files
    for other in bases[1:]:
        common = repository.merge_bases(bases[0], other)
        older = repository.commits[common[0]].files if common else {}
        files = merge_files(older, files, repository.commits[other].files).files
    return files
