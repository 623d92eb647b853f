"""The lock files of a worktree that were there before us: whose they are, and how long they are waited for.

A git of a dead owner, or of the node's killed tree, may still be writing, and a large ``git add`` takes minutes: a lock
is removed only when nothing that runs can be its holder. Where there is no /proc, age alone decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from pilothouse.errors import GitFailed

_log = logging.getLogger(__name__)

_UNHELD_SECONDS = 3.0
"""How long a lock stands that nobody seems to hold."""
_HELD_SECONDS = 600.0
_PAUSE_SECONDS = 0.02
_LOOK_SECONDS = 0.5
"""Between two looks at all processes."""
_PROC = Path("/proc")


async def await_locks(path: str, admin: Path) -> None:
    """Wait until index and HEAD of a worktree are free. Raises ``GitFailed`` when a live process keeps them."""
    waited, unheld, looked = 0.0, 0.0, -_LOOK_SECONDS
    holder: int | None = None
    while locks := [lock for lock in (admin / "index.lock", admin / "HEAD.lock") if lock.exists()]:
        if waited - looked >= _LOOK_SECONDS or unheld >= _UNHELD_SECONDS:
            looked, holder = waited, await asyncio.to_thread(_holder, path, locks)
        if holder is None and unheld >= _UNHELD_SECONDS:
            for lock in locks:
                _log.warning("git.stale_lock path=%s", lock)
                lock.unlink(missing_ok=True)
            return
        if holder is not None and waited >= _HELD_SECONDS:
            raise GitFailed(["commit"], 1, f"process {holder} has kept {locks[0]} for {waited:.0f} s")
        unheld = 0.0 if holder is not None else unheld + _PAUSE_SECONDS
        await asyncio.sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS


def _holder(path: str, locks: list[Path]) -> int | None:
    """A process that has a lock open, or a git at work in the worktree: one that is about to commit has closed it."""
    held = {os.path.realpath(lock) for lock in locks}
    top = os.path.realpath(path)
    try:
        processes = [entry for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return None
    for process in processes:
        try:
            is_git = (process / "comm").read_bytes().startswith(b"git")
            if is_git and f"{(process / 'cwd').readlink()}/".startswith(f"{top}/"):
                return int(process.name)
            if any(_leads_to(fd, held) for fd in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's
    return None


def _leads_to(link: Path, targets: set[str]) -> bool:
    try:
        return str(link.readlink()) in targets
    except OSError:
        return False  # closed meanwhile
