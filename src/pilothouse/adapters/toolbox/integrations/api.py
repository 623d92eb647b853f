"""Asking a service's API for somebody: with their token, within its limits, and its refusals in words.

Owns what is the same for all: tokens that are replaced when the service does not take them, rate limits that are waited
for when that is short, bounds. What a service calls an error, its ``Manners`` say. No token leaves here but in the
header of a request to its own service.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

import httpx

from pilothouse.core.credentials.accounts import Token
from pilothouse.errors import BackendFailed, PilothouseError, Refused

WITHIN_S = 30.0
LARGEST = 10 << 20
"""Bytes of an answer."""
LONGEST_WAIT_S = 15.0
"""What a service may ask to wait without its caller being told."""
_TRIES = 3
_REDIRECTS = 3


class Tokens(Protocol):
    """Where tokens come from."""

    async def token(self, owner: str, service: str, account: str = "", *, refused: str = "") -> Token:
        """A token of an owner's account; ``refused`` is one that the service did not take. Raises what says why there
        is none, and what the owner can do."""
        ...


class TooMany(Refused):
    """Raised when a service takes no more requests for longer than is waited here."""

    code = "rate_limited"


@dataclass(frozen=True, slots=True)
class Reply:
    """``body`` is JSON, None for what is none."""

    status: int
    headers: httpx.Headers
    content: bytes = field(repr=False)
    body: Any = field(repr=False)

    @property
    def table(self) -> Mapping[str, Any]:
        """The body, where it is an object."""
        return self.body if isinstance(self.body, dict) else {}


class Manners(Protocol):
    """How one service says things."""

    service: str
    title: str
    headers: Mapping[str, str]

    def refuses_token(self, reply: Reply) -> bool: ...

    def wait_s(self, reply: Reply, now: float) -> float | None:
        """Seconds until it takes requests again; None when that is not what it says. ``now``: since 1970."""
        ...

    def refusal(self, reply: Reply) -> str:
        """Why it did not do what it was asked; empty when it did."""
        ...


class Web:
    """The connections of all services; made when one is needed."""

    def __init__(self) -> None:
        self._made: httpx.AsyncClient | None = None

    @property
    def client(self) -> httpx.AsyncClient:
        if self._made is None:
            self._made = httpx.AsyncClient(timeout=WITHIN_S, max_redirects=_REDIRECTS)
        return self._made

    async def close(self) -> None:
        if self._made is not None:
            await self._made.aclose()


@dataclass(frozen=True, slots=True)
class Api:
    """A service, as one account of one owner may use it."""

    web: Web
    tokens: Tokens
    manners: Manners
    owner: str
    account: str = ""

    async def get(self, path: str, params: Mapping[str, Any] | None = None, **headers: str) -> Reply:
        """Raises ``PilothouseError`` for every way it can fail."""
        return await self._ask("GET", path, params=_said(params or {}), headers=headers)

    async def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The same for what changes something. Done once at most: where that cannot be known, the error says so."""
        return await self._ask("POST", path, body=_said(body))

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        token = await self.tokens.token(self.owner, self.manners.service, self.account)
        renewed = False
        for left in reversed(range(_TRIES)):
            reply = await self._send(method, path, token, params=params, body=body, headers=headers or {})
            if self.manners.refuses_token(reply) and not renewed:
                token = await self.tokens.token(self.owner, self.manners.service, self.account, refused=token.value)
                renewed = True
                continue
            wait = self.manners.wait_s(reply, time.time())
            if wait is not None:
                if wait > LONGEST_WAIT_S or not left:
                    raise TooMany(f"{self.manners.title} takes no more requests for now; try again in {wait:.0f} s")
                await asyncio.sleep(wait)
                continue
            if why := self.manners.refusal(reply):
                raise Refused(f"{self.manners.title}: {why}".replace(token.value, "…"))
            return reply
        raise Refused(f"{self.manners.title} does not take the account's token; it may lack a permission")

    async def _send(
        self,
        method: str,
        path: str,
        token: Token,
        *,
        params: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> Reply:
        sent = {**self.manners.headers, **headers, "authorization": f"Bearer {token.value}"}
        looks = method == "GET"
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                self.web.client.stream(
                    method,
                    token.api_url.rstrip("/") + path,
                    params=params,
                    json=body,
                    headers=sent,
                    follow_redirects=looks,  # httpx takes the token along to the same host only
                ) as response,
            ):
                content = await self._content(response)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise self._unreachable(error, looks) from None
        return Reply(response.status_code, response.headers, content, _json(response.headers, content))

    async def _content(self, response: httpx.Response) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > LARGEST:
                raise Refused(f"{self.manners.title}'s answer has more than {LARGEST >> 20} MiB; ask for less")
        return bytes(content)

    def _unreachable(self, error: Exception, looks: bool) -> PilothouseError:
        known = looks or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        doubt = "" if known else "; whether this was done is not known: look before it is tried again"
        return BackendFailed(f"{self.manners.title} cannot be reached ({type(error).__name__}){doubt}", transient=known)


def retry_after(reply: Reply) -> float | None:
    """The header Retry-After, in seconds."""
    try:
        return max(0.0, float(reply.headers.get("retry-after", "")))
    except ValueError:
        return None


def words_of(status: int) -> str:
    """An HTTP status, for a reply that says nothing else."""
    try:
        return f"it answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"it answered {status}"


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left out."""
    return {name: value for name, value in given.items() if value is not None and value not in ("", ())}


def _json(headers: httpx.Headers, content: bytes) -> Any:
    if "json" not in headers.get("content-type", ""):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
