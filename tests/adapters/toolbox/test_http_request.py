"""Requests go where they may, over real sockets; what comes back is bounded, and nothing leaks on the way."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import json
import ssl
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pilothouse.adapters.toolbox import addresses
from pilothouse.adapters.toolbox.http_request import MOST_BYTES, HttpRequestTool
from pilothouse.core.tools.spec import ToolAnswer, ToolContext
from pilothouse.errors import BadInput, Refused

CONTEXT = ToolContext(owner="local")


class Request:
    """What a server got."""

    def __init__(self, head: str, body: bytes) -> None:
        first, *lines = head.split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        self.body = body


Answer = Callable[[Request], bytes]


def reply(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", *lines, f"content-length: {len(body)}", "connection: close"])
    return head.encode() + b"\r\n\r\n" + body


def called(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, url: str = "http://127.0.0.1:{port}/", **arguments: Any
) -> tuple[ToolAnswer, list[Request]]:
    """One call against a server on the loopback. ``NAME.test`` is the loopback, and listed; other names are not."""
    seen: list[Request] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").removesuffix("\r\n")
        request = Request(head, b"")
        if length := int(request.headers.get("content-length", 0)):
            request.body = await reader.readexactly(length)
        seen.append(request)
        writer.write(answer(request))
        await writer.drain()
        writer.close()

    real = addresses.resolve

    async def resolve(host: str, port: int) -> list[addresses.Address]:
        if host.endswith((".test", ".inside")):
            return [ipaddress.ip_address("127.0.0.1")]
        return await real(host, port)

    monkeypatch.setattr(addresses, "resolve", resolve)

    async def journey() -> ToolAnswer:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            ports.append(port)
            tool = HttpRequestTool(["127.0.0.1" if "127.0.0.1" in url else "one.test", "two.test"])
            given = json.loads(json.dumps({"url": url, **arguments}).replace("{port}", str(port)))
            return await tool.run(given, CONTEXT)

    ports.clear()
    return asyncio.run(asyncio.wait_for(journey(), 10)), seen


ports: list[int] = []


def test_a_request_is_made_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = called(
        monkeypatch,
        lambda _: reply(b'{"a": [1]}', content_type="application/json", set_cookie="s=1"),
        method="POST",
        headers={"X-Key": "value"},
        query={"q": "a b", "n": 1},
        body={"some": "thing"},
    )
    assert answer.result["status"] == 200
    assert answer.result["body"] == {"a": [1]}
    assert "set-cookie" not in answer.result["headers"]
    (request,) = seen
    assert (request.method, request.target, request.body) == ("POST", "/?q=a+b&n=1", b'{"some": "thing"}')
    assert request.headers["x-key"] == "value"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{ports[0]}"


def test_an_error_of_the_server_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _ = called(monkeypatch, lambda _: reply(b"gone", "404 Not Found", content_type="text/plain"))
    assert (answer.ok, answer.result["status"], answer.result["body"]) == (True, 404, "gone")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost/",
        "http://one.inside/",
    ],
)
def test_nothing_inside_is_reached_unless_it_is_listed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    async def resolve(host: str, port: int) -> list[addresses.Address]:
        return [ipaddress.ip_address("8.8.8.8"), ipaddress.ip_address("127.0.0.1")]  # one that is inside is enough

    if "inside" in url:
        monkeypatch.setattr(addresses, "resolve", resolve)
    with pytest.raises((Refused, BadInput), match=r"PILOTHOUSE_HTTP_ALLOW|Invalid IPv4 address"):
        asyncio.run(HttpRequestTool().run({"url": url}, CONTEXT))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "gopher://x/"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "nonsense"}, "url"),
        ({"url": "http://user:password@example.com/"}, "url"),
        ({"url": "http://example.com", "headers": {"Host": "other"}}, "headers.Host"),
        ({"url": "http://example.com", "headers": {"X": "a\r\nY: b"}}, "headers.X"),
        ({"url": "http://example.com", "headers": {"X Y": "a"}}, "headers.X Y"),
        ({"url": "http://example.com", "headers": {"X": "é"}}, "headers.X"),
        ({"url": "http://example.com", "headers": {"transfer_encoding": "chunked"}}, "headers.transfer_encoding"),
        ({"url": "http://xn--/"}, "url"),
        ({"url": "http://example.com", "method": "CONNECT"}, "method"),
        ({"url": "http://example.com", "timeoutSeconds": 1000}, "timeoutSeconds"),
    ],
)
def test_what_is_no_request_is_refused_with_its_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        asyncio.run(HttpRequestTool().run(arguments, CONTEXT))
    assert refused.value.field == field


def test_a_redirect_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> bytes:
        return reply(status="302 Found", location=f"http://one.inside:{ports[0]}/secret")

    with pytest.raises(Refused, match=r"one\.inside"):
        called(monkeypatch, answer, "http://one.test:{port}/")


def test_a_redirect_to_somebody_else_takes_no_credentials_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> bytes:
        if request.headers["host"].startswith("one."):
            return reply(status="302 Found", location=f"http://two.test:{ports[0]}/there?a=1")
        return reply(b"there")

    headers = {"Authorization": "Bearer t", "X-Api-Key": "k", "Accept": "text/plain"}
    found, seen = called(monkeypatch, answer, "http://one.test:{port}/", headers=headers)
    assert found.result["body"] == "there"
    assert [request.headers["host"].partition(":")[0] for request in seen] == ["one.test", "two.test"]
    assert seen[1].target == "/there?a=1"
    assert "authorization" not in seen[1].headers
    assert "x-api-key" not in seen[1].headers
    assert seen[1].headers["accept"] == "text/plain"


def test_a_body_is_not_handed_on_to_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> bytes:
        return reply(status="307 Temporary Redirect", location=f"http://two.test:{ports[0]}/")

    found, seen = called(monkeypatch, answer, "http://one.test:{port}/", method="POST", body="private")
    assert (found.result["status"], len(seen)) == (307, 1)


def test_a_redirect_within_a_server_keeps_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> bytes:
        if request.target == "/":
            return reply(status="307 Temporary Redirect", location="/next")
        return reply(request.body)

    found, seen = called(monkeypatch, answer, method="PUT", body="kept", headers={"X-Key": "k"})
    assert found.result["body"] == "kept"
    assert seen[1].headers["x-key"] == "k"


def test_redirects_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="more than"):
        called(monkeypatch, lambda _: reply(status="302 Found", location="/again"))


def test_a_long_body_is_cut_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = called(monkeypatch, lambda _: reply(b"x" * 300_000), maxBytes=1_000)
    assert found.result["body"] == "x" * 1_000
    assert "longer" in found.result["more"]


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
def test_what_was_packed_is_unpacked_no_further_than_needed(monkeypatch: pytest.MonkeyPatch, packed: str) -> None:
    pack: Callable[[bytes], bytes] = gzip.compress if packed == "gzip" else zlib.compress
    found, _ = called(monkeypatch, lambda _: reply(pack(b"hello"), content_encoding=packed))
    assert found.result["body"] == "hello"
    bomb = pack(bytes(64 << 20).replace(b"\0", b"x"))
    found, _ = called(monkeypatch, lambda _: reply(bomb, content_encoding=packed), maxBytes=MOST_BYTES)
    assert len(found.result["body"]) == MOST_BYTES
    assert "more" in found.result
    found, _ = called(monkeypatch, lambda _: reply(b"no such thing", content_encoding=packed))
    assert not found.ok


def test_binary_answers_and_odd_encodings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = called(monkeypatch, lambda _: reply(b"\0\1\2", content_type="application/octet-stream"))
    assert found.result["binary"] == "3 bytes"
    for charset in ("latin-1", "rot13", "hex", "no-such"):
        found, _ = called(monkeypatch, lambda _, c=charset: reply(b"caf\xe9", content_type=f"text/plain; charset={c}"))  # type: ignore[misc]  # a lambda that keeps its value
        assert found.result["body"].startswith("caf")


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> ToolAnswer:
        held = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await held.wait()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            tool = HttpRequestTool(["127.0.0.1"])
            return await tool.run({"url": f"http://127.0.0.1:{port}/", "timeoutSeconds": 1}, CONTEXT)
        finally:
            held.set()
            server.close()
            await server.wait_closed()

    answer = asyncio.run(asyncio.wait_for(journey(), 10))
    assert not answer.ok
    assert "did not answer within" in answer.error


def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    answer = asyncio.run(HttpRequestTool(["127.0.0.1"]).run({"url": "http://127.0.0.1:1/"}, CONTEXT))
    assert not answer.ok
    assert answer.error.startswith("127.0.0.1: ")


def certificate(name: str, place: Path) -> Path:
    """A certificate for ``name`` that signs itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = place / "both.pem"
    path.write_bytes(signed.public_bytes(pem) + secret)
    return path


@pytest.mark.parametrize(("host", "trusted"), [("one.test", True), ("two.test", False)])
def test_a_certificate_is_judged_by_the_name_although_the_address_is_connected_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, trusted: bool
) -> None:
    async def resolve(host: str, port: int) -> list[addresses.Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(addresses, "resolve", resolve)
    path = certificate("one.test", tmp_path)
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=path)
    serving.load_cert_chain(path)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(b"private"))
        await writer.drain()
        writer.close()

    async def journey() -> ToolAnswer:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving) as server:
            port = server.sockets[0].getsockname()[1]
            tool = HttpRequestTool([host], verify=trusting)
            return await tool.run({"url": f"https://{host}:{port}/"}, CONTEXT)

    answer = asyncio.run(asyncio.wait_for(journey(), 10))
    assert answer.ok is trusted
    if trusted:
        assert answer.result["body"] == "private"
    else:
        assert "certificate" in answer.error.lower()
