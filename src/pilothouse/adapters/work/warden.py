"""The warden: a small process per data directory that runs commands, each under its keeper, for an owner that may
crash, be upgraded, or be replaced.

It owns what runs and what has ended, the owner epoch and the fences. It deliberately knows nothing of plans, runs
and events. Standard library only and single-threaded: forking a keeper is cheap and safe that way, and nothing is
imported after the start, so that an upgrade of the files below it does not matter.

Three rules end it. An owner asks (``shutdown``, SIGTERM). Nobody with the current epoch has said anything for
``orphan_grace``: everything is ended as *lost*. And as it goes, the owner that still holds a connection loses it
first, so a stalled owner that wakes up cannot start anything in a warden that is leaving.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from pilothouse.adapters.work import protocol, tree
from pilothouse.adapters.work.connections import Connection, peer_uid
from pilothouse.adapters.work.keeper import PARENT_DIED, keep
from pilothouse.adapters.work.places import Places
from pilothouse.adapters.work.protocol import ExitDict, Message, exit_dict
from pilothouse.adapters.work.spool import Spool
from pilothouse.core.run.output import output_parts
from pilothouse.errors import BadInput

_TAKEN_OVER = "a newer owner has taken over"
_HAND_OVER_WITHIN = 5.0
_SWEEP = 0.005
"""Seconds between two sweeps of a tree whose keeper was killed."""


class Refusal(Exception):
    """Raised when a request is not carried out; the code is part of the protocol."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Job:
    """A command that runs, or whose keeper died and whose tree is being ended."""

    def __init__(self, key: str, pid: int, channel: socket.socket, started_at: int) -> None:
        self.key = key
        self.pid = pid
        self.channel = channel
        self.lines = protocol.Lines()
        self.started_at = started_at
        self.to = 0
        self.keeper_died = False


