"""Settings in, a whole engine out: the only place that knows which adapter each seam gets.

Everything else is handed what it needs. Heavy imports stand inside the functions that need them, so that the
command line can import this module for its lighter ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import logging
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.errors import PilothouseError
from pilothouse.owner import private_dir, socket_path

if TYPE_CHECKING:
    from pilothouse.adapters.backends.opening import BackendConfig
    from pilothouse.engine.chat_ports import Backend
    from pilothouse.engine.services import Services
    from pilothouse.settings import Settings

log = logging.getLogger("pilothouse")

_BRIDGE = (sys.executable, "-P", "-m", "pilothouse.interfaces.mcp.bridge")
"""The server of tools that agents are given. Nothing of the directory that it is started in becomes part of it."""


@asynccontextmanager
async def assembled(settings: Settings, *, listens: bool = True) -> AsyncIterator[Services]:
    """A whole engine over a data directory: the caller holds its lock. Leaving lets go of all runs; what they run goes
    on for the next owner. Raises ``Unavailable``.

    ``listens``: whether its socket is going to be served; if not, no agent is sent there for tools."""
    from pilothouse.adapters.agents.environment import HostEnvironment
    from pilothouse.adapters.agents.local import LocalAgents
    from pilothouse.adapters.backends.opening import open_backend_or_say
    from pilothouse.adapters.git.adapter import GitAdapter
    from pilothouse.adapters.signals.opening import open_signals
    from pilothouse.adapters.store.opening import open_event_store
    from pilothouse.adapters.store.output import FileLogStore
    from pilothouse.adapters.system.clock import SystemClock
    from pilothouse.adapters.system.ids import Uuid7Ids
    from pilothouse.adapters.system.secret import kept_secret
    from pilothouse.adapters.toolbox.integrations.api import Web
    from pilothouse.adapters.toolbox.integrations.every import integration_tools
    from pilothouse.adapters.toolbox.opening import ToolboxConfig, open_toolbox
    from pilothouse.adapters.toolbox.shell import LocalShells
    from pilothouse.adapters.vault.opening import open_vault
    from pilothouse.adapters.vault.provider import HttpProvider
    from pilothouse.adapters.work.local import LocalExecutor
    from pilothouse.core.auth.agent_tokens import SECRET_BYTES
    from pilothouse.core.auth.rates import per_minute
    from pilothouse.core.chat.kind import TurnKind
    from pilothouse.core.credentials.services import services
    from pilothouse.core.plan.kind import PlanKind
    from pilothouse.core.run.agents import Permissions
    from pilothouse.engine.access.access import Access
    from pilothouse.engine.access.credentials import Credentials
    from pilothouse.engine.access.keys import Keys
    from pilothouse.engine.access.oauth import OAuth
    from pilothouse.engine.access.repos import Repos
    from pilothouse.engine.agents.catalogue import AgentCatalogue
    from pilothouse.engine.answering.backend import AgentTurns
    from pilothouse.engine.answering.known import KnownInLog
    from pilothouse.engine.answering.server import AgentTools
    from pilothouse.engine.answering.tokens import AgentTokens
    from pilothouse.engine.calling.callers import Callers
    from pilothouse.engine.chats.chats import Chats
    from pilothouse.engine.chats.confirmations import Confirmations
    from pilothouse.engine.chats.documents import ChatDocuments
    from pilothouse.engine.chats.effects import TurnEffects
    from pilothouse.engine.chats.history import ChatHistory
    from pilothouse.engine.chats.turns import ChatTurns
    from pilothouse.engine.driving.supervisor import Driven, supervising
    from pilothouse.engine.janitor import Janitor
    from pilothouse.engine.kinds import REGISTRY
    from pilothouse.engine.own_tools.every import own_tools
    from pilothouse.engine.own_tools.shell import end_left_over, shell_tools
    from pilothouse.engine.plans.effects import PlanEffects
    from pilothouse.engine.plans.plans import Plans
    from pilothouse.engine.plans.workflows import Workflows
    from pilothouse.engine.queries import Queries
    from pilothouse.engine.runs import Runs
    from pilothouse.engine.services import Services
    from pilothouse.engine.tools.journal import ToolJournal
    from pilothouse.engine.tools.registry import ToolRegistry

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
        secret = await asyncio.to_thread(kept_secret, data_dir / "agent-tokens.key", SECRET_BYTES)
        git = GitAdapter()
        logs = FileLogStore(executor.outputs)
        tools = ToolRegistry(secrets=credentials, complete=False, journal=ToolJournal(logs, clock, ids))
        host = HostEnvironment(os.environ, (config.api_key_env for config in settings.agent_configs.values()))
        shells = LocalShells(host, data_dir=data_dir, private=private_dir(data_dir / "shell"))
        chat_kind, chat_documents, chat_turns = TurnKind(), ChatDocuments(store, clock), ChatTurns(store)
        history = ChatHistory(store, REGISTRY, chat_kind, chat_documents)
        config = backend_config(settings)
        backend: Backend
        if config.chosen == "agent" and settings.agent:
            backend = AgentTurns(
                settings.agent,
                agents,
                executor,
                logs,
                clock,
                before=history.before,
                known_of=KnownInLog(store, REGISTRY),
                folder=lambda chat_id: str(private_dir(private_dir(data_dir / "chats") / chat_id)),
                remove=lambda chat_id: shutil.rmtree(data_dir / "chats" / chat_id, ignore_errors=True),
                permissions=Permissions(settings.agent_permissions),
                tools=AgentTools(tools, secret, _BRIDGE, str(socket_path(data_dir).absolute()), _why_no_tools())
                if listens
                else None,
            )
        else:
            backend = await stack.enter_async_context(open_backend_or_say(config))
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
        await stack.enter_async_context(in_background(janitor.run()))
        await stack.enter_async_context(
            in_background(_warm_up(lambda: end_left_over(executor, logs, shells, str(epoch))))
        )
        queries = Queries(supervisor, store, supervisor.hub, logs, git)
        workflows = Workflows(store=store, plans=plans, clock=clock, ids=ids)
        runs, access = Runs(supervisor, store, chat_turns), Access(store)
        of_the_engine = own_tools(
            workflows=workflows, repos=repos, plans=plans, runs=runs, queries=queries, access=access
        )
        toolbox = open_toolbox(ToolboxConfig(http_allow=settings.http_allow, docs=settings.docs))
        web = Web()
        stack.push_async_callback(web.close)
        of_services = integration_tools(oauth, web)
        for tool in (*toolbox, *of_the_engine, *shell_tools(executor, logs, shells, ids, str(epoch)), *of_services):
            tools.add(tool)
        tools.complete()
        mac = await asyncio.to_thread(kept_secret, data_dir / "signals.key", 32) if settings.redis_url else b""
        signals = open_signals(settings.redis_url, mac)
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
            runs=runs,
            plans=plans,
            queries=queries,
            repos=repos,
            clock=clock,
            agents=AgentCatalogue(agents),
            keys=Keys(store, clock, secrets.token_bytes, per_minute(settings.key_rate)),
            access=access,
            workflows=workflows,
            chats=chats,
            tools=tools,
            tool_callers=Callers(supervisor, tools, chats, backend),
            agent_tokens=AgentTokens(secret, supervisor),
            backend=backend,
            credentials=credentials,
            oauth=oauth,
        )
        if not supervisor.live:  # a run between two commands needs the life of the warden that it was placed on
            with contextlib.suppress(PilothouseError):
                await executor.shutdown(when_idle=True)


def _why_no_tools() -> str:
    if importlib.util.find_spec("mcp") is not None:
        return ""
    return "The agent goes without the tools of this server: for those, pip install 'pilothouse[mcp]'"


def backend_config(settings: Settings) -> BackendConfig:
    """What settings say about who answers."""
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


async def _warm_up(first: Callable[[], Awaitable[None]]) -> None:
    """Have a warden before the first node needs one, by asking it something."""
    try:
        await first()
    except PilothouseError as error:
        log.warning("warden.unreachable", exc_info=error)  # the first node will say so too


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """``work`` beside the body, ended with it. The body goes on where it fails, and the log says so."""
    task = asyncio.create_task(work)
    task.add_done_callback(_tell)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background.crashed", exc_info=error)
