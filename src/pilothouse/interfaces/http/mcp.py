"""The route of MCP: a message in, its answer as JSON or as a stream. What is said, and by whom it is answered, is not
known here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol
from uuid import uuid4

from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilothouse.core.auth.principals import Principal
from pilothouse.errors import BadInput, Denied, Unavailable
from pilothouse.interfaces.http.guard import AGENTS_PATH, principal_of
from pilothouse.interfaces.http.problems import Malformed, problem
from pilothouse.interfaces.http.sse import OpenStreams

CALL_ID = "Pilothouse-Call-Id"
AGAIN = "Pilothouse-Call-Again"
"""Says that a server before this one was asked the same, and its answer was lost."""

_LAST_WORD_S = 1.0
"""How long what is told to end may take to say so."""

_CALL_ID = re.compile(r"[!-~]{1,128}")
_LISTED = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
_BODY = {
    "description": "One request or notification of JSON-RPC, as MCP defines it.",
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["jsonrpc", "method"],
                "properties": {
                    "jsonrpc": {"const": "2.0"},
                    "id": {"type": ["string", "integer"]},
                    "method": {"type": "string"},
                    "params": {"type": "object"},
                },
                "examples": [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}],
            },
        }
    },
}
_HEADERS = [
    {
        "name": "Accept",
        "in": "header",
        "description": "Both `application/json` and `text/event-stream`.",
        "schema": {"type": "string"},
    },
    {
        "name": CALL_ID,
        "in": "header",
        "description": "Names a call of a tool: asked again under the same name, it is made once.",
        "schema": {"type": "string", "pattern": f"^{_CALL_ID.pattern}$"},
    },
]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Its answer; in a stream, after what was told on the way",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": _LISTED},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    },
    202: {"description": "A notification was taken"},
}


class Speaker(Protocol):
    """Who answers MCP."""

    async def __call__(self, principal: Principal, call_id: str, ending: asyncio.Event, *, again: bool) -> ASGIApp:
        """An application for one request; once ``ending`` is set, whoever waits is to be told to ask again. ``again``:
        of a server before this one the answer was lost. Raises ``Unavailable``, ``Denied``."""
        ...


async def _nobody(principal: Principal, call_id: str, ending: asyncio.Event, *, again: bool) -> ASGIApp:
    raise Unavailable("this server does not speak MCP")


def make_mcp(speaker: Speaker | None) -> APIRouter:
    router = APIRouter(tags=["mcp"])
    speak = speaker or _nobody

    @router.post(AGENTS_PATH, responses=_RESPONSES, openapi_extra={"requestBody": _BODY, "parameters": _HEADERS})
    async def mcp(request: Request) -> Response:
        """Tools for agents and editors, over the streamable HTTP transport of MCP, without sessions. An agent that
        answers a conversation is offered the tools of that conversation, anybody else those of a new one."""
        call_id = request.headers.get(CALL_ID) or uuid4().hex
        if _CALL_ID.fullmatch(call_id) is None:
            raise BadInput("is no name of a call", field=CALL_ID, fix="128 visible characters of ASCII at most")
        try:
            body = await request.body()  # here, where one that is too large is still refused
        except ClientDisconnect:
            raise Malformed("the body broke off") from None
        ending = asyncio.Event()
        app = await speak(principal_of(request), call_id, ending, again=AGAIN in request.headers)
        return _Spoken(app, body, ending)

    return router


class _Spoken(Response):
    """What an application answers to a body that was read; ended with the other streams of the server, or when what
    let the client in is revoked."""

    def __init__(self, app: ASGIApp, body: bytes, ending: asyncio.Event) -> None:
        self.status_code = HTTPStatus.OK
        self.background = None
        self._app = app
        self._body = body
        self._ending = ending
        self.init_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.get("state", {})
        streams: OpenStreams = state.get("streams") or OpenStreams()
        stands: Callable[[], bool] | None = state.get("stands")
        started = ended = False

        async def said(message: Message) -> None:
            nonlocal started, ended
            if stands is not None and not stands():
                speaking.cancel()
                return
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(self._speak(scope, self._read_again(receive), said))
            served = group.create_task(_for_ever())
            with streams.including(served):
                await asyncio.wait((speaking, served), return_when=asyncio.FIRST_COMPLETED)
            served.cancel()
            self._ending.set()
            await asyncio.wait((speaking,), timeout=_LAST_WORD_S)
            speaking.cancel()
        if not started:
            await _cut_off(stands is None or stands(), scope["path"])(scope, receive, send)
        elif not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _speak(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _read_again(self, receive: Receive) -> Receive:
        whole: Message | None = {"type": "http.request", "body": self._body, "more_body": False}

        async def read() -> Message:
            nonlocal whole
            if whole is None:
                return await receive()
            message, whole = whole, None
            return message

        return read


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def _cut_off(stands: bool, path: str) -> Response:
    if not stands:
        return problem(Denied("what let you in was revoked meanwhile"), path)
    answer = problem(Unavailable("the server is stopping; ask again"), path)
    answer.headers["retry-after"] = "1"
    return answer
