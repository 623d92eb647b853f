"""The headless API: a message in, one JSON answer out, as the chat document has it.

Owns the statuses of what comes of a turn, and that a client that leaves takes its turn with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterator
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Header
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.result import TurnResult
from pilothouse.engine.services import Services
from pilothouse.errors import PilothouseError, Unavailable
from pilothouse.interfaces.http.chat_bodies import HeadlessMessage
from pilothouse.interfaces.http.chat_streams import turn_stream
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.headless_errors import PATH, SCHEMA
from pilothouse.interfaces.http.passing import ChatFlags
from pilothouse.interfaces.http.sse import EventStream
from pilothouse.interfaces.http.wire import Json

T = TypeVar("T")

IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="As `messageId`; that goes before it."),
]

EXAMPLE: dict[str, Any] = {
    "success": True,
    "content": "I have created a workflow with two blocks.",
    "toolCalls": [
        {
            "id": "tc_001",
            "name": "edit_workflow",
            "status": "success",
            "params": {"operations": []},
            "result": {"blocksAdded": 2},
            "durationMs": 12,
        }
    ],
    "chatId": "0192f0c0-…",
    "conversationId": "conv_123",
}

_RETURN_S = 10.0
"""How long a turn goes on for a client that hung up and can ask for it again."""


def make_headless(services: Services, flags: ChatFlags, keepalive: float) -> APIRouter:
    router = APIRouter(tags=["chat"])
    chats, queries = services.chats, services.queries
    waiting: Counter[str] = Counter()
    """How many clients wait for each turn, or follow its stream."""

    def enabled() -> None:
        if not flags.orchestrator:
            raise Unavailable("this server only passes conversations through: COPILOT_USE_SERVER_ORCHESTRATOR is off")
        if not flags.headless:
            raise Unavailable("the headless API is off: COPILOT_ENABLE_HEADLESS_API is not `true`")

    @router.post(PATH, responses=_RESPONSES, dependencies=[Depends(enabled)])
    async def send(request: Request, body: HeadlessMessage, key: IdempotencyKey = None) -> Response:
        """Say something and wait for all that comes of it. Whoever hangs up ends the turn; with a `messageId`, or an
        `Idempotency-Key`, only when they have not asked again within ten seconds: then the same turn is answered.

        A failure keeps what was said and done until then, and says why."""
        principal = principal_of(request)
        given = body.send(key, headless=True)
        sent = await chats.send(given, principal)
        if body.stream:
            return EventStream(streamed(sent.turn_id))
        with here(sent.turn_id):
            result = await _unless_gone(request, chats.wait(sent.turn_id, principal, body.patience_s))
        if result is None:
            await left(sent.turn_id, principal, _RETURN_S if given.message_id is not None else 0.0)
            return Response(status_code=HTTPStatus.NO_CONTENT)  # nobody reads it
        return result_of(result)

    @contextlib.contextmanager
    def here(turn_id: str) -> Iterator[None]:
        waiting[turn_id] += 1
        try:
            yield
        finally:
            waiting[turn_id] -= 1
            if not waiting[turn_id]:
                del waiting[turn_id]

    async def streamed(turn_id: str) -> AsyncGenerator[bytes, None]:
        with here(turn_id):
            async with contextlib.aclosing(turn_stream(queries, turn_id, 0, keepalive)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def left(turn_id: str, principal: Principal, patience_s: float) -> None:
        """Nobody waits for a turn any more: end it unless somebody comes back."""
        with contextlib.suppress(PilothouseError):  # it is gone
            if patience_s:
                await chats.wait(turn_id, principal, patience_s)
            if not waiting[turn_id]:
                await chats.abort(turn_id, principal)

    return router


def result_of(result: TurnResult) -> Response:
    """The answer to a turn that has come to its end, however."""
    status = HTTPStatus.OK
    if not result.success:
        status = HTTPStatus.GATEWAY_TIMEOUT if result.code == "timeout" else HTTPStatus.INTERNAL_SERVER_ERROR
    return Json(msgspec.to_builtins(result), status)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Do it while the client is there; None when it left."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.wait((task, gone))


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


_FAILURE = {"schema": SCHEMA, "example": {"success": False, "error": "…", "content": "", "toolCalls": []}}


def _failure(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": _FAILURE}}


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "It was answered",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": EXAMPLE},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    },
    400: _failure("Invalid request; `details` says which fields"),
    401: _failure("No API key, or a bad one"),
    404: _failure("No such workflow, or chat"),
    409: _failure("The chat is busy with another turn, `activeStreamId`"),
    429: _failure("The key is used too often"),
    500: _failure("It failed, and why; with what was said and done until then"),
    503: _failure("The headless API is off, or the server lacks what it needs to answer: `error` names the setting"),
    504: _failure("It took longer than `timeout`; with what was said and done until then"),
}
