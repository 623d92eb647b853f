"""The process that owns a data directory: it takes the lock, has the engine assembled, opens the doors, and steps down.

Heavy imports stand inside the functions that need them, so that the command line can import this module for its lighter
ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.assembly import assembled, in_background
from pilothouse.client.owners import GAVE_UP
from pilothouse.errors import PilothouseError, Unavailable
from pilothouse.owner import Owner, owning, private_dir, read_owner, settings_mark, socket_path, write_owner

if TYPE_CHECKING:
    from pilothouse.engine.chat_ports import Warms
    from pilothouse.engine.services import Services
    from pilothouse.interfaces.http.activity import Activity
    from pilothouse.settings import Settings

log = logging.getLogger("pilothouse")

LOCK_WAIT_S = 10.0
"""How long `serve` waits for a background owner to step down."""

_NEW_OBJECTS = 10_000
"""After so many the collector looks whether they are garbage; Python's own number is for small programs."""


def version() -> str:
    return installed_version("pilothouse")


def serve(
    *,
    host: str | None = None,
    port: int | None = None,
    data_dir: Path | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve HTTP until SIGTERM or Ctrl-C; takes over from a background owner without disturbing its work.

    ``announce`` is given the URL with its one-time login token. Raises ``Unavailable`` when another ``serve`` has the
    directory, or the port is taken."""
    from pilothouse.settings import read_settings

    settings = read_settings(host=host, port=port, data_dir=data_dir)
    _run(_serve(settings, "serve", announce))


def run_background_owner(data_dir: Path | None) -> None:
    """The owner a client starts when there is none. Ends when idle, or when ``serve`` asks it to."""
    from pilothouse.settings import read_settings

    settings, mark = read_settings(data_dir=data_dir), settings_mark()  # with the `.env` of where the client was
    settings.data_dir = settings.data_dir.absolute()
    settings.worktree_root = settings.worktree_root and settings.worktree_root.absolute()
    settings.prices = settings.prices and settings.prices.absolute()
    os.chdir("/")  # it outlives its client, and must hold no directory that somebody may want to unmount
    _run(_serve(settings, "background", lambda _: None, mark))


def bridge(find: Callable[[], str]) -> None:
    """Bridge MCP between this process' standard input and output and an owner, to the end of the input. ``find`` says
    where its socket is, also after it went away."""
    from pilothouse.interfaces.mcp.bridge import over_stdio

    over_stdio(find)


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        try:
            import uvloop
        except ImportError:
            asyncio.run(main)
        else:
            uvloop.run(main)
    except ExceptionGroup as group:
        raise _alone(group) from None


def _alone(error: Exception) -> Exception:
    """What failed alone comes out as itself, out of however many task groups, so that the door can say it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _serve(settings: Settings, mode: str, announce: Callable[[str], None], mark: str = "") -> None:
    """``mark``: what ``settings`` were read from, see ``settings_mark``."""
    from pilothouse.engine.chat_ports import Warms
    from pilothouse.interfaces.http.activity import Activity
    from pilothouse.interfaces.http.api import ChatFlags, OwnerInfo, make_api
    from pilothouse.interfaces.http.guard import Guard
    from pilothouse.interfaces.http.server import serve as serve_http
    from pilothouse.interfaces.mcp.door import McpDoor

    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if settings.log_level != "DEBUG":
        for each in ("httpx", "mcp"):  # a line for each request: to a backend, of an agent
            logging.getLogger(each).setLevel(logging.WARNING)
    data_dir = private_dir(settings.data_dir)
    where = socket_path(data_dir)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _lock(data_dir, mode) as ours, contextlib.AsyncExitStack() as stack:
        if not ours:
            return  # another background owner was faster, and serves whoever asked for this one
        services = await stack.enter_async_context(assembled(settings))
        guard = Guard(services.keys, agents=services.agent_tokens)
        info = OwnerInfo(os.getpid(), version(), mode, settings=mark)
        flags = ChatFlags(settings.copilot_use_server_orchestrator, settings.copilot_enable_headless_api)
        mcp = McpDoor(services.tool_callers, info.version)
        api = make_api(services, guard, info, stop.set, flags=flags, mcp=mcp)
        local = Activity(guard.unix(api))
        is_ready = asyncio.Event()
        if isinstance(services.backend, Warms):
            await stack.enter_async_context(in_background(_warm(services.backend, is_ready)))
        if services.backend.features.own_tools:  # it will be given ours beside them
            await stack.enter_async_context(in_background(_warm(mcp, is_ready)))

        def ready(port: int | None) -> None:
            if port is not None:
                host = settings.host if ":" not in settings.host else f"[{settings.host}]"
                info.url = f"http://{host}:{port}"
                guard.listening(settings.host, port)
            write_owner(data_dir, Owner(info.pid, info.version, str(where), mode, info.url, info.settings))
            if port is not None:
                announce(f"{info.url}/login?token={guard.new_token()}")
            is_ready.set()

        if mode == "background":
            idle = _end_when_idle(services, local, settings.idle_timeout, stop)
            await stack.enter_async_context(in_background(idle))
        host = settings.host if mode == "serve" else None
        _settle()
        await serve_http(
            guard.tcp(api), local, socket_path=where, host=host, port=settings.port, ready=ready, stop=stop
        )
        if services.supervisor.live and mode == "serve":
            left, grace = len(services.supervisor.live), settings.orphan_grace
            log.info("server.left: %d runs go on for %g s; start a server within that time to keep them", left, grace)


async def _warm(what: Warms, is_ready: asyncio.Event) -> None:
    """Once the server is up: getting ready takes the time of a processor, which nobody should wait for."""
    await is_ready.wait()
    try:
        await what.warm()
    except (ImportError, Unavailable) as error:
        log.warning("server.cold: whoever needs it first will be told why: %s", error)


def _settle() -> None:
    """From now on the collector looks only through what comes and goes: a full collection of what the server is made of
    would hold up every stream. And it looks less often: what a thousand streams make when they wake all lives on."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


async def _end_when_idle(services: Services, activity: Activity, timeout: float, stop: asyncio.Event) -> None:
    """Set ``stop`` once there is neither work nor a client for ``timeout`` seconds."""
    while True:
        await asyncio.sleep(min(1.0, max(0.05, timeout / 4)))
        if activity.idle_s >= timeout and not services.supervisor.live:
            log.info("server.idle: ending")
            stop.set()


@asynccontextmanager
async def _lock(data_dir: Path, mode: str) -> AsyncIterator[bool]:
    """Hold the data directory; False when a background owner finds another owner there. ``serve`` asks a background
    owner to step down and waits for it. Raises ``Unavailable`` when somebody else serves it."""
    deadline = asyncio.get_running_loop().time() + LOCK_WAIT_S
    while True:
        with owning(data_dir) as ours:
            if ours or mode == "background":
                yield ours
                return
        await asyncio.to_thread(_ask_to_step_down, data_dir)
        if asyncio.get_running_loop().time() > deadline:
            raise Unavailable(f"another process holds {data_dir} and does not let go")
        await asyncio.sleep(0.05)


def _ask_to_step_down(data_dir: Path) -> None:
    from pilothouse.interfaces.cli.client import Client

    owner = read_owner(data_dir)
    if owner is None:
        return  # it is starting or ending
    if owner.mode == "serve":
        raise Unavailable(f"{data_dir} is served already, by process {owner.pid} at {owner.url}")
    with contextlib.suppress(PilothouseError):  # it is ending, or not listening yet: asked again in a moment
        Client(owner.socket).post("/api/owner/step-down")


def main() -> None:
    """``python -m pilothouse.app owner --data-dir DIR``: how clients start an owner."""
    parser = argparse.ArgumentParser(prog="pilothouse.app")
    parser.add_argument("role", choices=["owner"])
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    try:
        run_background_owner(given.data_dir)
    except PilothouseError as error:
        sys.stderr.write(f"{GAVE_UP}{error}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
