"""How a warden comes to life: detached from whoever asked, at most one per data directory.

``main`` is what ``launch.command`` runs. It answers on its standard output, with one line, once a warden serves the
data directory, be it this one or another that was faster. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
import traceback
from pathlib import Path

from pilothouse.adapters.work.launch import READY
from pilothouse.adapters.work.places import Places, places, prepare, reachable
from pilothouse.adapters.work.warden import Warden

_TAKEOVER = 20.0
"""Seconds to wait for a predecessor and its keepers to be gone."""


def main() -> None:
    """Detach, become the only warden of the data directory, say so, serve."""
    data_dir, orphan_grace = Path(sys.argv[1]), float(sys.argv[2])
    where = places(data_dir)
    prepare(where)
    if os.fork():
        os._exit(0)  # whoever started us waits for the end of our standard output, not for us
    os.setsid()
    os.chdir("/")
    answer = os.dup(1)
    _redirect(where)
    try:
        lock = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _take(lock, where):
            listener = _listen(where)
            warden = Warden(where, listener, lock, orphan_grace)
            os.write(answer, READY)
            os.close(answer)
            warden.serve()
        else:
            os.write(answer, READY)
    except OSError as error:
        traceback.print_exc()
        os.write(answer, f"{error}\n".encode())


def serves(where: Places) -> bool:
    """Whether some warden accepts connections."""
    try:
        with reachable(where.socket) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(address)
    except OSError:
        return False
    return True


def _take(lock: int, where: Places) -> bool:
    """Wait for the lock of a predecessor that is ending. False when another warden serves."""
    deadline = time.monotonic() + _TAKEOVER
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if serves(where):
                return False
            if time.monotonic() > deadline:
                raise TimeoutError("an earlier warden is still ending its commands") from None
        time.sleep(0.005)


def _listen(where: Places) -> socket.socket:
    where.socket.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with reachable(where.socket) as address:
        listener.bind(address)
    listener.listen(64)
    return listener


def _redirect(where: Places) -> None:
    """Standard input from nowhere; what we have to say in case of a bug goes to a log that holds one life."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(where.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(log).st_size > 1 << 20:
        os.ftruncate(log, 0)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)
