"""Routes of streams: one run's events, and the events of all."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.engine.services import Services
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.problems import Malformed
from pilothouse.interfaces.http.sse import EventStream
from pilothouse.interfaces.http.streams import Wanted, all_streams, is_over, run_stream
from pilothouse.interfaces.http.wire import Json, read_position, read_seq

LastEventId = Annotated[str | None, Header(description="Where a stream broke off; goes before `after`.")]

_EVENT = {
    "id": "0192…:1",
    "seq": 1,
    "runId": "0192…",
    "timestamp": 1767225600000,
    "type": "RUN_CREATED",
    "kind": "plan",
}
_SSE = {"text/event-stream": {"schema": {"type": "string"}, "example": 'id: 1\ndata: {"type":"RUN_CREATED",…}\n\n'}}


def make_events(services: Services, keepalive: float) -> APIRouter:
    """``keepalive``: seconds of silence after which a stream says that it lives."""
    router = APIRouter(prefix="/api", tags=["events"])
    queries = services.queries

    @router.get(
        "/runs/{run_id}/events",
        responses=answer({"events": [_EVENT], "next": 1}, "Events after `after`, or a stream of them", more=_SSE)
        | {204: {"description": "As a stream: the run has ended, and nothing comes after `after`."}},
    )
    async def run_events(
        request: Request,
        run_id: str,
        after: Annotated[str, Query(description="A `seq`; 0 for all.")] = "0",
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
        last_event_id: LastEventId = None,
    ) -> Response:
        """A run's events; with `Accept: text/event-stream` as a stream to the end of its last leg."""
        row = await queries.run(run_id)
        start = read_seq(last_event_id or after, row)
        if "text/event-stream" in request.headers.get("accept", ""):
            if is_over(row, start):
                return Response(status_code=204)
            return EventStream(run_stream(queries, run_id, start, keepalive))
        found = await queries.events(run_id, start, limit)
        wires = b",".join(queries.wire(recorded) for recorded in found)
        more = b',"next":%d' % found[-1].seq if len(found) == limit else b""
        return Json(b'{"events":[%b]%b}' % (wires, more))

    @router.get("/events", responses={200: {"description": "A stream that never ends", "content": _SSE}})
    async def all_events(
        request: Request,
        after: Annotated[str | None, Query(description="A cursor from this stream; none begins now.")] = None,
        run_id: Annotated[str | None, Query(alias="runId")] = None,
        kind: Annotated[str | None, Query(description="Only runs of this kind.")] = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """The events of all runs, also of those that are created or deleted meanwhile."""
        end = await queries.position()
        given = last_event_id or after
        start = read_position(given) if given else end
        if start > end:
            raise Malformed(
                "lies beyond the end of the log", field="after", fix="load the runs anew and begin without a cursor"
            )
        sees = partial(services.access.sees, principal_of(request))
        wanted = Wanted(queries, run_id, kind, sees=None if principal_of(request).only is None else sees)
        return EventStream(all_streams(queries, start, wanted, keepalive))

    return router
