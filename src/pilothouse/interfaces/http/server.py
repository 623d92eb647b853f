"""Serving an application at both doors, in the loop that is running, until told to stop.

Owns sockets, protocols and the order of an end: streams are ended, requests finish, connections close. Signals are not
its business: whoever calls sets ``stop``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pilothouse.interfaces.http.sockets import bind_tcp, bind_unix, peer_uid, remove_unix
from pilothouse.interfaces.http.sse import OpenStreams

log = logging.getLogger(__name__)

GRACE_S = 3
"""Seconds for requests to finish when the server stops; then they are cut off."""

HEAD_S = 10.0
"""Seconds for the head of a request to arrive."""

MAX_HEAD = 64 << 10
"""Bytes of a request's head."""

_TICK_S = 1.0
"""How often uvicorn renews the Date header."""


async def serve(
    app_tcp: ASGIApp,
    app_unix: ASGIApp,
    *,
    socket_path: Path,
    host: str | None,
    port: int,
    ready: Callable[[int | None], None],
    stop: asyncio.Event,
) -> None:
    """Serve ``app_unix`` at a Unix socket and, with a ``host``, ``app_tcp`` on TCP, until ``stop`` is set.

    ``ready`` is called once both listen, with the TCP port that was bound (None without TCP); nothing is accepted
    before it returns. A socket file that is in the way is replaced: the caller holds the lock of the directory.
    Raises ``Unavailable`` or ``BadInput`` when an address cannot be had; then nothing was served."""
    with contextlib.ExitStack() as stack:
        sockets = []
        if host is not None:
            sockets.append(stack.enter_context(bind_tcp(host, port)))
        bound = sockets[0].getsockname()[1] if sockets else None
        sockets.append(stack.enter_context(bind_unix(socket_path)))
        stack.callback(remove_unix, socket_path)

        async def by_door(scope: Scope, receive: Receive, send: Send) -> None:
            # What the protocol found when the connection was made, nothing a client could say.
            app = app_unix if "peer_uid" in scope.get("state", {}) else app_tcp
            await app(scope, receive, send)

        config = uvicorn.Config(
            by_door,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        await _Server(config, stop, lambda: ready(bound)).serve(sockets)


class _Protocol(HttpToolsProtocol):
    """Notes who is at the other end of a Unix socket, where every request of the connection finds it; and bounds what
    somebody can make us hold before we know who it is: the size of a request's head, and the wait for it."""

    _head = 0
    """Bytes of a head that is not complete yet."""
    _in_head = True
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_UNIX:
            self.app_state: dict[str, Any] = {**self.app_state, "peer_uid": _uid_or_nobody(sock)}
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > MAX_HEAD and not self.transport.is_closing():
                self.send_400_response("The head of this request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head = True, 0
        self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _await_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def _uid_or_nobody(sock: socket.socket) -> int | None:
    try:
        return peer_uid(sock)
    except OSError:
        return None  # who cannot be identified is not let in


class _Server(uvicorn.Server):
    """uvicorn, told to stop by an event, and not kept from it by streams that never end."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._ready = ready
        self._streams = OpenStreams()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state["streams"] = self._streams
        self._ready()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        while not self._stop.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
