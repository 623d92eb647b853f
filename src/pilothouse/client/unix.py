"""HTTP over a Unix socket. Imports little: the bridge of MCP starts as often as agents do."""

from __future__ import annotations

import http.client
import socket


class SocketConnection(http.client.HTTPConnection):
    """A connection to whoever listens at ``path``; ``timeout`` in seconds, of every wait."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise
