"""The network of a sandboxed command: a loopback of its own and, on it, one listener per endpoint it may reach.

An endpoint that has a name gets a loopback address, and ``hosts`` says so; an address is made this machine's own. So
a program needs neither proxy settings nor our consent to connect, and whatever is not listed does not exist. What
comes in is carried outside by ``relay``. To be called in a network namespace of one's own. Standard library only.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator

from pilothouse.adapters.work.sandbox.policy import Endpoint

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_IFF_UP = 1
_LOCALHOST = ("127.0.0.1", "::1")
_BACKLOG = 128


def bring_up_loopback() -> None:
    """Raises ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))


def addresses(endpoints: tuple[Endpoint, ...]) -> dict[str, tuple[str, ...]]:
    """Where the host of each endpoint is found inside."""
    found: dict[str, tuple[str, ...]] = {}
    names = 0
    for host, _ in endpoints:
        if host in found:
            continue
        if host == "localhost":
            found[host] = _LOCALHOST
        elif is_address(host):
            found[host] = (host,)
        else:
            names += 1
            found[host] = (f"127.64.{names >> 8}.{names & 0xFF}",)
    return found


def hosts_file(endpoints: tuple[Endpoint, ...]) -> str:
    """What /etc/hosts says inside."""
    lines = ["127.0.0.1 localhost", "::1 localhost", f"127.0.0.1 {socket.gethostname()}"]
    lines += [f"{where[0]} {host}" for host, where in addresses(endpoints).items() if where[0].startswith("127.64.")]
    return "\n".join(lines) + "\n"


def listeners(endpoints: tuple[Endpoint, ...]) -> Iterator[tuple[Endpoint, socket.socket]]:
    """A listening socket, or two, for each endpoint. Raises ``OSError``."""
    where = addresses(endpoints)
    foreign = [host for host in where if is_address(host) and not host.startswith("127.") and ":" not in host]
    for number, host in enumerate(foreign):
        _own(number, host)
    for endpoint in endpoints:
        for address in where[endpoint.host]:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            try:
                listener = socket.socket(family, socket.SOCK_STREAM)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, endpoint.port))
            except OSError:
                if endpoint.host == "localhost" and family == socket.AF_INET6:
                    continue  # a system without IPv6
                raise
            listener.listen(_BACKLOG)
            yield endpoint, listener


def is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


def _own(number: int, address: str) -> None:
    """Give the loopback interface another address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = f"lo:{number}".encode("ascii")
        for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, "255.255.255.255")):
            fcntl.ioctl(any_socket, request, struct.pack("16sH2x4s16x", name, socket.AF_INET, socket.inet_aton(value)))
