"""Ways into the application in a test: straight into it, or through a real server at a real door."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support.services import PATIENCE_S, World

from pilothouse.engine.services import Services
from pilothouse.interfaces.http.api import ChatFlags, OwnerInfo, make_api
from pilothouse.interfaces.http.guard import Guard
from pilothouse.interfaces.http.mcp import Speaker
from pilothouse.interfaces.http.server import serve
from pilothouse.interfaces.mcp.door import McpDoor

T = TypeVar("T")

SSE = {"accept": "text/event-stream"}


def run(journey: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(journey, 3 * PATIENCE_S))


@dataclass
class Inside:
    """An application, its services, and a client that needs no sockets."""

    services: Services
    guard: Guard
    owner: OwnerInfo
    app: FastAPI
    client: httpx.AsyncClient
    stepped_down: list[bool] = field(default_factory=list)


@asynccontextmanager
async def inside(
    world: World | None = None,
    *,
    mode: str = "serve",
    keepalive: float = 15.0,
    flags: ChatFlags | None = None,
    mcp: Speaker | None = None,
) -> AsyncIterator[Inside]:
    """The application as the Unix socket's door shows it."""
    owner = OwnerInfo(os.getpid(), "1.2.3", mode)
    stepped_down: list[bool] = []
    async with (world or World()).engine() as services:
        guard = Guard(services.keys, agents=services.agent_tokens)
        app = make_api(
            services,
            guard,
            owner,
            lambda: stepped_down.append(True),
            keepalive=keepalive,
            flags=flags or ChatFlags(),
            mcp=mcp or McpDoor(services.tool_callers, owner.version),
        )
        async with client_of(from_user(guard.unix(app), os.getuid())) as client:
            yield Inside(services, guard, owner, app, client, stepped_down)


def from_user(app: ASGIApp, uid: int | None) -> ASGIApp:
    """``app`` as a connection of some user reaches it."""

    async def connected(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {} if uid is None else {"peer_uid": uid}}, receive, send)

    return connected


def client_of(app: ASGIApp, base_url: str = "http://localhost") -> httpx.AsyncClient:
    # What httpx calls an application is narrower than what Starlette calls one.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)  # type: ignore[arg-type,unused-ignore]
    return httpx.AsyncClient(transport=transport, base_url=base_url)


@dataclass
class Served(Inside):
    """A real server with both doors; ``client`` comes in by the Unix socket."""

    socket: Path = Path()
    port: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] = field(init=False)

    def browser(self) -> httpx.AsyncClient:
        """A client at the TCP door that has not logged in."""
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S)


@asynccontextmanager
async def served(
    folder: Path,
    world: World | None = None,
    *,
    keepalive: float = 15.0,
    flags: ChatFlags | None = None,
    mcp: Speaker | None = None,
) -> AsyncIterator[Served]:
    async with inside(world, keepalive=keepalive, flags=flags, mcp=mcp) as found:
        socket = folder / "owner.sock"
        listening = asyncio.get_running_loop().create_future()

        def ready(port: int | None) -> None:
            assert port is not None
            found.guard.listening("127.0.0.1", port)
            listening.set_result(port)

        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
            server = Served(
                found.services, found.guard, found.owner, found.app, client, found.stepped_down, socket=socket
            )
            server.task = asyncio.create_task(
                serve(
                    found.guard.tcp(found.app),
                    found.guard.unix(found.app),
                    socket_path=socket,
                    host="127.0.0.1",
                    port=0,
                    ready=ready,
                    stop=server.stop,
                )
            )
            await asyncio.wait((listening, server.task), return_when=asyncio.FIRST_COMPLETED)
            try:
                server.port = listening.result()
                yield server
            finally:
                server.stop.set()
                await server.task


@dataclass(frozen=True)
class Sent:
    """One event as a client sees it."""

    id: str
    event: str
    data: str


async def events(response: httpx.Response) -> AsyncIterator[Sent | str]:
    """What a stream carries: events, and comments as plain text."""
    id, name, data = "", "", ""
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield line
        elif not line:
            if data:
                yield Sent(id, name, data)
            name, data = "", ""
        else:
            key, _, value = line.partition(": ")
            id, name, data = (
                value if key == "id" else id,
                value if key == "event" else name,
                value if key == "data" else data,
            )


async def eventually(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not met():
            await asyncio.sleep(0.005)
