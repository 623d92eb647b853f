"""A secret of the server itself: random bytes in a file that only its owner can read, made when first asked for."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from pilothouse.errors import Unavailable


def kept_secret(path: Path, size: int) -> bytes:
    """The ``size`` bytes that ``path`` holds, by now: of several who make it at once, all get the same. Blocks. Raises
    ``Unavailable``."""
    try:
        found = _read(path)
        if found is None:
            _make(path, size)
            found = _read(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be used: {error.strerror}") from error
    if found is None or len(found) != size:
        raise Unavailable(f"{path} is damaged: remove it, and start the server again")
    return found


def _read(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as opened:
        kept = os.fstat(file)
        if kept.st_uid != os.getuid():
            raise Unavailable(f"{path} belongs to another user")
        if stat.S_IMODE(kept.st_mode) & 0o077:
            raise Unavailable(f"{path} could be read by others: remove it, and start the server again")
        return opened.read(1 << 10)


def _make(path: Path, size: int) -> None:
    """Whole or not at all, and never in the place of another."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of mode 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(secrets.token_bytes(size))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
