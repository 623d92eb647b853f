"""The transport of a client that waits, over a Unix socket.

httpx leaves the connecting to httpcore, which does not close a Unix socket that nobody listens at: each refusal, and
those are how an owner that went away is noticed, would leave one open until it is collected. So this connects, and
httpcore does the rest. The transport of httpx for clients that are awaited closes what it opens.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

_MOST = 100
_MOST_KEPT = 20
_KEPT_S = 5.0
"""As httpx has them."""


class SocketTransport(httpx.HTTPTransport):
    """To whoever listens at ``path``."""

    def __init__(self, path: str) -> None:
        super().__init__(uds=path)
        # There is no other way to give it a backend.
        self._pool = httpcore.ConnectionPool(
            uds=path,
            network_backend=_Backend(),
            max_connections=_MOST,
            max_keepalive_connections=_MOST_KEPT,
            keepalive_expiry=_KEPT_S,
        )


class _Backend(httpcore.NetworkBackend):
    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _as(httpcore.ConnectTimeout, httpcore.ConnectError):
                connected.settimeout(timeout)
                connected.connect(path)
        except BaseException:
            connected.close()
            raise
        return _Stream(connected)


class _Stream(httpcore.NetworkStream):
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _as(httpcore.ReadTimeout, httpcore.ReadError):
            self._socket.settimeout(timeout)
            return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _as(httpcore.WriteTimeout, httpcore.WriteError):
            self._socket.settimeout(timeout)
            self._socket.sendall(buffer)

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        """Of a connection that lies idle: whether its other end has been closed."""
        return self._is_readable() if info == "is_readable" else None

    def _is_readable(self) -> bool:
        if self._socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))


@contextmanager
def _as(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    """What a socket raises, in the words of httpcore."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(error) from error
    except OSError as error:
        raise failure(error) from error
