"""The tool ``http_request``: one request to the public internet, or to what the server's owner has listed.

A host is resolved once, judged, and that very address is connected to; every redirect is judged anew. Nothing of the
environment is used: no proxy, no cookies, no ``.netrc``. Time and bytes are bounded, also of what is compressed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import httpx
import msgspec
from msgspec import Meta

from pilothouse.adapters.toolbox import addresses
from pilothouse.adapters.toolbox.text import is_binary
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.errors import BadInput, Refused

MOST_BYTES = 1 << 20
"""Of an answer's body, unpacked."""
MOST_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te", "upgrade"})
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""All that goes along when a redirect leads to somebody else."""
# fmt: off
_SHOWN = frozenset({
    "allow", "content-length", "content-type", "date", "etag", "last-modified", "link", "location", "retry-after",
    "www-authenticate", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
})
# fmt: on
_AGENT = "pilothouse"


class HttpRequest(Parameters, frozen=True, kw_only=True):
    url: Annotated[str, Meta(description="http:// or https://", max_length=8_192)]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    headers: Annotated[dict[str, str], Meta(description='As in {"Authorization": "Bearer {{NAME}}"}.')] = msgspec.field(
        default_factory=dict
    )
    query: Annotated[dict[str, str | int | float | bool], Meta(description="Added to the URL.")] = msgspec.field(
        default_factory=dict
    )
    body: Annotated[Any, Meta(description="Text, or a value that is sent as JSON.")] = None
    timeout_seconds: Annotated[int, Meta(ge=1, le=120)] = 30
    max_bytes: Annotated[int, Meta(description="Of the body that is answered.", ge=1, le=MOST_BYTES)] = 100_000


class _Request(msgspec.Struct, frozen=True):
    method: str
    url: httpx.URL
    headers: dict[str, str]
    content: bytes


class HttpRequestTool:
    spec = ToolSpec(
        name="http_request",
        description=(
            "Make an HTTP request to a public address. {{NAME}} in url, headers, query or body stands for a credential "
            "of the user, which you never see. Example: "
            '{"url": "https://api.example.com/items", "headers": {"Authorization": "Bearer {{EXAMPLE_TOKEN}}"}}'
        ),
        parameters=schema_of(HttpRequest),
        touches=Touches.WORLD,
        timeout_ms=130_000,
        secrets=("url", "headers", "query", "body"),
    )

    def __init__(self, allow: Iterable[str] = (), *, verify: Any = True) -> None:
        """``allow``: see ``addresses.read_rules``; ``verify``: an SSL context that trusts others than the system does.
        Raises ``BadInput``."""
        for name in ("httpx", "httpcore"):  # they log addresses and headers, in which credentials stand by then
            logging.getLogger(name).setLevel(logging.WARNING)
        self._rules = addresses.read_rules(allow)
        self._verify = verify

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(HttpRequest, arguments)
        request, began = _request(given), time.monotonic()
        try:
            async with (
                asyncio.timeout(given.timeout_seconds),
                httpx.AsyncClient(trust_env=False, verify=self._verify, timeout=None, http2=False) as client,
            ):
                return await self._followed(client, request, given.max_bytes)
        except TimeoutError:
            took = time.monotonic() - began
            return ToolAnswer(ok=False, error=f"{request.url.host} did not answer within {took:.0f} s")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return ToolAnswer(ok=False, error=f"{request.url.host}: {str(error) or type(error).__name__}")

    async def _followed(self, client: httpx.AsyncClient, request: _Request, limit: int) -> ToolAnswer:
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._sent(client, request)
            try:
                following = _next(request, response)
                if following is None:
                    return await _answered(request, response, limit)
            finally:
                await response.aclose()
            request = following
        raise Refused(f"redirected more than {MOST_REDIRECTS} times, at last to {request.url.host}")

    async def _sent(self, client: httpx.AsyncClient, request: _Request) -> httpx.Response:
        """To an address that was judged: of several of one name the first that can be reached."""
        host, port = request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80)
        found = await addresses.resolve(host, port)
        for address in found:  # all: a name that also stands for something inside is not to be trusted
            addresses.check(host, address, port, self._rules)
        trouble: httpx.HTTPError | None = None
        for address in found:
            built = client.build_request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers={**request.headers, "Host": request.url.netloc.decode("ascii")},
                content=request.content or None,
                extensions={"sni_hostname": request.url.raw_host.decode("ascii").strip("[]")},
            )
            try:
                return await client.send(built, stream=True)
            except httpx.ConnectError as error:
                trouble = error
        assert trouble is not None
        raise trouble


def _request(given: HttpRequest) -> _Request:
    """Raises ``BadInput``."""
    url = _url(given.url)
    if given.query:
        url = url.copy_with(query=b"&".join(filter(None, (url.query, urlencode(given.query).encode()))))
    headers = {"user-agent": _AGENT, "accept": "*/*"}
    for name, value in given.headers.items():
        if name.lower().replace("_", "-") in _OURS:  # to many a server an underscore is a dash
            raise BadInput("cannot be set", field=f"headers.{name}")
        if (
            not value.isprintable()
            or not value.isascii()
            or not name.isascii()
            or not name.replace("-", "").replace("_", "").isalnum()
        ):
            raise BadInput("is no header", field=f"headers.{name}")
        headers[name.lower()] = value
    content = b""
    if isinstance(given.body, str):
        content = given.body.encode("utf-8", "replace")
    elif given.body is not None:
        content = json.dumps(given.body).encode()
        headers.setdefault("content-type", "application/json")
    headers["accept-encoding"] = "gzip, deflate"
    return _Request(given.method, url, headers, content)


def _url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
        host = url.host  # which is only now looked at as a whole
    except httpx.InvalidURL as error:
        raise BadInput(f"is no address: {error}", field="url") from None
    except UnicodeError:
        raise BadInput("is no address: its host is no name", field="url") from None
    if url.scheme not in ("http", "https") or not host:
        raise BadInput("must begin with http:// or https://", field="url")
    if url.userinfo:
        raise BadInput("must not hold a user or a password", field="url", fix="use a header")
    return url


def _next(request: _Request, response: httpx.Response) -> _Request | None:
    """Where a redirect leads; None for any other answer, and for one that would carry a body to somebody else."""
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or location is None:
        return None
    url = _url(str(request.url.join(location)))
    keeps = response.status_code in (307, 308) or request.method in ("GET", "HEAD")
    same = (url.scheme, url.host, url.port) == (request.url.scheme, request.url.host, request.url.port)
    if keeps and request.content and not same:
        return None
    headers = request.headers
    if not same:
        headers = {name: value for name, value in headers.items() if name in _HARMLESS | {"accept-encoding"}}
    if not keeps:
        headers = {name: value for name, value in headers.items() if name != "content-type"}
    return _Request(request.method if keeps else "GET", url, headers, request.content if keeps else b"")


async def _answered(request: _Request, response: httpx.Response, limit: int) -> ToolAnswer:
    body, complete = await _body(response, limit)
    result: dict[str, Any] = {
        "status": response.status_code,
        "url": str(request.url),
        "headers": {name: value for name, value in response.headers.items() if name in _SHOWN},
    }
    kind = response.headers.get("content-type", "")
    if is_binary(body) or kind.startswith(("image/", "audio/", "video/")):
        result["binary"] = f"{len(body)} bytes{'' if complete else ' or more'}"
    else:
        text = _text(body, response)
        try:
            result["body"] = json.loads(text) if complete and "json" in kind else text
        except (ValueError, RecursionError):
            result["body"] = text
    if not complete:
        result["more"] = f"the body is longer than {limit} bytes"
    return ToolAnswer(ok=True, result=result)


def _text(body: bytes, response: httpx.Response) -> str:
    try:
        return body.decode(response.charset_encoding or "utf-8", "replace")
    except (LookupError, UnicodeError):  # no encoding of that name, or none of text
        return body.decode("utf-8", "replace")


async def _body(response: httpx.Response, limit: int) -> tuple[bytes, bool]:
    """The first bytes, and whether these are all. What is packed is unpacked no further than needed."""
    packed = response.headers.get("content-encoding", "identity").lower()
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if packed in ("gzip", "deflate") else None
    body = bytearray()
    async for raw in response.aiter_raw():
        data = raw
        while data and len(body) <= limit:
            if unpack is None:
                body += data
                break
            try:
                body += unpack.decompress(data, limit + 1 - len(body))
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from None
            data = unpack.unconsumed_tail
        if len(body) > limit:
            return bytes(body[:limit]), False
    return bytes(body), True
