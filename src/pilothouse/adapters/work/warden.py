"""The warden: a small process per data directory that runs commands, each under its keeper, for an owner that may
crash, be upgraded, or be replaced.

It owns the owner epoch, the fences and its own life; the commands are ``jobs.py``'s. It deliberately knows nothing
of plans, runs and events. Standard library only and single-threaded: forking a keeper is cheap and safe that way, and
nothing is imported after the start, so that an upgrade of the files below it does not matter.

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
import time
from collections.abc import Callable

from pilothouse.adapters.work import protocol, tree
from pilothouse.adapters.work.connections import Connection, peer_uid
from pilothouse.adapters.work.jobs import Jobs
from pilothouse.adapters.work.keeper import PARENT_DIED
from pilothouse.adapters.work.places import Places
from pilothouse.adapters.work.protocol import ExitDict, Message
from pilothouse.core.run.output import output_parts
from pilothouse.errors import BadInput

_TAKEN_OVER = "a newer owner has taken over"
_STALLED = 1.0
"""Seconds by which a wait may come back late before we conclude that we were stopped."""
_SWEEP = 0.005
"""Seconds between two sweeps of a tree whose keeper was killed."""


class Refusal(Exception):
    """Raised when a request is not carried out; the code is part of the protocol."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Warden:
    """The state and the loop."""

    def __init__(self, where: Places, listener: socket.socket, lock: int, orphan_grace: float) -> None:
        self._where = where
        self._listener = listener
        self._orphan_grace = orphan_grace
        self._instance = os.urandom(8).hex()
        self._epoch = 0
        self._fences: dict[str, int] = {}
        self._connections: set[Connection] = set()
        self._heard = time.monotonic()
        self._leaving = False
        self._leave_when_idle = False
        self._selector = selectors.DefaultSelector()
        self._jobs = Jobs(where, lock, self._selector, self._on_growth, self._on_end)
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
            for event, mask in self._wait():
                handler: Callable[[int], None] = event.data
                handler(mask)
            self._jobs.reap()
            self._check_owner()
            if not self._leaving:
                self._jobs.keep_a_spare()
        for connection in list(self._connections):
            connection.close()

    def _done(self) -> bool:
        idle = not self._jobs.running
        return idle and (self._leaving or self._leave_when_idle)

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        """What there is to do. When we were stopped ourselves, the owner perhaps was too (a paused container): its
        grace begins anew."""
        patience, before = self._patience(), time.monotonic()
        events = self._selector.select(patience)
        now = time.monotonic()
        if patience is not None and now - before > patience + _STALLED:
            self._heard = now
        return events

    def _patience(self) -> float | None:
        if self._jobs.sweeping:
            return _SWEEP
        if self._leaving:
            return None
        return max(0.0, self._heard + self._orphan_grace - time.monotonic())

    def _check_owner(self) -> None:
        if self._asked_to_leave:
            self._asked_to_leave = False
            self._leave("canceled", "")
        elif not self._leaving and time.monotonic() - self._heard >= self._orphan_grace:
            self._leave("lost", "no owner")

    def _leave(self, reason: str, why: str) -> None:
        """End everything and take nothing more. An owner that was silent for too long loses its connection first."""
        self._leaving = True
        self._selector.unregister(self._listener)
        self._listener.close()
        self._where.socket.unlink(missing_ok=True)
        if reason == "lost":
            for connection in list(self._connections):
                connection.epoch = None
                connection.close_after_sending()
        self._jobs.end_all(reason, why)

    def _on_growth(self, key: str, to: int, errors_to: int) -> None:
        for connection in list(self._connections):
            connection.grew(key, to, errors_to)

    def _on_end(self, key: str, exit: ExitDict) -> None:
        for connection in list(self._connections):
            connection.ended(key, exit)

    def _on_wake(self, _: int) -> None:
        try:
            while self._wake.recv(512):
                pass
        except BlockingIOError:
            pass

    def _on_sigterm(self, *_: object) -> None:
        self._asked_to_leave = not self._leaving

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
        for name in filter(None, (request["output"], request.get("errors"))):
            output_parts(name)
        return {"known": not self._jobs.start(request)}

    def _op_attach(self, connection: Connection, request: Message) -> Message:
        key = request["key"]
        if job := self._jobs.running.get(key):
            connection.follow(key)
            return {"state": "running", "to": job.to, "errorsTo": job.errors_to}
        if exit := self._jobs.ended.get(key):
            return {"state": "ended", "exit": exit}
        return {"state": "unknown"}

    def _op_detach(self, connection: Connection, request: Message) -> Message:
        connection.unfollow(request["key"])
        return {}

    def _op_cancel(self, _: Connection, request: Message) -> Message:
        self._jobs.cancel(request["key"], request.get("graceMs"))
        return {}

    def _op_inventory(self, _: Connection, __: Message) -> Message:
        return {"instance": self._instance, "running": list(self._jobs.running), "ended": self._jobs.ended}

    def _op_forget(self, _: Connection, request: Message) -> Message:
        self._jobs.forget(request["key"])
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


def _nothing(*_: object) -> None:
    """Signals only have to wake the loop."""
