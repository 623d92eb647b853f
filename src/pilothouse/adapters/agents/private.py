"""The private files of agents: one directory per node, outside every worktree, for as long as its plan exists.

Owns the layout below ``<root>/<plan>/<node>/``: conversations and settings of an agent lie in ``state``, so that the
next attempt finds them; reports and the answers it was given in ``runs/<run>``; what a sandbox needs of its own in
``sandboxes/<run>``. These lie beside each other, because an agent may write its state: it must not be able to prepare
the directories of later runs, into which we write and which their sandboxes show. The root is closed to everybody else.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from pilothouse.errors import BadInput

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")
ANSWERS = "answers"
LAUNCHED = "launched.json"
MAX_REPORT = 16 << 20
"""Bytes of a file that an agent left for us."""


class PrivateFiles:
    """``root`` need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def node(self, plan_id: str, node_id: str) -> Path:
        return self.root / _name(plan_id) / _name(node_id)

    def run(self, plan_id: str, node_id: str, output: str) -> Path:
        """``output`` is what the attempt output of the run is called."""
        own = [part for part in output.split("/") if part not in (plan_id, node_id)]
        return self.node(plan_id, node_id) / "runs" / (_NOT_IN_NAME.sub("-", "-".join(own)).strip(".-") or "run")

    def sandbox(self, plan_id: str, node_id: str, output: str) -> Path:
        """``output`` as in ``run``. It need not exist."""
        return self.node(plan_id, node_id) / "sandboxes" / self.run(plan_id, node_id, output).name

    def prepare(self, plan_id: str, node_id: str, output: str) -> tuple[Path, Path]:
        """Make the directories of a node's state and of a run; answers both. Idempotent."""
        state, run = self.node(plan_id, node_id) / "state", self.run(plan_id, node_id, output)
        private_directory(self.root)
        private_directory(state)
        private_directory(run / ANSWERS)
        return state, run

    def scratch(self, name: str) -> Path:
        """A directory for what belongs to no plan."""
        private_directory(self.root)
        place = self.root / f".{_name(name)}"
        private_directory(place)
        return place

    def answer(self, run: Path, request_id: str, *, allowed: bool, remember: bool) -> None:
        """Leave an answer where the agent's run looks for it. The first one counts; a run that is gone is no error.

        Raises ``BadInput`` for a request no agent can have made.
        """
        if not _NAME.fullmatch(request_id):
            raise BadInput(f"{request_id!r} is not the id of a request", field="requestId")
        place = run / ANSWERS / f"{request_id}.json"
        with contextlib.suppress(FileNotFoundError):
            _write(place, json.dumps({"allowed": allowed, "remember": remember}), replace=False)

    def remember(self, run: Path, launched: bytes) -> None:
        """What the agent of a run was launched with; holds no secrets."""
        _write(run / LAUNCHED, launched.decode(), replace=True)

    def recall(self, run: Path) -> bytes:
        """What ``remember`` was given; empty when there is nothing."""
        try:
            return left_behind(run / LAUNCHED)
        except OSError:
            return b""

    def forget(self, plan_id: str) -> None:
        """Remove everything of a plan. Idempotent."""
        place = self.root / _name(plan_id)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
            if place.exists():
                # Tools make read-only directories (Go's module cache is one), whose content cannot be removed.
                for directory, _, _ in os.walk(place):
                    Path(directory).chmod(0o700)
                shutil.rmtree(place)


def left_behind(path: Path, most: int = MAX_REPORT) -> bytes:
    """A file of at most ``most`` bytes, where an agent may write. Raises ``OSError``, also for what is none: at a named
    pipe, which it could be as well, we would wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise OSError(errno.EINVAL, "not a small file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def private_directory(path: Path) -> None:
    """Make it, for this user alone. Raises ``OSError``."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _name(text: str) -> str:
    """Ids are ours, but they come through files and the wire, and become paths here."""
    if not _NAME.fullmatch(text):
        raise BadInput(f"{text!r} is not an id")
    return text


def _write(place: Path, text: str, *, replace: bool) -> None:
    """Whole or not at all, and on the disk when this returns. Without ``replace`` what is there already stays."""
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        if replace:
            Path(name).replace(place)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(name, place)
    finally:
        Path(name).unlink(missing_ok=True)
