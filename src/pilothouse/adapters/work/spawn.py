"""Start one command as a child of this process, clean of everything that is the starter's own.

Owns the lookup of the executable, descriptors, signals and session of the command. Changes the working directory
of the calling process, which therefore is the keeper of that one command. Standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

_ALL_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class NotStarted(Exception):
    """Raised when the command cannot be started; the text says what is missing."""


def spawn(
    argv: list[str], cwd: str, env: Mapping[str, str], descriptors: tuple[int, int, int], *, session: bool = True
) -> int:
    """Start ``argv`` in a session of its own with ``descriptors`` as its stdin, stdout, stderr; answers its pid.

    ``posix_spawn`` forks without copying the page tables, resets signals and reports a failed exec as an error of
    the call. Every other descriptor is close-on-exec already (PEP 446). Raises ``NotStarted``.
    """
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise NotStarted(f"cannot enter the directory {cwd}: {_reason(error)}") from error
    try:
        program = find_program(argv[0], env.get("PATH", os.defpath))
        return os.posix_spawn(
            program,
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(descriptors)],
            setsigmask=(),
            setsigdef=_ALL_SIGNALS,
            **({"setsid": True} if session else {"setpgroup": 0}),
        )
    except NotImplementedError:
        if not session:
            raise
        # A system without POSIX_SPAWN_SETSID: a process group of its own has to do.
        return spawn(argv, cwd, env, descriptors, session=False)
    except (OSError, ValueError) as error:
        raise NotStarted(f"cannot run {argv[0] if argv else 'nothing'}: {_reason(error)}") from error


def find_program(name: str, path: str) -> str:
    """Where ``name`` is on ``path`` (the command's own PATH, not ours). Raises ``OSError``."""
    if not name:
        raise FileNotFoundError(2, "no executable named")
    if "/" in name:
        return name
    denied = False
    for directory in path.split(os.pathsep):
        candidate = os.path.join(directory or ".", name)  # noqa: PTH118 - Path would swallow the leading "./"
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
        denied = denied or Path(candidate).is_file()
    if denied:
        raise PermissionError(13, "not executable")
    raise FileNotFoundError(2, "no such executable on PATH")


def text_as_stdin(text: str) -> int:
    """A descriptor that reads ``text`` from its beginning; it never touches a disk on Linux."""
    if not text:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if sys.platform == "linux":
        fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    else:
        path = f"/tmp/pilothouse-stdin-{os.getpid()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        Path(path).unlink()
    rest = memoryview(text.encode("utf-8", "surrogateescape"))
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def prefer_as_oom_victim(pid: int) -> None:
    """When memory runs out the command should die, not the keeper that tells of it. Best effort."""
    try:
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"200")
    except OSError:
        pass
    finally:
        os.close(fd)


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
