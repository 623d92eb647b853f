"""A repository, a data directory with the worktree of a node, a home with a secret, and commands confined there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pilothouse.adapters.work.sandbox.wrap import Sandboxed, sandboxed
from pilothouse.core.plan.spec import SandboxSpec

SECRET = "correct-horse-battery-staple"
WITHIN = 30.0


class Setting:
    """Everything below one directory. ``env`` is what a command would get without a sandbox."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.data_dir = base / "data"
        self.repo = base / "repo"
        self.worktree = self.data_dir / "worktrees" / "ours"
        self.private = self.data_dir / "private" / "ours"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        for folder in (self.home, self.worktree.parent):
            folder.mkdir(parents=True)
        (self.home / "secret").write_text(SECRET)
        (self.data_dir / "log.db").write_text(SECRET)
        self.git("init", "--quiet", "--initial-branch=main", str(self.repo), cwd=base)
        (self.repo / "file").write_text("first\n")
        self.git("add", "file")
        self.git("commit", "--quiet", "--message=first")
        for name in ("ours", "theirs"):
            self.git("worktree", "add", "--quiet", "--detach", str(self.worktree.with_name(name)))
        self.admin = self.repo / ".git" / "worktrees" / "ours"

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Outside of any sandbox."""
        identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost.invalid")
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=cwd or self.repo, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def wrap(
        self,
        argv: Sequence[str],
        *,
        addresses: Sequence[str] = (),
        writable_too: Sequence[Path] = (),
        **spec: Any,
    ) -> Sandboxed:
        """``writable_too``: what the caller adds to what the plan declares."""
        return sandboxed(
            argv,
            self.env,
            spec=SandboxSpec(**spec),
            worktree=self.worktree,
            private=self.private,
            data_dir=self.data_dir,
            writable=writable_too,
            addresses=addresses,
        )

    def run(
        self, script: str, *, addresses: Sequence[str] = (), stdin: str = "", **spec: Any
    ) -> subprocess.CompletedProcess[str]:
        """A shell script, confined; the fields of ``spec`` are those of ``SandboxSpec``."""
        wrapped = self.wrap(("sh", "-c", script), addresses=addresses, **spec)
        return subprocess.run(
            wrapped.argv,
            env=wrapped.env,
            cwd=self.worktree,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
