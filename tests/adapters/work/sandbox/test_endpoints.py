"""Which host and port an address means."""

from __future__ import annotations

import pytest

from pilothouse.adapters.work.sandbox.endpoints import endpoint
from pilothouse.errors import BadInput


@pytest.mark.parametrize(
    ("address", "means"),
    [
        ("https://api.example.com/v1", ("api.example.com", 443)),
        ("http://Example.com", ("example.com", 80)),
        ("https://user:password@example.com:8443/", ("example.com", 8443)),
        ("example.com:22", ("example.com", 22)),
        ("http://127.0.0.1:4000", ("127.0.0.1", 4000)),
        ("http://[::1]:4000", ("::1", 4000)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, means: tuple[str, int]) -> None:
    assert endpoint(address) == means


@pytest.mark.parametrize(
    "address",
    ["", "example.com", "/path", "https://", "ftp://example.com", "https://*.example.com", "a:99999", "http://[::",
     "http://0.0.0.0:80", "http://[2001:db8::1]:80"],
)  # fmt: skip
def test_what_names_no_reachable_host_is_refused_by_its_field(address: str) -> None:
    with pytest.raises(BadInput) as refused:
        endpoint(address, "addresses[0]")
    assert refused.value.field == "addresses[0]"
    assert refused.value.fix
