"""The commands of a warden: the keepers it forks, what still runs, and what has ended.

Owns every process below the warden. Knows nothing of clients and owners: it tells of growth and ends through two
functions. Standard library only.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from pilothouse.adapters.work import protocol, tree
from pilothouse.adapters.work.keeper import keep
from pilothouse.adapters.work.places import Places
from pilothouse.adapters.work.protocol import ExitDict, Message, exit_dict
from pilothouse.adapters.work.spool import Spool

_HAND_OVER_WITHIN = 5.0
"""Seconds a keeper may take to read its command."""

Channel = tuple[int, socket.socket]
"""The pid of a keeper and the socket to it."""


class Job:
    """A command that runs, or whose keeper was killed and whose tree is being ended."""

    def __init__(self, key: str, pid: int, channel: socket.socket, started_at: int) -> None:
        self.key = key
        self.pid = pid
        self.channel = channel
        self.lines = protocol.Lines()
        self.started_at = started_at
        self.to = 0
        self.errors_to = 0
        self.keeper_died = False


class Jobs:
    """All of them. ``lock`` is a descriptor that keepers hold on to, so that a successor waits for them."""

    def __init__(
        self,
        where: Places,
        lock: int,
        selector: selectors.BaseSelector,
        on_growth: Callable[[str, int, int], None],
        on_end: Callable[[str, ExitDict], None],
    ) -> None:
        self._outputs = where.outputs
        self._lock = lock
        self._selector = selector
        self._on_growth = on_growth
        self._on_end = on_end
        self._spool = Spool(where.ended)
        self._keepers: set[int] = set()
        self._spare: Channel | None = None
        self._orphans = tree.Tree(spared=lambda pid: pid in self._keepers)
        self.running: dict[str, Job] = {}
        self.ended: dict[str, ExitDict] = self._spool.read_all()

    @property
    def sweeping(self) -> bool:
        """Whether a tree is being ended that has lost its keeper: ``reap`` again soon."""
        return any(job.keeper_died for job in self.running.values())

    def start(self, request: Message) -> bool:
        """Give the command to a keeper; False when its key is known already. Raises ``OSError``, ``ValueError``."""
        key: str = request["key"]
        if key in self.running or key in self.ended:
            return False
        _check(request)
        started_at = _now_ms()
        # Whatever happens from here on, the key is known: should all of us be killed, its end is "lost".
        try:
            self._spool.write(key, exit_dict("lost", error="its warden was killed", started_at=started_at))
            spare, self._spare = self._spare, None
            pid, channel = self._hand_over(request, spare)
        except OSError:
            self._spool.remove(key)
            raise
        job = self.running[key] = Job(key, pid, channel, started_at)
        self._selector.register(channel, selectors.EVENT_READ, lambda _: self._hear(job))
        return True

    def cancel(self, key: str, grace_ms: int | None) -> None:
        """Have the tree of ``key`` ended. An unknown key is no error."""
        if job := self.running.get(key):
            self._tell(job, {"reason": "canceled", "graceMs": grace_ms})

    def end_all(self, reason: str, error: str) -> None:
        """Have everything ended that runs; ``error`` tells people why."""
        for job in self.running.values():
            self._tell(job, {"reason": reason, "error": error})

    def forget(self, key: str) -> None:
        """Drop the end of ``key``. What runs is not forgotten."""
        if self.ended.pop(key, None) is not None:
            self._spool.remove(key)

    def keep_a_spare(self) -> None:
        """Fork the next keeper while nobody waits for it: the fork is a third of the time from start to exit."""
        if self._spare is None and self.running:
            try:
                self._spare = self._fork()
            except OSError:
                pass  # the next start says so

    def reap(self) -> None:
        """Collect dead keepers and wake stopped ones; end the trees of those that were killed, which fell to us as
        their subreaper."""
        try:
            for pid in tree.stopped():
                # A command can stop its keeper, which then would see neither its end nor its time limit.
                if pid in self._keepers:
                    os.kill(pid, signal.SIGCONT)
            for pid, _ in tree.reap():
                self._keepers.discard(pid)
        except ChildProcessError:
            pass
        widowed = [job for job in self.running.values() if job.keeper_died and job.pid not in self._keepers]
        if not widowed:
            return
        refused = self._orphans.kill()
        if len(self._orphans.pids()) > refused:  # those of another user (``sudo``) would keep us here for ever
            return
        for job in widowed:
            exit = exit_dict(
                "lost",
                error="its keeper was killed",
                output_to=job.to,
                started_at=job.started_at,
                ended_at=_now_ms(),
            )
            try:
                self._spool.write(job.key, exit)
            except OSError:
                pass
            self._end(job, exit)

    def _tell(self, job: Job, message: Message) -> None:
        """Say something to the keeper of ``job``."""
        if job.pid not in self._keepers:
            return
        try:
            job.channel.send(protocol.encode(message))
            # A command can stop its keeper. The number is certainly still its own: it has not been reaped.
            os.kill(job.pid, signal.SIGCONT)
        except OSError:
            pass  # it is ending already, or it was killed: both are noticed elsewhere

    def _hand_over(self, request: Message, spare: Channel | None) -> Channel:
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

    def _fork(self) -> Channel:
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
            keep(theirs, self._outputs, self._spool, parent)
        theirs.close()
        self._keepers.add(pid)
        return pid, ours

    def _hear(self, job: Job) -> None:
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
            job.to, job.errors_to = message["to"], message["errorsTo"]
            self._on_growth(job.key, job.to, job.errors_to)
        if not data:
            self._selector.unregister(job.channel)
            job.channel.close()
            job.keeper_died = True

    def _end(self, job: Job, exit: ExitDict) -> None:
        if job.channel.fileno() >= 0:
            self._selector.unregister(job.channel)
            job.channel.close()
        del self.running[job.key]
        self.ended[job.key] = exit
        self._on_end(job.key, exit)


def _check(request: Message) -> None:
    """Refuse what a keeper could only stumble over. Raises ``ValueError`` or ``TypeError``."""
    argv, env = request["argv"], request["env"]
    strings: list[Any] = [request["key"], request["cwd"], *argv, *env, *env.values()]
    if not argv or not all(isinstance(s, str) for s in strings) or any("\0" in s for s in strings):
        raise ValueError("argv, cwd and env are strings without NUL, and argv is not empty")
    for text in (request.get("stdin", ""), *request.get("redact", ())):
        text.encode("utf-8", "surrogateescape")


def _close_all_but(*kept: int) -> None:
    previous = 2
    for fd in sorted(kept):
        os.closerange(previous + 1, fd)
        previous = fd
    listing = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    os.closerange(previous + 1, max(map(int, os.listdir(listing))) + 1)  # noqa: PTH208 - only numbers are needed


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
