"""Routes of the server itself: is it up, who is it, what does it do; and logging in to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pilothouse.engine.services import Services
from pilothouse.errors import Refused
from pilothouse.interfaces.http.bodies import Login
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import Guard, only_at_home
from pilothouse.interfaces.http.wire import Json

HOME = "/docs"
"""Where a browser goes after logging in: there is no page to work with yet."""


@dataclass(slots=True)
class OwnerInfo:
    """The process that serves. ``url`` is empty until (and unless) it listens on TCP; ``mode`` is ``serve`` or
    ``background``."""

    pid: int
    version: str
    mode: str
    url: str = ""
    settings: str = ""
    """See ``pilothouse.owner.Owner``."""


def make_operations(services: Services, guard: Guard, owner: OwnerInfo, on_step_down: Callable[[], None]) -> APIRouter:
    """``on_step_down`` is called when a background owner was asked to let go."""
    router = APIRouter(tags=["operations"])

    @router.get("/healthz", responses=answer({"status": "ok"}))
    async def healthz() -> Response:
        """Whether the process answers. Needs no credential."""
        return Json({"status": "ok"})

    @router.get("/readyz", responses=answer({"status": "ready", "version": "0.1.0"}))
    async def readyz() -> Response:
        """Whether it serves: the log is open and what was interrupted has been taken over. Needs no credential."""
        return Json({"status": "ready", "version": owner.version})

    @router.get("/metrics", responses={200: {"description": "Prometheus text", "content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """A few gauges."""
        gauges = {
            "pilothouse_live_runs": len(services.supervisor.live),
            "pilothouse_log_position": await services.queries.position(),
        }
        text = "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in gauges.items())
        return Response(text, media_type="text/plain; version=0.0.4")

    @router.get("/api/owner", responses=answer({**asdict(owner), "liveRuns": 0}))
    async def show_owner() -> Response:
        """The process that serves this data directory."""
        return Json({**asdict(owner), "liveRuns": len(services.supervisor.live)})

    @router.post("/api/owner/step-down", status_code=202, responses=answer({"pid": 4711}, "It lets go and exits", 202))
    async def step_down(
        request: Request,
        when: Annotated[Literal["now", "idle"], Query(description="`idle`: refused while runs are live.")] = "now",
    ) -> Response:
        """Ask a background owner to let go for another one. What runs goes on. Unix socket only."""
        only_at_home(request, "an owner steps down")
        if when == "idle" and services.supervisor.live:
            raise Refused(f"{len(services.supervisor.live)} runs are live")
        if owner.mode != "background":
            raise Refused("this server was started by a person; stop it where it runs")
        on_step_down()
        return Json({"pid": owner.pid}, 202)

    @router.post("/api/login", status_code=204)
    async def log_in(body: Login) -> Response:
        """Turn the one-time token that `pilothouse serve` printed into a session cookie. TCP only."""
        response = Response(status_code=204)
        guard.log_in(body.token, response)
        return response

    @router.get("/login", status_code=303)
    async def log_in_by_link(token: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
        """The same for a browser that opens the printed URL."""
        response = RedirectResponse(HOME, 303, {"cache-control": "no-store", "referrer-policy": "no-referrer"})
        guard.log_in(token, response)
        return response

    @router.post("/api/logout", status_code=204)
    async def log_out(request: Request) -> Response:
        """End this session."""
        response = Response(status_code=204)
        guard.log_out(request, response)
        return response

    return router
