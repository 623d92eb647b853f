"""How large a request body may be, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 2 << 20
"""Bytes: the largest plan file, written as JSON within JSON."""
MAX_MESSAGE = 24 << 20
"""Bytes of a message with what is attached to it, which may be pictures as text."""
BODY_S = 300.0
"""Seconds for a body to arrive whole, from when somebody reads it: 24 MiB over a slow line take less."""
MESSAGES = frozenset({"/api/v1/copilot/chat", "/api/copilot/chat", "/api/agui"})
"""The routes that take messages."""


class BodyLimit:
    """Reads so many bytes of a body at most, for so long at most; what announces more is refused unread."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = MAX_MESSAGE if scope["path"] in MESSAGES else MAX_BODY
        announced = Headers(scope=scope).get("content-length", "0")
        too_much = announced.isdecimal() and int(announced[:20]) > most
        read, whole = 0, False
        until: float | None = None

        async def counted() -> Message:
            nonlocal read, whole, until
            if whole:  # what comes next is that the client is gone, and may be long in coming
                return await receive()
            until = until or asyncio.get_running_loop().time() + BODY_S
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                late = f"the body did not arrive within {BODY_S:g} s"
                raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, late, {"connection": "close"}) from None
            whole = not message.get("more_body", False)
            read += len(message.get("body", b""))
            if too_much or read > most:
                # FastAPI hands this on to the application's own handlers, whoever is reading.
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most >> 20} MiB")
            return message

        await self._app(scope, counted, send)
