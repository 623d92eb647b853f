"""The only place that wires: settings in, a running server out.

Everything else is handed what it needs. Heavy imports stand inside the functions that need them, so that the
command line can import this module for its lighter ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.errors import PilothouseError, Unavailable
from pilothouse.owner import Owner, owning, private_dir, read_owner, settings_mark, socket_path, write_owner

if TYPE_CHECKING:
    from pilothouse.adapters.backends.opening import BackendConfig
    from pilothouse.adapters.work.local import LocalExecutor
    from pilothouse.engine.chat_ports import Backend
    from pilothouse.engine.services import Services
    from pilothouse.interfaces.http.activity import Activity
    from pilothouse.settings import Settings

log = logging.getLogger("pilothouse")

LOCK_WAIT_S = 10.0
"""How long `serve` waits for a background owner to step down."""


def version() -> str:
    return installed_version("pilothouse")


@asynccontextmanager
async def assembled(settings: Settings) -> AsyncIterator[Services]:
    """A whole engine over a data directory: the caller holds its lock. Leaving lets go of all runs; what they run goes
    on for the next owner. Raises ``Unavailable``."""
    from pilothouse.adapters.agents.local import LocalAgents
    from pilothouse.adapters.backends.opening import open_backend
    from pilothouse.adapters.git.adapter import GitAdapter
    from pilothouse.adapters.signals.opening import open_signals
    from pilothouse.adapters.store.opening import open_event_store
    from pilothouse.adapters.store.output import FileLogStore
    from pilothouse.adapters.system.clock import SystemClock
    from pilothouse.adapters.system.ids import Uuid7Ids
    from pilothouse.adapters.vault.opening import open_vault
    from pilothouse.adapters.vault.provider import HttpProvider
    from pilothouse.adapters.work.local import LocalExecutor
    from pilothouse.core.auth.rates import per_minute
    from pilothouse.core.chat.kind import TurnKind
    from pilothouse.core.credentials.services import services
    from pilothouse.core.plan.kind import PlanKind
    from pilothouse.core.run.agents import Permissions
    from pilothouse.engine.access import Access
    from pilothouse.engine.agent_known import KnownInLog
    from pilothouse.engine.agent_turns import AgentTurns
    from pilothouse.engine.agents import AgentCatalogue
    from pilothouse.engine.chat_documents import ChatDocuments
    from pilothouse.engine.chat_history import ChatHistory
    from pilothouse.engine.chat_turns import ChatTurns
    from pilothouse.engine.chats import Chats
    from pilothouse.engine.confirmations import Confirmations
    from pilothouse.engine.credentials import Credentials
    from pilothouse.engine.janitor import Janitor
    from pilothouse.engine.keys import Keys
    from pilothouse.engine.kinds import REGISTRY
    from pilothouse.engine.oauth import OAuth
    from pilothouse.engine.plan_effects import PlanEffects
    from pilothouse.engine.plans import Plans
    from pilothouse.engine.queries import Queries
    from pilothouse.engine.repos import Repos
    from pilothouse.engine.runs import Runs
    from pilothouse.engine.services import Services
    from pilothouse.engine.supervisor import Driven, supervising
    from pilothouse.engine.tools import ToolRegistry
    from pilothouse.engine.turn_effects import TurnEffects
    from pilothouse.engine.workflows import Workflows

    data_dir = private_dir(settings.data_dir)
    worktree_root = str(private_dir(_worktree_root(settings.worktree_root, data_dir)).resolve())
    clock, ids = SystemClock(), Uuid7Ids()
    agents = LocalAgents(
        os.environ,
        private_root=private_dir(data_dir / "agents"),
        config=settings.agent_configs,
        prices=settings.price_table,
    )
    async with contextlib.AsyncExitStack() as stack:
        store = await open_event_store(settings.database_url or data_dir / "pilothouse.db")
        stack.push_async_callback(store.close)
        epoch = await store.take_ownership()
        credentials = Credentials(open_vault(data_dir, settings.vault_key), clock, services(settings.oauth_services))
        oauth = OAuth(credentials, HttpProvider(), clock, secrets.token_bytes)
        stack.push_async_callback(oauth.close)
        executor = await stack.enter_async_context(LocalExecutor(data_dir, epoch, settings.orphan_grace))
        git = GitAdapter()
        logs = FileLogStore(executor.outputs)
        tools = ToolRegistry(secrets=credentials, complete=False)
        chat_kind, chat_documents, chat_turns = TurnKind(), ChatDocuments(store, clock), ChatTurns(store)
        history = ChatHistory(store, REGISTRY, chat_kind, chat_documents)
        config = _backend_config(settings)
        backend: Backend
        if config.chosen == "agent":
            backend = AgentTurns(
                settings.agent,
                agents,
                executor,
                logs,
                clock,
                before=history.before,
                known_of=KnownInLog(store, REGISTRY),
                folder=lambda chat_id: str(private_dir(private_dir(data_dir / "chats") / chat_id)),
                permissions=Permissions(settings.agent_permissions),
            )
        else:
            backend = await stack.enter_async_context(open_backend(config))
        perform_plan = PlanEffects(git, executor, clock, agents, logs)
        perform_turn = TurnEffects(backend, tools, chat_documents, history, clock)
        supervisor = await stack.enter_async_context(
            supervising(
                store=store,
                registry=REGISTRY,
                clock=clock,
                kinds={
                    PlanKind.name: Driven(PlanKind(), perform_plan),
                    TurnKind.name: Driven(chat_kind, perform_turn),
                },
                inventory=executor.inventory,
                slots=settings.max_parallel,
                epoch=epoch,
            )
        )
        repos = Repos(store, git, clock)
        plans = Plans(
            supervisor=supervisor,
            store=store,
            git=git,
            executor=executor,
            logs=logs,
            clock=clock,
            ids=ids,
            agents=agents,
            worktree_root=worktree_root,
            backoff_ms=round(settings.agent_backoff * 1000),
        )
        janitor = Janitor(
            supervisor=supervisor,
            store=store,
            repos=repos,
            git=git,
            executor=executor,
            clock=clock,
            worktree_root=worktree_root,
        )
        await stack.enter_async_context(_in_background(janitor.run()))
        await stack.enter_async_context(_in_background(_warm_up(executor)))
        queries = Queries(supervisor, store, supervisor.hub, logs, git)
        workflows = Workflows(store=store, plans=plans, clock=clock, ids=ids)
        tools.complete()
        signals = open_signals(settings.redis_url)
        stack.push_async_callback(signals.close)
        confirmations = Confirmations(
            signals=signals,
            tell=supervisor.tell,
            drives=lambda run_id: run_id in supervisor.live,
            waiting=lambda: store.rows(kind=TurnKind.name, waiting=True),
            shared=bool(settings.redis_url),
        )
        if settings.redis_url:
            await stack.enter_async_context(confirmations.taking())
        chats = Chats(
            supervisor=supervisor,
            store=store,
            backend=backend,
            tools=tools,
            workflows=workflows,
            repos=repos,
            clock=clock,
            ids=ids,
            documents=chat_documents,
            history=history,
            turns=chat_turns,
            confirm=confirmations.confirm,
        )
        yield Services(
            supervisor=supervisor,
            runs=Runs(supervisor, store, chat_turns),
            plans=plans,
            queries=queries,
            repos=repos,
            clock=clock,
            agents=AgentCatalogue(agents),
            keys=Keys(store, clock, secrets.token_bytes, per_minute(settings.key_rate)),
            access=Access(store),
            workflows=workflows,
            chats=chats,
            tools=tools,
            backend=backend,
            credentials=credentials,
            oauth=oauth,
        )
        if not supervisor.live:  # a run between two commands needs the life of the warden that it was placed on
            with contextlib.suppress(PilothouseError):
                await executor.shutdown(when_idle=True)


def _backend_config(settings: Settings) -> BackendConfig:
    from pilothouse.adapters.backends.opening import BackendConfig

    same = ("agent", "script", "llm_provider", "llm_base_url", "llm_model", "llm_context_tokens")
    return BackendConfig(
        kind=settings.backend,
        url=settings.backend_url,
        api_key=settings.backend_api_key.get_secret_value(),
        llm_api_key=settings.llm_api_key.get_secret_value(),
        prices=settings.price_table,
        **{name: getattr(settings, name) for name in same},
    )


def _worktree_root(asked: Path | None, data_dir: Path) -> Path:
    """A directory that is ours alone: what lies three levels deep in it, and no plan knows, is removed as an orphan. So
    never the one a person named, which may hold anything; nor that of another data directory."""
    if asked is None:
        return data_dir / "worktrees"
    return asked / f"pilothouse-{hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:8]}"


async def _warm_up(executor: LocalExecutor) -> None:
    """Have a warden before the first node needs one."""
    try:
        await executor.inventory()
    except PilothouseError as error:
        log.warning("warden.unreachable", exc_info=error)  # the first node will say so too


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


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
    from pilothouse.interfaces.http.activity import Activity
    from pilothouse.interfaces.http.api import ChatFlags, OwnerInfo, make_api
    from pilothouse.interfaces.http.guard import Guard
    from pilothouse.interfaces.http.server import serve as serve_http

    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    data_dir = private_dir(settings.data_dir)
    where = socket_path(data_dir)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _lock(data_dir, mode) as ours, contextlib.AsyncExitStack() as stack:
        if not ours:
            return  # another background owner was faster, and serves whoever asked for this one
        services = await stack.enter_async_context(assembled(settings))
        guard, info = Guard(services.keys), OwnerInfo(os.getpid(), version(), mode, settings=mark)
        flags = ChatFlags(settings.copilot_use_server_orchestrator, settings.copilot_enable_headless_api)
        api = make_api(services, guard, info, stop.set, flags=flags)
        local = Activity(guard.unix(api))

        def ready(port: int | None) -> None:
            if port is not None:
                host = settings.host if ":" not in settings.host else f"[{settings.host}]"
                info.url = f"http://{host}:{port}"
                guard.listening(settings.host, port)
            write_owner(data_dir, Owner(info.pid, info.version, str(where), mode, info.url, info.settings))
            if port is not None:
                announce(f"{info.url}/login?token={guard.new_token()}")

        if mode == "background":
            idle = _end_when_idle(services, local, settings.idle_timeout, stop)
            await stack.enter_async_context(_in_background(idle))
        host = settings.host if mode == "serve" else None
        await serve_http(
            guard.tcp(api), local, socket_path=where, host=host, port=settings.port, ready=ready, stop=stop
        )
        if services.supervisor.live and mode == "serve":
            left, grace = len(services.supervisor.live), settings.orphan_grace
            log.info("server.left: %d runs go on for %g s; start a server within that time to keep them", left, grace)


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
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
