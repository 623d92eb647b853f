"""Who serves a data directory: one process, the owner, at a time.

Holds the lock and ``owner.json`` (``{pid, version, socket, url, mode}``), by which clients find it. Standard library
only, but for where the configuration lies: every verb of the command line imports this on its way to a server.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import platformdirs

from pilothouse.errors import Unavailable

_SETTINGS_BEGIN = ("PILOTHOUSE_", "COPILOT_")
_SOCKET_LIMIT = 100
"""Unix socket paths end at 108 bytes on Linux, 104 on macOS."""


@dataclass(frozen=True, slots=True)
class Owner:
    """``mode``: ``serve`` for a server somebody started, ``background`` for one a client started, which ends when
    idle and steps down for ``serve``. ``url`` is empty without HTTP. ``settings`` is the ``settings_mark`` of a
    background owner: whoever has other settings by now wants another owner."""

    pid: int
    version: str
    socket: str
    mode: str
    url: str = ""
    settings: str = ""


def settings_mark() -> str:
    """A digest of everything the settings of a server that is started here and now would be read from: two that are
    the same mean the same settings. The data directory is no part of it, for each has an owner of its own."""
    digest = hashlib.sha256()
    for name in sorted(os.environ):
        if name.startswith(_SETTINGS_BEGIN) and name != "PILOTHOUSE_DATA_DIR":
            digest.update(f"{name}={os.environ[name]}\0".encode("utf-8", "surrogateescape"))
    config = config_file()
    replies = [Path(script)] if (script := os.environ.get("PILOTHOUSE_SCRIPT")) else []
    for file in (config, config.with_name("prices.toml"), Path(".env"), *replies):
        try:
            digest.update(b"%d:" % len(text := file.read_bytes()) + text)
        except OSError:
            digest.update(b"-:")
    return digest.hexdigest()[:16]


def config_file() -> Path:
    """Where ``config.toml`` lies, or would."""
    default = platformdirs.user_config_path("pilothouse", appauthor=False) / "config.toml"
    return Path(os.environ.get("PILOTHOUSE_CONFIG", default))


def private_dir(path: Path) -> Path:
    """Make sure a directory exists that only its owner can enter. Raises ``Unavailable`` when it is somebody else's,
    or cannot be made."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"nothing can be kept in {path}: {error.strerror}") from error
    return _closed(path, path.stat())


def _closed(path: Path, found: os.stat_result) -> Path:
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise Unavailable(f"{path} belongs to another user; choose another data directory")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def socket_path(data_dir: Path) -> Path:
    """Where the owner listens: in the data directory, or where the path would be too long, in a private directory of
    a short name made from it."""
    path = data_dir / "owner.sock"
    if len(os.fsencode(path)) <= _SOCKET_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder = runtime / f"pilothouse-{os.getuid()}-{digest}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Anybody can put a link of this name into /tmp, and turn it somewhere else later.
    return _closed(folder, folder.lstat()) / "owner.sock"


def read_owner(data_dir: Path) -> Owner | None:
    """The owner that says it serves this directory, alive or not; None without one."""
    try:
        said = json.loads((data_dir / "owner.json").read_text("utf-8"))
        known = {field.name for field in fields(Owner)}  # a newer version may say more
        owner = Owner(**{name: value for name, value in dict(said).items() if name in known})
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None
    words = (owner.version, owner.socket, owner.mode, owner.url, owner.settings)
    return owner if type(owner.pid) is int and all(isinstance(word, str) for word in words) else None


def write_owner(data_dir: Path, owner: Owner) -> None:
    """Atomically."""
    fresh = data_dir / f"owner.json.{owner.pid}"
    fresh.write_text(json.dumps(asdict(owner)), "utf-8")
    fresh.replace(data_dir / "owner.json")


@contextmanager
def owning(data_dir: Path) -> Iterator[bool]:
    """Hold the data directory's lock; False when another process does. A dead process holds nothing."""
    private_dir(data_dir)
    with (data_dir / "owner.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            found = read_owner(data_dir)
            if found is not None and found.pid == os.getpid():
                (data_dir / "owner.json").unlink(missing_ok=True)