class Warden:
    """The state and the loop."""

    def __init__(self, where: Places, listener: socket.socket, lock: int, orphan_grace: float) -> None:
        self._where = where
        self._listener = listener
        self._lock = lock
        self._orphan_grace = orphan_grace
        self._spool = Spool(where.ended)
        self._instance = os.urandom(8).hex()
        self._epoch = 0
        self._fences: dict[str, int] = {}
        self._jobs: dict[str, Job] = {}
        self._ended: dict[str, ExitDict] = self._spool.read_all()
        self._keepers: set[int] = set()
        self._spare: tuple[int, socket.socket] | None = None
        self._connections: set[Connection] = set()
        self._orphans = tree.Tree(spared=lambda pid: pid in self._keepers)
        self._heard = time.monotonic()
        self._leaving = False
        self._leave_when_idle = False
        self._selector = selectors.DefaultSelector()
        self._wake, self._wake_writer = socket.socketpair()
        self._wake.setblocking(False)
        self._wake_writer.setblocking(False)
        self._asked_to_leave = False

    def serve(self) -> None:
        """Run until there is nothing left to do and nobody to do it for."""
        tree.become_subreaper()
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(PARENT_DIED, _nothing)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, self._on_wake)
        gc.freeze()
        while not self._done():
            for event, mask in self._selector.select(self._patience()):
                handler: Callable[[int], None] = event.data
                handler(mask)
            self._reap()
            self._check_owner()
            self._keep_a_spare()
        for connection in list(self._connections):
            connection.close()

    def _done(self) -> bool:
        idle = not self._jobs
        return idle and (self._leaving or self._leave_when_idle)

    def _patience(self) -> float | None:
        if any(job.keeper_died for job in self._jobs.values()):
            return _SWEEP
        if self._leaving:
            return None
        return max(0.0, self._heard + self._orphan_grace - time.monotonic())

    def _check_owner(self) -> None:
        if self._asked_to_leave:
            self._asked_to_leave = False
            self._leave("canceled")
        elif not self._leaving and time.monotonic() - self._heard >= self._orphan_grace:
            self._leave("lost")

    def _leave(self, reason: str) -> None:
        """End everything and take nothing more. An owner that was silent for too long loses its connection first."""
        self._leaving = True
        self._selector.unregister(self._listener)
        self._listener.close()
        self._where.socket.unlink(missing_ok=True)
        if reason == "lost":
            for connection in list(self._connections):
                connection.epoch = None
                connection.close_after_sending()
        for job in self._jobs.values():
            _tell_keeper(job, {"reason": reason})

    # Keepers and what is left of them

    def _start(self, request: Message) -> bool:
        """Give the command to a keeper; False when its key is known already."""
        key = request["key"]
        if key in self._jobs or key in self._ended:
            return False
        started_at = time.time_ns() // 1_000_000
        # Whatever happens from here on, the key is known: should all of us be killed, its end is "lost".
        self._spool.write(key, exit_dict("lost", error="its warden was killed", started_at=started_at))
        spare, self._spare = self._spare, None
        try:
            pid, channel = self._hand_over(request, spare)
        except OSError:
            self._spool.remove(key)
            raise
        job = Job(key, pid, channel, started_at)
        self._jobs[key] = job
        self._selector.register(channel, selectors.EVENT_READ, lambda _: self._hear_keeper(job))
        return True

    def _hand_over(self, request: Message, spare: tuple[int, socket.socket] | None) -> tuple[int, socket.socket]:
        """Give the command to the keeper that waits for one, or to a new one should that be dead."""
        command = protocol.encode(request)
        while True:
            pid, channel = spare or self._fork()
            try:
                channel.settimeout(_HAND_OVER_WITHIN)
                channel.sendall(command)
                channel.setblocking(False)
                return pid, channel
            except OSError:
                channel.close()
                if spare is None:
                    raise
                spare = None

    def _fork(self) -> tuple[int, socket.socket]:
        """A new keeper that waits for its command."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            signal.set_wakeup_fd(-1)
            _close_all_but(theirs.fileno(), self._lock)
            keep(theirs, self._where.outputs, self._spool, parent)
        theirs.close()
        self._keepers.add(pid)
        return pid, ours

    def _keep_a_spare(self) -> None:
        """Fork the next keeper while nobody waits for it: half of the time from start to exit was the fork."""
        if self._spare is None and self._jobs and not self._leaving:
            try:
                self._spare = self._fork()
            except OSError:
                pass  # the next start says so

    def _hear_keeper(self, job: Job) -> None:
        try:
            data = job.channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for message in job.lines.feed(data):
            if "exit" in message:
                self._end(job, message["exit"])
                return
            job.to = message["to"]
            for connection in self._connections:
                connection.grew(job.key, job.to)
        if not data:
            self._selector.unregister(job.channel)
            job.channel.close()
            job.keeper_died = True

    def _end(self, job: Job, exit: ExitDict) -> None:
        if job.channel.fileno() >= 0:
            self._selector.unregister(job.channel)
            job.channel.close()
        del self._jobs[job.key]
        self._ended[job.key] = exit
        for connection in list(self._connections):
            connection.ended(job.key, exit)

    def _reap(self) -> None:
        """Collect dead keepers; end the trees of those that were killed, which fell to us as their subreaper."""
        try:
            for pid, _ in tree.reap():
                self._keepers.discard(pid)
        except ChildProcessError:
            pass
        widowed = [job for job in self._jobs.values() if job.keeper_died and job.pid not in self._keepers]
        if not widowed:
            return
        self._orphans.kill()
        if self._orphans.pids():
            return
        for job in widowed:
            exit = exit_dict(
                "lost",
                error="its keeper was killed",
                output_to=job.to,
                started_at=job.started_at,
                ended_at=time.time_ns() // 1_000_000,
            )
            try:
                self._spool.write(job.key, exit)
            except OSError:
                pass
            self._end(job, exit)

    def _on_wake(self, _: int) -> None:
        try:
            while self._wake.recv(512):
                pass
        except BlockingIOError:
            pass

    def _on_sigterm(self, *_: object) -> None:
        self._asked_to_leave = not self._leaving

    # Clients

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return
        if peer_uid(sock) != os.getuid():
            sock.close()
            return
        self._connections.add(Connection(sock, self._selector, self._on_request, self._connections.discard))

    def _on_request(self, connection: Connection, request: Message) -> None:
        answer: Message = {"re": request.get("id"), "ok": True}
        try:
            answer |= self._carry_out(connection, request)
        except Refusal as refusal:
            answer |= {"ok": False, "error": refusal.code, "message": str(refusal)}
        except (KeyError, TypeError, ValueError, AttributeError, BadInput) as error:
            answer |= {"ok": False, "error": protocol.BAD_REQUEST, "message": f"{type(error).__name__}: {error}"}
        except OSError as error:
            answer |= {"ok": False, "error": protocol.FAILED, "message": f"the system refused: {error}"}
        if "id" in request:
            connection.send(answer)
        if answer.get("error") in (protocol.STALE_EPOCH, protocol.WRONG_VERSION):
            connection.close_after_sending()

    def _carry_out(self, connection: Connection, request: Message) -> Message:
        op = request.get("op")
        if op == "hello":
            return self._hello(connection, request)
        if connection.epoch is None:
            raise Refusal(protocol.BAD_REQUEST, "hello comes first")
        if connection.epoch < self._epoch:
            raise Refusal(protocol.STALE_EPOCH, _TAKEN_OVER)
        self._heard = time.monotonic()
        handler = _HANDLERS.get(str(op))
        if handler is None:
            raise Refusal(protocol.BAD_REQUEST, f"unknown request {op!r}")
        return handler(self, connection, request)

    def _hello(self, connection: Connection, request: Message) -> Message:
        if request.get("version") != protocol.VERSION:
            raise Refusal(protocol.WRONG_VERSION, f"this warden speaks version {protocol.VERSION}")
        epoch = int(request["epoch"])
        if epoch < self._epoch:
            raise Refusal(protocol.STALE_EPOCH, _TAKEN_OVER)
        if epoch > self._epoch:
            for other in list(self._connections - {connection}):
                self._fence(other)
        self._epoch = connection.epoch = epoch
        self._heard = time.monotonic()
        self._leave_when_idle = False
        if (grace := request.get("orphanGraceMs")) is not None:
            self._orphan_grace = int(grace) / 1000
        return {"version": protocol.VERSION, "instance": self._instance, "pid": os.getpid()}

    def _fence(self, connection: Connection) -> None:
        connection.epoch = None
        connection.send({"ev": "fenced", "message": _TAKEN_OVER})
        connection.close_after_sending()

    def _op_ping(self, _: Connection, __: Message) -> Message:
        return {}

    def _op_open(self, _: Connection, request: Message) -> Message:
        attempt, fence = str(request["attempt"]), int(request["fence"])
        if fence < self._fences.get(attempt, fence):
            raise Refusal(protocol.STALE_FENCE, f"attempt {attempt} has a newer fence")
        self._fences[attempt] = fence
        return {"instance": self._instance}

    def _op_start(self, _: Connection, request: Message) -> Message:
        if self._leaving:
            raise Refusal(protocol.ENDING, "the warden is ending")
        output_parts(request["output"])
        _check_command(request)
        return {"known": not self._start(request)}

    def _op_attach(self, connection: Connection, request: Message) -> Message:
        key = request["key"]
        if job := self._jobs.get(key):
            connection.follow(key)
            return {"state": "running", "to": job.to}
        if exit := self._ended.get(key):
            return {"state": "ended", "exit": exit}
        return {"state": "unknown"}

    def _op_detach(self, connection: Connection, request: Message) -> Message:
        connection.unfollow(request["key"])
        return {}

    def _op_cancel(self, _: Connection, request: Message) -> Message:
        if job := self._jobs.get(request["key"]):
            _tell_keeper(job, {"reason": "canceled", "graceMs": request.get("graceMs")})
        return {}

    def _op_inventory(self, _: Connection, __: Message) -> Message:
        return {"instance": self._instance, "running": list(self._jobs), "ended": self._ended}

    def _op_forget(self, _: Connection, request: Message) -> Message:
        if self._ended.pop(request["key"], None) is not None:
            self._spool.remove(request["key"])
        return {}

    def _op_shutdown(self, _: Connection, request: Message) -> Message:
        if request["when"] == "idle":
            self._leave_when_idle = True
        elif not self._leaving:
            self._asked_to_leave = True
        return {}


_HANDLERS: dict[str, Callable[[Warden, Connection, Message], Message]] = {
    name.removeprefix("_op_"): function for name, function in vars(Warden).items() if name.startswith("_op_")
}


def _check_command(request: Message) -> None:
    """Refuse what a keeper could only stumble over. Raises ``ValueError`` or ``TypeError``."""
    argv, env = request["argv"], request["env"]
    strings: list[Any] = [request["key"], request["cwd"], *argv, *env, *env.values()]
    if not argv or not all(isinstance(s, str) for s in strings) or any("\0" in s for s in strings):
        raise ValueError("argv, cwd and env are strings without NUL, and argv is not empty")


def _tell_keeper(job: Job, message: Message) -> None:
    try:
        job.channel.send(protocol.encode(message))
    except OSError:
        pass  # it is ending already, or it was killed: both are noticed elsewhere


def _close_all_but(*kept: int) -> None:
    previous = 2
    for fd in sorted(kept):
        os.closerange(previous + 1, fd)
        previous = fd
    listing = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    os.closerange(previous + 1, max(map(int, os.listdir(listing))) + 1)  # noqa: PTH208 - only numbers are needed


def _nothing(*_: object) -> None:
    """Signals only have to wake the loop."""
