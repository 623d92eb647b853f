"""The HTTP application: all routes over the services, whoever comes in by whichever door.

Has no idea of sockets, processes or start-up; a test calls it as it is. Who may come in is the guard's business.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Depends, FastAPI

from pilothouse.engine.services import Services
from pilothouse.interfaces.http.access import SCHEMES, make_access
from pilothouse.interfaces.http.agents import make_agents
from pilothouse.interfaces.http.agui import make_agui
from pilothouse.interfaces.http.approvals import make_approvals
from pilothouse.interfaces.http.chat import make_chat
from pilothouse.interfaces.http.chats import make_chats
from pilothouse.interfaces.http.commands import make_commands
from pilothouse.interfaces.http.describe import PROBLEMS
from pilothouse.interfaces.http.docs import install_docs
from pilothouse.interfaces.http.events import make_events
from pilothouse.interfaces.http.guard import Guard
from pilothouse.interfaces.http.headless import make_headless
from pilothouse.interfaces.http.keys import make_keys
from pilothouse.interfaces.http.limits import BodyLimit
from pilothouse.interfaces.http.mcp import Speaker, make_mcp
from pilothouse.interfaces.http.operations import OwnerInfo, make_operations
from pilothouse.interfaces.http.passing import ALL_ON, ChatFlags
from pilothouse.interfaces.http.plans import make_plans
from pilothouse.interfaces.http.problems import install
from pilothouse.interfaces.http.repos import make_repos
from pilothouse.interfaces.http.runs import make_runs
from pilothouse.interfaces.http.sse import KEEPALIVE_S
from pilothouse.interfaces.http.tools import make_tools
from pilothouse.interfaces.http.vault import make_vault
from pilothouse.interfaces.http.workflows import make_workflows

__all__ = ["ChatFlags", "OwnerInfo", "make_api"]


def make_api(
    services: Services,
    guard: Guard,
    owner: OwnerInfo,
    on_step_down: Callable[[], None],
    *,
    keepalive: float = KEEPALIVE_S,
    flags: ChatFlags = ALL_ON,
    mcp: Speaker | None = None,
) -> FastAPI:
    """The application, to be put behind ``guard.unix`` and ``guard.tcp``.

    ``on_step_down`` is called when a background owner is asked to let go; ``keepalive`` is in seconds;
    without ``mcp`` nobody answers at its route."""
    app = FastAPI(
        title="Pilothouse",
        version=owner.version,
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
        dependencies=[Depends(make_access(services.access)), *SCHEMES],
    )
    app.add_middleware(BodyLimit)
    install(app)
    install_docs(app)
    app.include_router(make_operations(services, guard, owner, on_step_down))
    app.include_router(make_plans(services))
    app.include_router(make_workflows(services))
    app.include_router(make_headless(services, flags, keepalive))
    app.include_router(make_chat(services, flags, keepalive))
    app.include_router(make_chats(services))
    app.include_router(make_tools(services, flags))
    app.include_router(make_agui(services, keepalive))
    app.include_router(make_commands())
    app.include_router(make_events(services, keepalive))
    app.include_router(make_runs(services))
    app.include_router(make_approvals(services))
    app.include_router(make_agents(services))
    app.include_router(make_repos(services))
    app.include_router(make_keys(services))
    app.include_router(make_vault(services))
    app.include_router(make_mcp(mcp))
    return app
