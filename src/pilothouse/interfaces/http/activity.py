"""Whether anybody uses a server: requests in progress, and when the last one ended.

A background owner ends when nobody has for a while; nothing else is decided by this.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Activity:
    """An ASGI application around another one, that counts."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._open = 0
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended; 0 while one is in progress."""
        return 0.0 if self._open else time.monotonic() - self._last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last = time.monotonic()
