"""Finding the owner of a data directory, and starting one where there is none.

Two clients may do this at once: both start an owner, its lock lets one live, both connect to that one. Standard
library only: every verb of the command line comes by here.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

from pilothouse.client.unix import SocketConnection
from pilothouse.errors import Unavailable
from pilothouse.owner import Owner, private_dir, read_owner, settings_mark

START_PATIENCE = 60.0
"""Seconds until an owner that was started must answer."""
STEP_DOWN_PATIENCE = 10.0
_PROBE = 5.0
_POLL = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LOG_LINES = 5
GAVE_UP = "error: "
"""How an owner that cannot start begins the line that says why."""
OWNER_COMMAND = (sys.executable, "-P", "-m", "pilothouse.app", "owner")
"""Without ``-P`` modules are looked for where the client is first: a ``json.py`` of somebody's repository would be run.
"""


def find_owner(data_dir: Path, warn: Callable[[str], None]) -> Owner:
    """The owner of a data directory, which is started in the background when there is none.

    ``warn`` is told when it is of another version, or has other settings. Raises ``Unavailable``, with the reason that
    the owner's log has, when none comes to life."""
    owner = live_owner(data_dir)
    if owner is not None:
        owner = _same_version(data_dir, owner, warn)
    if owner is not None:
        owner = _same_settings(data_dir, owner, warn)
    return owner or start_owner(data_dir)


def live_owner(data_dir: Path) -> Owner | None:
    """The owner that answers there now; None without one, also while one is starting."""
    try:
        owner = read_owner(data_dir)
    except OSError:
        return None  # starting one will say what is wrong with the directory
    return owner if owner is not None and _status(owner, "GET", "/readyz") == http.client.OK else None


def _status(owner: Owner, method: str, path: str) -> int:
    """What it answers; 0 when it does not."""
    try:
        with closing(SocketConnection(owner.socket, _PROBE)) as connection:
            connection.request(method, path, headers={"Accept": "application/json"})
            return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0


def log_file(data_dir: Path) -> Path:
    """Where an owner in the background writes."""
    return data_dir / "owner.log"


def _same_version(data_dir: Path, owner: Owner, warn: Callable[[str], None]) -> Owner | None:
    """An owner of another version in the background makes room for ours; one that somebody serves stays."""
    if owner.version == version("pilothouse"):
        return owner
    what = f"the server of {data_dir} is version {owner.version}, this is {version('pilothouse')}"
    if owner.mode == "background" and _status(owner, "POST", "/api/owner/step-down") != http.client.CONFLICT:
        _await_end(data_dir, owner.pid)
        return None  # 409: it became somebody's server meanwhile
    warn(f"warning: {what}; restart `pilothouse serve`")
    return owner


def _same_settings(data_dir: Path, owner: Owner, warn: Callable[[str], None]) -> Owner | None:
    """An owner in the background that was started with other settings than a new one would have makes room for that
    one, but not while anything runs on it."""
    if owner.mode != "background" or not owner.settings or owner.settings == settings_mark():
        return owner
    if _status(owner, "POST", "/api/owner/step-down?when=idle") == http.client.ACCEPTED:
        _await_end(data_dir, owner.pid)
        return None
    warn("note: the server was started with other settings than yours; yours hold once what it runs has ended")
    return owner


def _await_end(data_dir: Path, pid: int) -> None:
    deadline = time.monotonic() + STEP_DOWN_PATIENCE
    while (owner := read_owner(data_dir)) is not None and owner.pid == pid and live_owner(data_dir) is not None:
        if time.monotonic() > deadline:
            raise Unavailable(f"an older server (process {pid}) does not make room; end it and try again")
        time.sleep(_POLL)


def start_owner(data_dir: Path) -> Owner:
    """Start an owner in the background and wait until one answers, that one or another. Raises ``Unavailable``."""
    try:
        private_dir(data_dir)
        with log_file(data_dir).open("ab") as log:
            offset = log.tell()
    except OSError as error:
        raise Unavailable(f"nothing can be kept in {data_dir}: {error.strerror or error}") from error
    deadline = time.monotonic() + START_PATIENCE
    pause = _FIRST_PAUSE
    while True:
        try:
            return _start_once(data_dir, offset, deadline)
        except _GaveWay:  # to one that is about to answer, or to one that is just ending: then the next will live
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


class _GaveWay(Exception):
    """Raised when the owner that was started ended by itself, because another one held the lock."""


def _start_once(data_dir: Path, offset: int, deadline: float) -> Owner:
    if (owner := live_owner(data_dir)) is not None:
        return owner
    with _in_background(data_dir) as process:
        while (owner := live_owner(data_dir)) is None:
            status = process.poll()
            if status is not None and status != 0:
                deadline = min(deadline, time.monotonic())  # it has said why
            if time.monotonic() >= deadline:
                raise Unavailable(_no_life(data_dir, offset))
            if status == 0:
                raise _GaveWay
            time.sleep(_POLL)
        return owner


@contextmanager
def _in_background(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An owner that outlives this process: in a session of its own, so that neither Ctrl-C nor a hang-up of this
    terminal reaches it."""
    with log_file(data_dir).open("ab") as log:
        process = subprocess.Popen(
            [*OWNER_COMMAND, "--data-dir", os.fspath(data_dir)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.returncode = 0  # nobody will wait for it, and its object must not complain of that


def _no_life(data_dir: Path, offset: int) -> str:
    """Why, as far as its log tells: first the reason that it gave, or the last it said; then where to read on."""
    log = log_file(data_dir)
    with log.open("rb") as file:
        file.seek(offset)
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
    reason = next((line.removeprefix(GAVE_UP) for line in reversed(lines) if line.startswith(GAVE_UP)), "")
    said = reason or "; ".join(lines[-_LOG_LINES:])
    return f"{said} (no server came to life; its log is {log})" if said else f"no server came to life (log: {log})"
