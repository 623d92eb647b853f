"""Where a server listens: the Unix socket that only its user can open, and a TCP port.

They listen but accept nothing yet: who connects early waits a moment instead of being refused.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from pathlib import Path

from pilothouse.errors import BadInput, Unavailable

_BACKLOG = 2048

_XUCRED = "=II"
"""macOS: the beginning of ``struct xucred``, version and uid."""


def bind_unix(path: Path) -> socket.socket:
    """A listening socket at ``path`` that only its user may open; a file of that name is replaced, so the caller must
    know that nobody serves there. Raises ``Unavailable``."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_unix(path)
        sock.bind(os.fspath(path))
        path.chmod(0o600)  # before it listens, so there is no moment at which others could connect
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise Unavailable(f"cannot listen at {path}: {error.strerror or error}") from error
    return sock


def remove_unix(path: Path) -> None:
    """Remove a socket's file; anything else of that name is left alone."""
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass


def bind_tcp(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ``BadInput`` for an unknown host, ``Unavailable`` when
    the port is taken or forbidden."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        fix = "give an address of this machine, such as 127.0.0.1"
        raise BadInput(f"{host!r} is no address: {error.strerror}", field="host", fix=fix) from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        # Listening now finds out about a port that another process shares but already listens on.
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise Unavailable(_why_not(host, port, error)) from error
    return sock


def _why_not(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} of {host} is in use; choose another one with --port, or 0 for any free one"
        case errno.EACCES:
            return f"port {port} may not be used without privileges; choose one above 1023"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"


def peer_uid(sock: socket.socket) -> int:
    """The user at the other end of a connected Unix socket. Raises ``OSError``."""
    if hasattr(socket, "SO_PEERCRED"):
        _, uid, _ = struct.unpack("=iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)
    local_peercred, sol_local = 1, 0
    _, uid = struct.unpack(_XUCRED, sock.getsockopt(sol_local, local_peercred, struct.calcsize(_XUCRED)))
    return int(uid)
