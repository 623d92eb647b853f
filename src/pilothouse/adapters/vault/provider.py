"""The way to the servers that give tokens. What they are asked, and what their answers mean, ``core/credentials`` says.

Nothing that is sent or comes back is logged or repeated in an error.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import httpx

from pilothouse.core.credentials.oauth import Grant, read_grant
from pilothouse.core.credentials.services import Service
from pilothouse.errors import BackendFailed

log = logging.getLogger(__name__)

WITHIN_S = 30.0
_ASIDE_WITHIN_S = 10.0
"""For what is done besides: a name, a revocation."""
_LARGEST = 1 << 20


class HttpProvider:
    """As ``engine.oauth.Provider``."""

    def __init__(self) -> None:
        self._made: httpx.AsyncClient | None = None

    async def grant(self, service: Service, form: Mapping[str, str], now: int) -> Grant:
        try:
            status, body = await self._ask("POST", service.token_url, WITHIN_S, form=form)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            words = f"{service.title} gave no token: it cannot be reached ({type(error).__name__})"
            raise BackendFailed(words, transient=True) from None
        return read_grant(service, status, body, now)

    async def identity(self, service: Service, token: str) -> str:
        path, field = service.identity
        if not path or not service.api_url:
            return ""
        try:
            status, body = await self._ask("GET", f"{service.api_url.rstrip('/')}{path}", _ASIDE_WITHIN_S, token=token)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            log.info("account.no-name: %s: %s", service.name, type(error).__name__)
            return ""
        name = body.get(field) if status == 200 and isinstance(body, dict) else None
        return name if isinstance(name, str) else ""

    async def revoke(self, service: Service, token: str) -> None:
        try:
            status, _ = await self._ask("POST", service.revoke_url, _ASIDE_WITHIN_S, form={"token": token})
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            log.info("account.not-revoked: %s: %s", service.name, type(error).__name__)
        else:
            log.info("account.revoked: %s answered %d", service.name, status)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.aclose()

    async def _ask(
        self, method: str, url: str, within_s: float, *, form: Mapping[str, str] | None = None, token: str = ""
    ) -> tuple[int, Any]:
        """Status and JSON, None for what is none."""
        if self._made is None:
            self._made = httpx.AsyncClient(timeout=WITHIN_S, headers={"accept": "application/json"})
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with (
            asyncio.timeout(within_s),
            self._made.stream(method, url, data=form, headers=headers) as response,
        ):
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _LARGEST:
                    return response.status_code, None
        try:
            return response.status_code, json.loads(bytes(content))
        except (ValueError, RecursionError):
            return response.status_code, None
