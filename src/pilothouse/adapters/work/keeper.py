"""The keeper: a process of its own per command, forked from the warden, that ends the command's whole tree for
certain and only then reports its end.

It owns the command's process tree, its output and its status file. It deliberately knows nothing of clients,
epochs and other commands. Standard library only, one thread.

How a command ends, whatever the cause::

    running ──main process ended, tree empty──────────────────────────────▶ report
       │ └────main process ended, something is left──▶ terminating ──empty──▶ report
       └──────timeout, cancel, warden gone───────────▶ terminating
                                      after the grace:  terminating ──▶ killing ──empty──▶ report

The cause that comes first is the reason that is reported.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from pilothouse.adapters.work import protocol, spawn, tree
from pilothouse.adapters.work.capture import Capture
from pilothouse.adapters.work.protocol import ExitDict, Message, exit_dict
from pilothouse.adapters.work.spool import Spool
from pilothouse.core.run.output import Redactor

PARENT_DIED = signal.SIGUSR1
_GROWTH_INTERVAL = 0.05
_FIRST_SWEEP = 0.002
_LAST_SWEEP = 0.05
_WARDEN_KILLED = "its warden was killed"
_UNTOUCHABLE_AFTER = 5.0
"""Seconds of sweeps that only met processes of another user (``sudo``), after which we give up on these."""


def keep(channel: socket.socket, outputs: Path, spool: Spool, warden: int) -> NoReturn:
    """The life of a keeper; called in the fresh fork and never returns.

    ``warden`` is the pid of the parent as it was before the fork, ``channel`` leads to it: the first line that comes
    is the command, the next ones ask for its end. Forked ahead of time, a keeper waits for its command ready to go.
    """
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # to end a command is the warden's to say
        tree.signal_on_parent_death(PARENT_DIED)
        tree.become_subreaper()
        Keeper(channel, outputs, spool, warden).run()
        status = 0
    except BaseException:
        traceback.print_exc()  # into the warden's log; the warden sees the channel close and ends the tree
    finally:
        os._exit(status)


class Keeper:
    """One command, from its start to the report of its end."""

    def __init__(self, channel: socket.socket, outputs: Path, spool: Spool, warden: int) -> None:
        self._channel = channel
        self._outputs = outputs
        self._spool = spool
        self._warden = warden
        self._lines = protocol.Lines()
        self._tree = tree.Tree()
        self._poll = select.poll()
        self._wake, wake_writer = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_writer, False)
        # A handler that does not raise would not interrupt a wait (PEP 475); a byte in a pipe does.
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        for fd in (self._wake, self._channel.fileno()):
            self._poll.register(fd, select.POLLIN)
        self._streams: list[Capture] = []
        """What the command prints; then, if they are kept apart, its errors."""
        self._main = 0
        self._status: int | None = None
        self._reason = ""
        self._error = ""
        self._empty = False
        self._killing = False
        self._sweep = _FIRST_SWEEP
        self._untouchable_since: float | None = None
        self._deadline: float | None = None
        self._timeout: float | None = None
        self._tell_at: float | None = None
        self._last_told = 0.0

    def run(self) -> None:
        """Wait for the command, start it, follow it, and report. Ends at once when no command ever comes."""
        requests: list[Message] = []
        while not requests:
            data = self._channel.recv(1 << 20)
            if not data:
                return
            requests = self._lines.feed(data)
        request, *more = requests
        self._channel.setblocking(False)
        self._key: str = request["key"]
        self._grace: float = request.get("graceMs", 100) / 1000
        self._started_at = _now_ms()
        # ``errors`` came later than the first wardens, which put both into the output.
        for name in dict.fromkeys((request["output"], request.get("errors") or request["output"])):
            self._streams.append(Capture(self._outputs / name, request.get("redact", ()), self._poll))
        self._told = self._sizes()
        self._notice_orphaned()  # it may have died before we asked to be told
        if not self._reason:
            self._start(request)
        request.clear()
        for message in more:
            self._obey(message)
        while self._main and not self._empty:
            events = dict(self._poll.poll(self._wait_ms()))
            if self._wake in events:
                _drain(self._wake)
                self._notice_orphaned()
            if self._channel.fileno() in events:
                self._hear()
            for stream in self._streams:
                if stream.pipe in events:
                    stream.copy()
            self._notice_growth()
            self._reap()
            self._on_time()
        self._report()

    def end(self, reason: str, grace: float, error: str = "") -> None:
        """Ask the tree to end, and kill what is left after ``grace`` seconds. Repeated: the shorter grace holds."""
        if self._status is None and not self._reason:
            self._reason, self._error = reason, error
        self._terminate(grace)

    def _start(self, request: Message) -> None:
        if timeout := request.get("timeoutMs", 0):
            self._timeout = time.monotonic() + timeout / 1000
        stdin = -1
        try:
            stdin = spawn.text_as_stdin(request.get("stdin", ""))
            descriptors = (stdin, self._streams[0].writer, self._streams[-1].writer)
            self._main = spawn.spawn(request["argv"], request["cwd"], request["env"], descriptors)
        except (spawn.NotStarted, OSError) as error:
            self._reason = "not_started"
            self._error = _redacted(str(error), request.get("redact", ()))
            return
        finally:
            for stream in self._streams:
                stream.close_writer()
            if stdin >= 0:
                os.close(stdin)
        tree.GROUPS.add(self._main)
        spawn.prefer_as_oom_victim(self._main)

    def _terminate(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        if self._deadline is None:
            self._tree.terminate()
            self._deadline = deadline
        elif not self._killing:
            self._deadline = min(self._deadline, deadline)

    def _reap(self) -> None:
        try:
            for pid, status in tree.reap():
                if pid == self._main:
                    self._status = status
                    self._reason = self._reason or "exited"
        except ChildProcessError:
            self._tree.leave_none()
            self._empty = True
            return
        if self._status is not None and self._deadline is None:
            self._terminate(self._grace)

    def _on_time(self) -> None:
        now = time.monotonic()
        if self._timeout is not None and now >= self._timeout:
            self._timeout = None
            if self._status is None:
                self.end("timeout", self._grace)
        if self._tell_at is not None and now >= self._tell_at:
            self._tell_growth(now)
        if self._deadline is not None and now >= self._deadline and not self._empty:
            self._killing = True
            self._give_up_on_untouchable(now, refused=self._tree.kill())
            self._deadline = now + self._sweep
            self._sweep = min(_LAST_SWEEP, self._sweep * 2)

    def _give_up_on_untouchable(self, now: float, refused: int) -> None:
        if not refused:
            self._untouchable_since = None
        elif self._untouchable_since is None:
            self._untouchable_since = now
        elif now - self._untouchable_since > _UNTOUCHABLE_AFTER:
            self._error = f"still running, as another user: {self._tree.pids()}"
            self._empty = True

    def _wait_ms(self) -> int | None:
        times = [t for t in (self._deadline, self._timeout, self._tell_at) if t is not None]
        if not times:
            return None
        return max(0, int((min(times) - time.monotonic()) * 1000 + 1))

    def _hear(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the warden is gone
            self._poll.unregister(self._channel)
            self.end("lost", self._grace, _WARDEN_KILLED)
            return
        for message in self._lines.feed(data):
            self._obey(message)

    def _obey(self, message: Message) -> None:
        grace = message.get("graceMs")
        grace = self._grace if grace is None else grace / 1000
        self.end(message.get("reason", "canceled"), grace, message.get("error", ""))

    def _notice_orphaned(self) -> None:
        if os.getppid() != self._warden:
            self.end("lost", self._grace, _WARDEN_KILLED)

    def _sizes(self) -> list[int]:
        return [stream.to for stream in self._streams]

    def _notice_growth(self) -> None:
        if self._tell_at is None and self._sizes() != self._told:
            now = time.monotonic()
            if now - self._last_told >= _GROWTH_INTERVAL:
                self._tell_growth(now)
            else:
                self._tell_at = self._last_told + _GROWTH_INTERVAL

    def _tell_growth(self, now: float) -> None:
        self._tell_at = None
        self._last_told = now
        self._told = self._sizes()
        output, *errors = self._told
        self._send({"to": output, "errorsTo": sum(errors)}, wait=False)

    def _report(self) -> None:
        for stream in self._streams:
            stream.close()
        exit = exit_dict(
            self._reason or "exited",
            status=self._status,
            error="; ".join(filter(None, dict.fromkeys((self._error, *(s.error for s in self._streams))))),
            output_to=self._streams[0].to,
            started_at=self._started_at,
            ended_at=_now_ms(),
        )
        try:
            self._spool.write(self._key, exit)
        except OSError:
            pass  # the warden hears it all the same
        self._send({"exit": exit}, wait=True)

    def _send(self, message: dict[str, int] | dict[str, ExitDict], *, wait: bool) -> None:
        """Tell the warden. Growth may be skipped when it does not listen, the end may not."""
        data = protocol.encode(dict[str, Any](message))
        try:
            if wait:
                self._channel.setblocking(True)
                self._channel.sendall(data)
            else:
                self._channel.send(data)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                self._tell_at = time.monotonic() + _GROWTH_INTERVAL


def _redacted(text: str, secrets: list[str] | tuple[()]) -> str:
    redactor = Redactor(secrets)
    return (redactor.feed(text.encode("utf-8", "replace")) + redactor.flush()).decode("utf-8", "replace")


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
