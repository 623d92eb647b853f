"""Orphaned worktree directories: three levels below a root, neither registered with git nor tracked by a plan.

Owns the document's safety rules: keep what any repository still registers, go on after a failure, follow no
link, and touch nothing outside the root. Blocking; the adapter puts it on a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pilothouse.adapters.git import layout
from pilothouse.adapters.git.removal import remove_empty_parents, remove_tree

REMOVED = "removed"


def sweep(common_dir: str, root: str, tracked: frozenset[str]) -> dict[str, str]:
    """``tracked`` names worktrees by absolute path, or by path below ``root``."""
    top = Path(os.path.realpath(root))
    kept = {os.path.realpath(top / name) for name in tracked}
    kept |= {os.path.realpath(tree) for tree, _ in layout.registered(common_dir)}
    outcome: dict[str, str] = {}
    for node in _folders(_folders((top,), outcome), outcome):
        for attempt in _entries(node, outcome):
            # The link itself, not what it points at, is what may be tracked or removed.
            place = node / attempt.name
            if str(place) in kept or (layout.is_registered(place) and not place.is_symlink()):
                continue
            if not place.is_symlink() and not place.is_dir():
                continue
            try:
                remove_tree(place)
                outcome[str(place)] = REMOVED
                remove_empty_parents(place, 2)
            except OSError as failed:
                outcome[str(place)] = failed.strerror or str(failed)
    return outcome


def _folders(parents: Iterator[Path] | tuple[Path, ...], outcome: dict[str, str]) -> Iterator[Path]:
    """Real directories one level down; a link there may be the user's way to another disk, and stays."""
    for parent in parents:
        for entry in _entries(parent, outcome):
            if not entry.is_symlink() and entry.is_dir():
                yield entry


def _entries(folder: Path, outcome: dict[str, str]) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as failed:
        outcome[str(folder)] = failed.strerror or str(failed)
        return []
