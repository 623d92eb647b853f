"""Where the warden of a data directory keeps its things, and where its socket is.

Standard library only; used by the warden and by its clients. Knows paths and modes, no contents.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_SOCKET_LIMIT = 100
"""Bytes. The kernel allows 108 on Linux and 104 on macOS, the terminating NUL included."""


class Places(NamedTuple):
    """The files of one warden. Everything but the outputs lies in a directory of mode 0700."""

    outputs: Path
    ended: Path
    lock: Path
    """Held by the warden and by each of its keepers, so that a successor starts when all of them are gone."""
    log: Path
    socket: Path


def places(data_dir: Path) -> Places:
    """The places of a data directory, by name alone; ``prepare`` makes them."""
    data_dir = data_dir.absolute()
    work = data_dir / "work"
    return Places(
        outputs=data_dir / "output",
        ended=work / "ended",
        lock=work / "warden.lock",
        log=work / "warden.log",
        socket=_socket(work, data_dir),
    )


def prepare(where: Places) -> None:
    """Create the directories. Raises ``PermissionError`` when one belongs to somebody else or is open to others."""
    where.outputs.parent.mkdir(parents=True, exist_ok=True)
    where.outputs.mkdir(mode=0o700, exist_ok=True)
    where.lock.parent.mkdir(mode=0o700, exist_ok=True)
    where.lock.parent.chmod(0o700)
    where.ended.mkdir(mode=0o700, exist_ok=True)
    where.socket.parent.mkdir(mode=0o700, exist_ok=True)
    check_private(where.socket.parent)


def check_private(directory: Path) -> None:
    """Raise ``PermissionError`` unless ``directory`` is a real one, ours, and closed to everybody else."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} is not a private directory of this user")


@contextmanager
def reachable(socket: Path) -> Iterator[str]:
    """A name for ``socket`` that fits into a socket address, as long as the context lasts."""
    if len(os.fsencode(socket)) <= _SOCKET_LIMIT:
        yield str(socket)
        return
    directory = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{socket.name}"
    finally:
        os.close(directory)


def _socket(work: Path, data_dir: Path) -> Path:
    direct = work / "warden.sock"
    if len(os.fsencode(direct)) <= _SOCKET_LIMIT or sys.platform == "linux":
        return direct
    # Without /proc a long path cannot be abbreviated. /tmp and not $XDG_RUNTIME_DIR or $TMPDIR: every client has
    # to arrive at the same name, also one started by cron.
    name = hashlib.sha256(f"{os.getuid()}:".encode() + os.fsencode(data_dir)).hexdigest()[:16]
    return Path("/tmp") / f"pilothouse-{name}" / "warden.sock"
