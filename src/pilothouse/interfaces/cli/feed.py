"""The events of one run as they come, whatever happens to the connection or to the owner.

A thread reads the stream; what it finds, and what the person at the keyboard does, comes out of one queue in one
order. Sequence numbers make it exact: a connection that breaks is continued after the last event that arrived, an
event seen before is dropped, a gap is a broken connection. Knows nothing of what the events mean.
"""

from __future__ import annotations

import http.client
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from pilothouse.client.sse import Decoder, Message
from pilothouse.client.unix import SocketConnection
from pilothouse.errors import PilothouseError, Unavailable
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.owners import connect, live_owner

SILENCE = 45.0
"""Seconds without a byte after which a connection counts as broken: keepalives come every 15."""
SUCCESSOR_PATIENCE = 1.0
"""Seconds a new owner is given to appear by itself before one is started."""
GIVE_UP = 60.0
"""Seconds without any owner after which following fails."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing more to come from this run."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The connection was lost and is there again, with an owner that may be another one."""

    client: Client


Item = Message | Ended | Interrupted | Reconnected | PilothouseError


class _Broken(Exception):
    """Raised when a stream ended before its run did."""


class Feed:
    """What comes from one run. A context manager: its thread ends with it."""

    def __init__(self, client: Client, data_dir: Path, run_id: str, after: int = 0) -> None:
        """``after``: the sequence number of the last event already known."""
        self._client = client
        self._data_dir = data_dir
        self._path = f"/api/runs/{run_id}/events"
        self._after = after
        self._items: SimpleQueue[Item] = SimpleQueue()  # its put may be called by a signal handler
        self._closed = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._read, name=f"events of {run_id}", daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if (connected := self._socket) is not None:
            try:
                connected.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already
        self._thread.join(timeout=5.0)

    def next(self, timeout: float) -> Item | None:
        """The next thing that happened; None when nothing did for ``timeout`` seconds."""
        try:
            return self._items.get(timeout=timeout) if timeout > 0 else self._items.get_nowait()
        except Empty:
            return None

    def interrupt(self) -> None:
        """Say that the person wants out. Safe in a signal handler."""
        self._items.put(Interrupted())

    def _read(self) -> None:
        pause, heard = _FIRST_PAUSE, time.monotonic()
        while not self._closed.is_set():
            before = self._after
            try:
                self._read_stream()
                self._items.put(Ended())
                return
            except (OSError, http.client.HTTPException, _Broken, Unavailable):
                if self._after > before:
                    pause, heard = _FIRST_PAUSE, time.monotonic()
            except PilothouseError as error:
                self._items.put(error)
                return
            if self._closed.wait(pause):
                return
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                self._client = self._reach()
            except PilothouseError as error:
                if time.monotonic() - heard > GIVE_UP:
                    self._items.put(error)
                    return
            else:
                self._items.put(Reconnected(self._client))

    def _reach(self) -> Client:
        """Whoever owns the data directory now. A successor is given a moment, then one is started."""
        deadline = time.monotonic() + SUCCESSOR_PATIENCE
        while time.monotonic() < deadline and not self._closed.wait(_FIRST_PAUSE):
            client = live_owner(self._data_dir)
            if client is not None:
                return client
        if self._closed.is_set():
            raise Unavailable("no longer wanted")
        return connect(self._data_dir)

    def _read_stream(self) -> None:
        """Read until the run has nothing more to say. Raises ``_Broken`` or ``OSError`` when the stream ends before."""
        with closing(SocketConnection(self._client.socket_path, SILENCE)) as connection:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._after)}
            self._client.send(connection, "GET", f"{self._path}?after={self._after}", None, **headers)
            self._socket = connection.sock
            if self._closed.is_set():
                return
            response = connection.getresponse()
            if response.status == http.client.NO_CONTENT:
                return
            if response.status != http.client.OK:
                self._client.read(response, response.read())
                raise _Broken
            for message in _messages(response):
                if self._closed.is_set():
                    return
                self._take(message)
            raise _Broken  # the run may have ended: then the next answer is 204

    def _take(self, message: Message) -> None:
        if not message.id.isdecimal():
            return
        seq = int(message.id)
        if seq <= self._after:
            return
        if seq != self._after + 1:
            raise _Broken
        self._after = seq
        self._items.put(message)


def _messages(response: http.client.HTTPResponse) -> Iterator[Message]:
    decoder = Decoder()
    while data := response.read1(_CHUNK):
        yield from decoder.feed(data)


@dataclass(slots=True)
class Presses:
    """Ctrl-C, counted from before there is anything to stop."""

    count: int = 0
    feed: Feed | None = None

    def press(self) -> None:
        self.count += 1
        if self.feed is not None:
            self.feed.interrupt()


@contextmanager
def interrupts(handle: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls ``handle`` instead of raising. Only in the main thread, where signals arrive; elsewhere nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def act(number: int, frame: FrameType | None) -> None:
        handle()

    with _on_ctrl_c(act):
        yield


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Ctrl-C raises ``KeyboardInterrupt`` again, within ``interrupts``: while a line is typed that it is to leave."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _on_ctrl_c(signal.default_int_handler):
        yield


@contextmanager
def _on_ctrl_c(act: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, act)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
