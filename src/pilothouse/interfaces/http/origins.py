"""Where a browser may come from: which Host and Origin the TCP door takes, against DNS rebinding and other sites.

A site that makes its own name point at this machine sends that name as Host; a site that makes the browser send
requests here sends its own name as Origin. Neither is a name of this server. Values in, errors out.
"""

from __future__ import annotations

import ipaddress

from pilothouse.errors import Denied

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HTTP_PORT = "80"
_OWN_SITES = frozenset({"same-origin", "none"})
"""``none``: the person did it, from the address bar or a bookmark."""


class Origins:
    """The names of a server that listens on ``host`` and ``port``."""

    def __init__(self, host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host.lower()
        self._names = _LOOPBACK | {name}
        self._port = str(port)
        # Who listens on every address is known by each of them. An address is no name that could be rebound.
        self._any_address = name in {"0.0.0.0", "[::]"}

    def check(self, method: str, host: str, origin: str | None, site: str | None) -> None:
        """Raises ``Denied`` for a request that a foreign site may have caused.

        ``site`` is the header Sec-Fetch-Site. Browsers say with one of the two where a request that changes
        something comes from, and no page can change what they say; who says neither is no browser."""
        if not self._is_ours(host):
            raise Denied(
                f"this server is not called {host or 'nothing'!r}; use the URL that `pilothouse serve` printed"
            )
        if origin is not None and not (origin.startswith("http://") and self._is_ours(origin.removeprefix("http://"))):
            raise Denied(f"requests from {origin!r} are not taken")
        if method not in SAFE_METHODS and site is not None and site not in _OWN_SITES:
            raise Denied("another site cannot change anything here")

    def _is_ours(self, authority: str) -> bool:
        name, port = _split(authority.lower())
        return port == self._port and (name in self._names or (self._any_address and _is_address(name)))


def _split(authority: str) -> tuple[str, str]:
    name, colon, port = authority.rpartition(":")
    if not colon or "]" in port:  # the colons of an IPv6 address without a port
        return authority, _HTTP_PORT
    return name, port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
