"""Finding the owner of a data directory, and starting one where there is none.

Two terminals may do this at once: both start an owner, its lock lets one live, both connect to that one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from pilothouse.errors import PilothouseError, Refused, Unavailable
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.door import note
from pilothouse.owner import private_dir, read_owner

START_PATIENCE = 20.0
"""Seconds until an owner that was started must answer."""
STEP_DOWN_PATIENCE = 10.0
_POLL = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LOG_LINES = 5
OWNER_COMMAND = (sys.executable, "-m", "pilothouse.app", "owner")


def connect(data_dir: Path | None) -> Client:
    """A client of the owner of a data directory, which is started in the background when there is none.

    Raises ``Unavailable``, quoting the end of the owner's log, when none comes to life.
    """
    assert data_dir is not None, "verbs are always handed a directory"
    client = live_owner(data_dir)
    if client is not None:
        client = _same_version(data_dir, client)
    return client or start_owner(data_dir)


def live_owner(data_dir: Path) -> Client | None:
    """A client of the owner that answers there now; None without one, also while one is starting."""
    try:
        owner = read_owner(data_dir)
    except OSError:
        return None  # starting one will say what is wrong with the directory
    if owner is None:
        return None
    client = Client(owner.socket, log=str(log_file(data_dir)))
    try:
        client.get("/readyz", timeout=5.0)
    except PilothouseError:
        return None
    return client


def log_file(data_dir: Path) -> Path:
    """Where an owner in the background writes."""
    return data_dir / "owner.log"


def _same_version(data_dir: Path, client: Client) -> Client | None:
    """An owner of another version in the background makes room for ours; one that somebody serves stays."""
    owner = read_owner(data_dir)
    if owner is None or owner.version == version("pilothouse"):
        return client
    what = f"the server of {data_dir} is version {owner.version}, this is {version('pilothouse')}"
    if owner.mode == "background":
        try:
            client.post("/api/owner/step-down")
        except Refused:
            pass  # it became somebody's server meanwhile
        else:
            _await_end(data_dir, owner.pid)
            return None
    note(f"warning: {what}; restart `pilothouse serve`")
    return client


def _await_end(data_dir: Path, pid: int) -> None:
    deadline = time.monotonic() + STEP_DOWN_PATIENCE
    while (owner := read_owner(data_dir)) is not None and owner.pid == pid and live_owner(data_dir) is not None:
        if time.monotonic() > deadline:
            raise Unavailable(f"an older server (process {pid}) does not make room; end it and try again")
        time.sleep(_POLL)


def start_owner(data_dir: Path) -> Client:
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


def _start_once(data_dir: Path, offset: int, deadline: float) -> Client:
    if (client := live_owner(data_dir)) is not None:
        return client
    with _in_background(data_dir) as process:
        while (client := live_owner(data_dir)) is None:
            status = process.poll()
            if status is not None and status != 0:
                deadline = min(deadline, time.monotonic())  # it has said why
            if time.monotonic() >= deadline:
                raise Unavailable(_no_life(data_dir, offset))
            if status == 0:
                raise _GaveWay
            time.sleep(_POLL)
        return client


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
    log = log_file(data_dir)
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = "; ".join([line.strip() for line in lines if line.strip()][-_LOG_LINES:])
    return f"no server came to life (log: {log})" + (f": {said}" if said else "")
