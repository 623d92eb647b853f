"""Routes of turns: sending a message, following what comes of it, stopping it, adding to it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.policy import Action
from pilothouse.core.auth.principals import Principal
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chats.turns import TURN
from pilothouse.engine.chats.values import ChatChanges, ChatView
from pilothouse.engine.services import Services
from pilothouse.errors import NotFound
from pilothouse.interfaces.http.chat_bodies import InteractiveMessage, Rename, SteerTurn, StopTurn
from pilothouse.interfaces.http.chat_streams import has_more, shown_until, turn_stream
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.events import LastEventId
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.headless import EXAMPLE, IdempotencyKey, result_of
from pilothouse.interfaces.http.passing import ChatFlags, pass_on
from pilothouse.interfaces.http.sse import EventStream
from pilothouse.interfaces.http.wire import Json, read_seq

_EVENT = {"type": "content", "data": "I have created", "eventId": 7, "streamId": "0192f0c1-…"}
_SSE = {
    "text/event-stream": {
        "schema": {"type": "string"},
        "example": 'id: 7\ndata: {"type":"content","data":"I have created","eventId":7,"streamId":"0192f0c1-…"}\n\n',
    }
}
CHAT: dict[str, Any] = {
    "id": "0192f0c0-…",
    "owner": "local",
    "title": "A nightly build",
    "model": "",
    "mode": "chat",
    "workflowId": None,
    "workspace": None,
    "conversationId": "",
    "permits": {"write_file": "allow"},
    "archived": False,
    "forkedFrom": None,
    "createdAt": 1767225600000,
    "updatedAt": 1767225660000,
    "version": 3,
    "activeStreamId": None,
}
MESSAGE: dict[str, Any] = {
    "id": "0192f0c1-…",
    "role": "user",
    "content": "Build it every night",
    "turnId": "0192f0c1-…",
    "at": 1767225600000,
}

_STOPPED = {"success": True, "aborted": True, "settled": True, "streamId": "0192f0c1-…"}
_SETTLE_S = 8.0
_SNAPSHOT_EVENTS = 10_000


def make_chat(services: Services, flags: ChatFlags, keepalive: float) -> APIRouter:
    """``keepalive``: seconds of silence after which a stream says that it lives."""
    router = APIRouter(prefix="/api/copilot/chat", tags=["chat"])
    chats, queries = services.chats, services.queries

    async def turn(request: Request, stream_id: str) -> RunRow:
        await services.access.require(principal_of(request), Action.READ_CHATS, stream_id)
        row = await queries.run(stream_id)
        if row.kind != TURN:
            raise NotFound(f"{stream_id} is a {row.kind}, not a turn")
        return row

    async def send(request: Request, body: InteractiveMessage, key: IdempotencyKey = None) -> Response:
        """Say something, and see what comes of it. The turn goes on when its reader leaves.

        With a `messageId`, or an `Idempotency-Key`, it may be sent again: the same turn is shown from its beginning."""
        principal = principal_of(request)
        sent = await chats.send(body.send(key, headless=False), principal)
        if body.stream:
            return EventStream(turn_stream(queries, sent.turn_id, 0, keepalive))
        return result_of(await chats.wait(sent.turn_id, principal, body.patience_s))

    async def pass_through(request: Request) -> Response:
        """Hand the request on to the backend, and its answer back, as they are."""
        return await pass_on(request, services.backend)

    router.add_api_route(
        "",
        send if flags.orchestrator else pass_through,
        methods=["POST"],
        responses=answer(EXAMPLE, "A stream of what comes of it; with `stream: false` its end", more=_SSE),
    )

    @router.get(
        "",
        responses=answer({"success": True, "chat": {**CHAT, "messages": [MESSAGE], "streamSnapshot": None}}),
    )
    async def show(
        request: Request,
        chat_id: Annotated[str | None, Query(alias="chatId")] = None,
        workflow_id: Annotated[str | None, Query(alias="workflowId", description="Only chats about it.")] = None,
        limit: Annotated[int, Query(ge=1, le=200, description="Turns of a chat, or chats.")] = 50,
    ) -> Response:
        """A conversation by `chatId`, with its last messages and, while a turn is live, what it has shown so far
        (`streamSnapshot`): whoever reloads a page goes on from its `lastEventId`. Without `chatId`: `chats`."""
        principal = principal_of(request)
        if chat_id is None:
            found = await chats.list(principal, workflow_id=workflow_id, limit=limit)
            return Json({"success": True, "chats": found})
        chat = await chats.get(chat_id, principal)
        messages = await chats.messages(chat_id, principal, limit=limit)
        whole = {
            **msgspec.to_builtins(chat),
            "messages": messages,
            "streamSnapshot": await snapshot(chat),
        }
        return Json({"success": True, "chat": whole})

    async def snapshot(chat: ChatView) -> dict[str, Any] | None:
        if chat.active_stream_id is None:
            return None
        row = await queries.run(chat.active_stream_id)
        return await batch(row, 0, row.seq, _SNAPSHOT_EVENTS)

    async def batch(row: RunRow, after: int, until: int, limit: int) -> dict[str, Any]:
        events = await shown_until(queries, row.id, after, until, limit)
        whole = len(events) < limit
        last = until if whole else events[-1]["eventId"]
        return {
            "streamId": row.id,
            "status": row.lifecycle.lower(),
            "live": row.lifecycle not in TERMINAL,
            "events": events,
            "lastEventId": max(after, last),
            "more": not whole,
        }

    @router.get(
        "/stream",
        responses=answer(
            {"success": True, "streamId": "0192f0c1-…", "status": "running", "events": [_EVENT], "lastEventId": 7},
            "What comes after `after`; with `batch=true` what there is by now",
            more=_SSE,
        )
        | {204: {"description": "As a stream: it has ended, and nothing comes after `after`."}},
    )
    async def stream(
        request: Request,
        stream_id: Annotated[str, Query(alias="streamId", min_length=1, max_length=1000)],
        after: Annotated[str | None, Query(description="The `eventId` that was seen last.")] = None,
        since: Annotated[str | None, Query(alias="from", description="The same, as older clients call it.")] = None,
        to: Annotated[str | None, Query(description="With `batch`: the last `eventId` that is wanted.")] = None,
        batch_only: Annotated[bool, Query(alias="batch")] = False,
        limit: Annotated[int, Query(ge=1, le=10_000, description="With `batch`.")] = 10_000,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Go on with a turn's stream after a break, wherever it was, also after a restart of the server: no gap, no
        repeat. It ends with the `done` or `error` of the turn's last leg."""
        row = await turn(request, stream_id)
        start = read_seq(last_event_id or after or since or "0", row)
        if batch_only:
            until = row.seq if to is None else min(row.seq, read_seq(to, row, "to"))
            return Json({"success": True, **await batch(row, start, until, limit)})
        if not await has_more(queries, row, start):
            return Response(status_code=204)
        return EventStream(turn_stream(queries, row.id, start, keepalive))

    async def stop_turn(body: StopTurn, principal: Principal) -> Response:
        stopped = await chats.abort(body.id, principal)
        settled = True
        if stopped is not None:
            settled = (await chats.wait(stopped, principal, _SETTLE_S)).status.upper() in TERMINAL
        return Json({"success": True, "aborted": stopped is not None, "settled": settled, "streamId": stopped})

    @router.post("/abort", responses=answer(_STOPPED))
    async def abort(request: Request, body: StopTurn) -> Response:
        """Stop a turn by `streamId`, or whichever is live in `chatId`. What was said until then is kept. Again is no
        error. Answers once all that ran for it has ended, or after some seconds with `settled` false."""
        return await stop_turn(body, principal_of(request))

    @router.post("/stop", responses=answer(_STOPPED))
    async def stop(request: Request, body: StopTurn) -> Response:
        """The same, as some clients call it. They may send what they show: the server has kept it already."""
        return await stop_turn(body, principal_of(request))

    @router.post("/steer", responses=answer({"success": True, "steeringId": "0192f0c4-…"}))
    async def steer(request: Request, body: SteerTurn) -> Response:
        """Say something to a turn while it goes on. 409 when it has ended: send it as a message then. It was heard once
        the stream shows `steering_applied`."""
        steering_id = await chats.steer(body.id, principal_of(request), body.content, body.steering_id)
        return Json({"success": True, "steeringId": steering_id})

    @router.post("/rename", responses=answer({"success": True, "chat": CHAT}))
    async def rename(request: Request, body: Rename) -> Response:
        """Give a conversation a title, as `PATCH /api/copilot/chats/{chat_id}` does."""
        changed = await chats.update(body.chat_id, principal_of(request), ChatChanges(title=body.title))
        return Json({"success": True, "chat": changed})

    return router
