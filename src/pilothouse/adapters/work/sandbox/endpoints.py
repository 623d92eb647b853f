"""Which host and port an address in a plan or a setting means. Pure."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from pilothouse.adapters.work.sandbox.policy import Endpoint
from pilothouse.errors import BadInput

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def endpoint(address: str, field: str = "") -> Endpoint:
    """``https://host/path``, ``http://host:port`` or ``host:port``. Raises ``BadInput``."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        host = port = None
    if not host or not port or "*" in host:
        raise BadInput(f"{address!r} names no host and port", field=field, fix="write https://host or host:port")
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        return Endpoint(host, port)
    if (literal.version == 6 and not literal.is_loopback) or literal.is_unspecified:
        raise BadInput(f"{address!r} cannot be let through by its address", field=field, fix="name the host")
    return Endpoint(str(literal), port)
