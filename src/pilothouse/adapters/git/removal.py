"""Removing a directory tree that hostile or careless programs have written to.

Owns: symbolic links are unlinked and never followed, read-only directories are opened first, nothing outside
the given path is touched. Blocking; callers put it on a thread. Knows nothing of git.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove ``path`` whatever it is; a missing one is no error. Raises ``OSError`` when something stays."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        # rmtree walks by directory descriptors, so a directory swapped for a link meanwhile is not followed.
        shutil.rmtree(path)
    except PermissionError:
        _open_directories(path)
        shutil.rmtree(path, onerror=_already_gone)
    except FileNotFoundError:
        # Somebody else removes it too; what is left is removed by a second pass.
        if path.exists():
            shutil.rmtree(path, onerror=_already_gone)


def remove_empty_parents(path: Path, levels: int) -> None:
    """Remove up to ``levels`` directories above ``path``, as long as they are empty."""
    for parent in list(path.parents)[:levels]:
        try:
            parent.rmdir()
        except OSError:
            return


def _open_directories(path: Path) -> None:
    """Before they are entered: one without any permission cannot even be opened to change that."""
    path.chmod(stat.S_IRWXU)
    for _, names, _, descriptor in os.fwalk(path, follow_symlinks=False, onerror=None):
        for name in names:
            if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.chmod(name, stat.S_IRWXU, dir_fd=descriptor)


def _already_gone(
    _call: Callable[..., object], _path: str, info: tuple[type[BaseException], BaseException, object]
) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]
