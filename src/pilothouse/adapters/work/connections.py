"""One client of the warden: its bytes in and out, and which commands it follows.

A client that does not read costs at most one pending number per command it follows: growth is merged while earlier
bytes are waiting. Standard library only. Knows no commands and no processes.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys
from collections.abc import Callable

from pilothouse.adapters.work import protocol
from pilothouse.adapters.work.protocol import ExitDict, Message


def peer_uid(sock: socket.socket) -> int:
    """The user at the other end of a Unix socket."""
    if sys.platform == "linux":
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid: int = struct.unpack("3i", credentials)[1]
        return uid
    return os.getuid()  # elsewhere the mode of the directory alone keeps others out


class Connection:
    """A non-blocking connection. ``epoch`` is the owner's, None before its hello and once it is fenced off."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        on_request: Callable[[Connection, Message], None],
        on_close: Callable[[Connection], None],
    ) -> None:
        sock.setblocking(False)
        self.epoch: int | None = None
        self._sock = sock
        self._selector = selector
        self._on_request = on_request
        self._on_close = on_close
        self._lines = protocol.Lines()
        self._out = bytearray()
        self._following: set[str] = set()
        self._grown: dict[str, tuple[int, int]] = {}
        self._closing = False
        self._open = True
        selector.register(sock, selectors.EVENT_READ, self._on_ready)

    def send(self, message: Message) -> None:
        """Send in order, after everything sent before."""
        if self._open:
            self._out += protocol.encode(message)
            self._flush()

    def follow(self, key: str) -> None:
        self._following.add(key)

    def unfollow(self, key: str) -> None:
        self._following.discard(key)
        self._grown.pop(key, None)

    def grew(self, key: str, to: int, errors_to: int) -> None:
        """Tell of growth, if this client follows ``key``."""
        if key in self._following:
            self._grown[key] = to, errors_to
            if not self._out:
                self._flush()

    def ended(self, key: str, exit: ExitDict) -> None:
        """Tell of an end, if this client follows ``key``."""
        if key in self._following:
            self.unfollow(key)
            self.send({"ev": "ended", "key": key, "exit": exit})

    def close_after_sending(self) -> None:
        self._closing = True
        self._following.clear()
        self._grown.clear()
        self._flush()

    def close(self) -> None:
        """Idempotent."""
        if self._open:
            self._open = False
            self._selector.unregister(self._sock)
            self._sock.close()
            self._on_close(self)

    def _on_ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if mask & selectors.EVENT_READ and self._open and not self._closing:
            self._read()

    def _read(self) -> None:
        try:
            data = self._sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            requests = self._lines.feed(data)
        except protocol.ProtocolError:
            data, requests = b"", []
        for request in requests:
            if self._open and not self._closing:
                self._on_request(self, request)
        if not data:
            self.close()

    def _flush(self) -> None:
        if not self._open:
            return
        try:
            while self._out or self._grown:
                if not self._out:
                    for key, (to, errors_to) in self._grown.items():
                        self._out += protocol.encode({"ev": "grew", "key": key, "to": to, "errorsTo": errors_to})
                    self._grown.clear()
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._closing and not self._out:
            self.close()
            return
        events = 0 if self._closing else selectors.EVENT_READ
        if self._out:
            events |= selectors.EVENT_WRITE
        self._selector.modify(self._sock, events, self._on_ready)
