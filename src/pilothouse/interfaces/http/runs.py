"""Routes of runs of any kind: lists, control, stop everything."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.engine.chats.turns import TURN
from pilothouse.engine.services import Services
from pilothouse.errors import Refused
from pilothouse.interfaces.http.bodies import StopEverything
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.wire import Json, page_cursor, read_page, run_json

_RUN: dict[str, Any] = {
    "id": "0192f0c1-…",
    "kind": "plan",
    "name": "hello",
    "lifecycle": "RUNNING",
    "status": "running",
    "runState": "RUNNING",
    "leg": 1,
    "seq": 12,
    "counts": {"running": 1},
    "waits": [],
}


def make_runs(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["runs"])
    queries, runs = services.queries, services.runs

    @router.get("/runs", responses=answer({"runs": [_RUN], "next": "WzE3NjcyMjU2MDAwMDAsIi4uLiJd"}))
    async def list_runs(
        request: Request,
        kind: str | None = None,
        status: Annotated[str | None, Query(description="A lifecycle in lower case, or `all`.")] = None,
        session_id: Annotated[str | None, Query(alias="sessionId")] = None,
        waiting: Annotated[bool | None, Query(description="Whether something in it waits.")] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    ) -> Response:
        """Runs, newest first."""
        rows = await queries.runs(
            kind=kind,
            status=status,
            owner=principal_of(request).only,
            session_id=session_id,
            waiting=waiting,
            limit=limit,
            before=read_page(before) if before else None,
        )
        page: dict[str, Any] = {"runs": [run_json(row) for row in rows]}
        if len(rows) == limit:
            page["next"] = page_cursor(rows[-1])
        return Json(page)

    @router.get("/runs/{run_id}", responses=answer(_RUN))
    async def show(run_id: str) -> Response:
        """A run at a glance."""
        return Json(run_json(await queries.run(run_id)))

    @router.post("/runs/{run_id}/{verb}", responses=answer(_RUN))
    async def control(run_id: str, verb: str) -> Response:
        """`stop`, `cancel`, `pause`, `resume`, `retry` or `discard`. Answers once the log has it."""
        return Json(run_json(await runs.control(run_id, verb)))

    @router.delete("/runs/{run_id}", status_code=204)
    async def delete(run_id: str) -> Response:
        """Delete an ended run with all that it left behind. A turn is deleted with its conversation."""
        row = await queries.run(run_id)
        if row.kind == TURN:
            raise Refused(f"a turn is deleted with its conversation, which is {row.session_id}")
        await services.plans.delete(run_id)
        return Response(status_code=204)

    @router.post("/stop-everything", responses=answer({"stopped": [_RUN]}))
    async def stop_everything(request: Request, body: StopEverything | None = None) -> Response:
        """Stop every live run, or every one of a session. The gates of all close before the first is stopped."""
        session_id = body.session_id if body is not None else None
        stopped = await runs.stop_everything(session_id, owner=principal_of(request).only)
        return Json({"stopped": [run_json(row) for row in stopped]})

    return router
