"""Paths that a plan or a script names must stay inside the worktree, wherever symbolic links lead.

Standard library only, because the scripted agent's process imports it.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from pilothouse.errors import BadInput


def inside(root: Path, relative: str, field: str) -> Path:
    """Where ``relative`` is below ``root``, without symbolic links; it need not exist.

    ``root`` is absolute and without symbolic links itself. Raises ``BadInput`` for a path that leads outside.
    """
    pure = PurePosixPath(relative)
    if not relative or "\0" in relative or pure.is_absolute() or ".." in pure.parts:
        raise BadInput(f"{relative!r} leads outside the worktree", field=field, fix="give a relative path without '..'")
    try:
        found = (root / pure).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: links that go in a circle, before Python 3.13
        raise BadInput(f"{relative!r} cannot be followed: {error}", field=field) from None
    if not found.is_relative_to(root):
        raise BadInput(f"{relative!r} leads outside the worktree by a symbolic link", field=field)
    return found
