"""Only public addresses are connected to, and what was listed, however an address is written."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from pilothouse.adapters.toolbox.addresses import check, is_public, read_rules, resolve
from pilothouse.errors import BadInput, Refused

INSIDE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:7f00:1::",
    "2001:470::5efe:7f00:1",
    "2001:470::200:5efe:a00:1",
    "192.88.99.1",
    "3fff::1",
]
OUTSIDE = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("text", INSIDE)
def test_what_is_not_public_is_refused(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    with pytest.raises(Refused, match="PILOTHOUSE_HTTP_ALLOW"):
        check("innocent.example", address, 80, ())


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_is_public_may_be_asked(text: str) -> None:
    check("example.com", ipaddress.ip_address(text), 443, ())


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.1", "0x7f000001", "127.1", "localhost"])
def test_other_spellings_of_an_address_are_that_address(host: str) -> None:
    found = asyncio.run(resolve(host, 80))
    assert found
    assert not any(is_public(address) for address in found)


def test_a_host_that_is_none_is_said() -> None:
    with pytest.raises(Refused, match="cannot be found"):
        asyncio.run(resolve("no-such-host.invalid", 80))


@pytest.mark.parametrize(
    ("rule", "host", "address", "port", "allowed"),
    [
        ("127.0.0.1:8080", "127.0.0.1", "127.0.0.1", 8080, True),
        ("127.0.0.1:8080", "127.0.0.1", "127.0.0.1", 8081, False),
        ("127.0.0.1:8080", "localhost", "127.0.0.1", 8080, True),
        ("10.0.0.0/8", "db.example", "10.2.3.4", 1, True),
        ("10.0.0.0/8", "db.example", "::ffff:10.2.3.4", 1, True),
        ("10.0.0.0/8", "db.example", "11.2.3.4", 1, True),
        ("10.0.0.0/8", "db.example", "192.168.2.3", 1, False),
        ("Intranet.Example", "intranet.example.", "10.0.0.1", 80, True),
        ("intranet.example", "evil.intranet.example", "10.0.0.1", 80, False),
        ("intranet.example:443", "intranet.example", "10.0.0.1", 80, False),
        ("[::1]:8080", "::1", "::1", 8080, True),
        ("::1", "::1", "::1", 8080, True),
    ],
)
def test_what_is_listed_may_be_asked_and_nothing_beside_it(
    rule: str, host: str, address: str, port: int, allowed: bool
) -> None:
    rules = read_rules([rule, " "])
    if allowed:
        check(host, ipaddress.ip_address(address), port, rules)
    else:
        with pytest.raises(Refused):
            check(host, ipaddress.ip_address(address), port, rules)


@pytest.mark.parametrize("text", ["a b", "http://x", "host:port", "host:99999", "10.0.0.0/99", ":80"])
def test_a_rule_that_is_none_names_its_setting(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_rules([text])
    assert refused.value.field == "PILOTHOUSE_HTTP_ALLOW"
