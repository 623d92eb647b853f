"""Which network addresses a model may have us connect to: public ones, and what was listed.

A name is nothing here: what it resolves to is judged, once, and that very address is connected to. Pure, but for
``resolve``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

from pilothouse.adapters.toolbox.threads import LOOKUPS
from pilothouse.errors import BadInput, Refused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_WITHIN_S = 10.0

# Public by their number, and yet a door to the machine's own secrets: the metadata service of Azure's machines.
_METADATA = frozenset({IPv4Address("168.63.129.16")})
# Before some of their versions, Pythons take parts of these for public.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "100.64.0.0/10", "64:ff9b:1::/48", "fec0::/10", "5f00::/16", "3fff::/20"),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = 0x0000_5EFE
"""What stands before the IPv4 address of a tunnel within a site, but for one bit."""
_COMPATIBLE = ipaddress.ip_network("::/96")


class Rule(NamedTuple):
    """What may be asked although it is not public: a host by name, or a network; at one port, or (0) at every one."""

    host: str
    network: Network | None
    port: int = 0


def read_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """``intranet.example``, ``127.0.0.1:8080``, ``10.0.0.0/8``, ``[::1]:8080``. Raises ``BadInput``."""
    return tuple(_rule(text.strip()) for text in texts if text.strip())


def _rule(text: str) -> Rule:
    try:
        return Rule("", ipaddress.ip_network(text, strict=False))
    except ValueError:
        pass
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "0"
    if not port.isdecimal() or int(port) > 65535 or not host or "/" in host or " " in host:
        fix = "as in intranet.example, 127.0.0.1:8080 or 10.0.0.0/8"
        raise BadInput(f"{text!r} is no host, address or network", field="PILOTHOUSE_HTTP_ALLOW", fix=fix)
    host = host.strip("[]")
    try:
        return Rule("", ipaddress.ip_network(host), int(port))
    except ValueError:
        return Rule(host.lower().rstrip("."), None, int(port))


def check(host: str, address: Address, port: int, rules: Iterable[Rule]) -> None:
    """Raises ``Refused`` unless ``address``, which ``host`` stands for, is public or listed."""
    meant = host.lower().rstrip(".")
    for rule in rules:
        by_name = rule.network is None and rule.host == meant
        by_number = rule.network is not None and any(one in rule.network for one in _inside(address))
        if rule.port in (0, port) and (by_name or by_number):
            return
    if not is_public(address):
        where = host if host == str(address) else f"{host} ({address})"
        raise Refused(f"{where} is not a public address; the server's owner can list it in PILOTHOUSE_HTTP_ALLOW")


def is_public(address: Address) -> bool:
    """Whether an address, and every other one that it may stand for, belongs to the public internet."""
    return all(
        one.is_global
        and not one.is_multicast
        and not one.is_reserved
        and one not in _METADATA
        and not any(one in network for network in _NOT_PUBLIC)
        for one in _inside(address)
        if not _is_wrapping(one)
    )


def _is_wrapping(address: Address) -> bool:
    """Whether only what is inside counts."""
    return address in _NAT64 or (isinstance(address, IPv6Address) and address.ipv4_mapped is not None)


def _inside(address: Address) -> Iterator[Address]:
    """The address, and the older ones that are written inside of it and that it may lead to."""
    yield address
    if not isinstance(address, IPv6Address):
        return
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address in _NAT64 or address in _COMPATIBLE:
        yield last
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif int(address) >> 32 & 0xFDFF_FFFF == _ISATAP:
        yield last


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, as the system finds them: other spellings of numbers, decimal or octal, included.

    Raises ``Refused`` when there is none."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            found = await LOOKUPS.run(lambda _: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Refused(f"{host} cannot be found: {str(error) or 'it takes too long'}") from None
    numbers = (str(entry[4][0]).partition("%")[0] for entry in found)
    return list(dict.fromkeys(ipaddress.ip_address(number) for number in numbers))
