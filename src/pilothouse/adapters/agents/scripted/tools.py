"""The tools of the scripted agent that run programs: a shell, and git for a commit.

Standard library only: it runs in the agent's process.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

MAX_KEPT = 16_384
"""Bytes of output that are kept, from its beginning; the rest is read and dropped."""
_LAST_WORDS_S = 0.2
"""For output of a command that has ended, where a child of it keeps the pipe open."""
_OURS = ".orchestrator"


class CommandFailed(Exception):
    """Raised when git could not do its part; the text is for people."""


def shell(command: str, cwd: Path) -> tuple[int, str]:
    """(exit status, the beginning of what it printed); whatever it leaves running is not waited for."""
    process = subprocess.Popen(
        ["sh", "-c", command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    kept = bytearray()

    def collect() -> None:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), 1 << 16):
            kept.extend(piece[: MAX_KEPT - len(kept)])

    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    status = process.wait()
    reader.join(_LAST_WORDS_S)
    return status, bytes(kept).decode(errors="replace")


def commit(root: Path, message: str) -> str:
    """Commit everything in a worktree but what is ours; answers the short hash. Raises ``CommandFailed``."""
    _git(root, "add", "--all")
    if (root / _OURS).exists():
        _git(root, "reset", "--quiet", "--", _OURS)
    _git(root, "commit", "--quiet", "--no-gpg-sign", "-m", message, env=_identity(root))
    return _git(root, "rev-parse", "--short", "HEAD").strip()


def _identity(root: Path) -> dict[str, str]:
    """A name to commit under where the user has none."""
    if "GIT_AUTHOR_EMAIL" in os.environ or _git(root, "config", "--get", "user.email", ok=(0, 1)):
        return {}
    who = {"NAME": "Pilothouse", "EMAIL": "pilothouse@localhost.invalid"}
    return {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in who.items()}


def _git(root: Path, *args: str, ok: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", *args],
        cwd=root,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode not in ok:
        raise CommandFailed(f"git {args[0]}: {done.stdout.strip()[-500:]}")
    return done.stdout
