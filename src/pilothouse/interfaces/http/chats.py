"""Routes of conversations: lists, what is kept of each, forks, checkpoints, feedback."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.policy import Action, require
from pilothouse.core.workflow.document import workflow_data
from pilothouse.engine.services import Services
from pilothouse.interfaces.http.chat import CHAT, MESSAGE
from pilothouse.interfaces.http.chat_bodies import ChangeChat, Fork, GiveFeedback, Revert
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.wire import Json

_AT = "/chats/{chat_id}"
_MEDIA = {"json": "application/json", "markdown": "text/markdown; charset=utf-8"}
_CHECKPOINT: dict[str, Any] = {
    "id": "0192f0c3-…@4",
    "workflowId": "0192f0c3-…",
    "workflowName": "nightly",
    "version": 4,
    "messageId": "0192f0c1-…",
    "why": "",
    "at": 1767225600000,
}
_FEEDBACK: dict[str, Any] = {
    "turnId": "0192f0c1-…",
    "chatId": "0192f0c0-…",
    "rating": "up",
    "text": "",
    "by": "local",
    "at": 1767225600000,
}


def make_chats(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/copilot", tags=["chats"])
    chats = services.chats

    @router.get("/chats", responses=answer({"chats": [CHAT]}))
    async def list_chats(
        request: Request,
        workflow_id: Annotated[str | None, Query(alias="workflowId")] = None,
        archived: Annotated[bool | None, Query(description="False when left out.")] = False,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """One's conversations, the last used first."""
        principal = principal_of(request)
        return Json({"chats": await chats.list(principal, archived=archived, workflow_id=workflow_id, limit=limit)})

    @router.get(_AT, responses=answer(CHAT))
    async def show(request: Request, chat_id: str) -> Response:
        """A conversation without its messages."""
        return Json(await chats.get(chat_id, principal_of(request)))

    @router.patch(_AT, responses=answer(CHAT))
    async def change(request: Request, chat_id: str, body: ChangeChat) -> Response:
        """Change its title, model, mode, workflow, workspace, whether it is archived, or what its tools may do."""
        principal = principal_of(request)
        if body.permits is not None:  # an answer for a person, given in advance
            require(principal, Action.ANSWER_APPROVALS)
        return Json(await chats.update(chat_id, principal, body.changes))

    @router.delete(_AT, status_code=204)
    async def delete(request: Request, chat_id: str) -> Response:
        """Delete a conversation with all its turns. 409 while one is live."""
        await chats.delete(chat_id, principal_of(request))
        return Response(status_code=204)

    @router.get(f"{_AT}/messages", responses=answer({"messages": [MESSAGE], "before": "0192f0c1-…"}))
    async def messages(
        request: Request,
        chat_id: str,
        before: Annotated[str | None, Query(description="`before` of the page after this one.")] = None,
        limit: Annotated[int, Query(ge=1, le=200, description="How many turns.")] = 50,
    ) -> Response:
        """Its messages, oldest first: those of the last `limit` turns. `before` says that there may be older ones."""
        found = await chats.messages(chat_id, principal_of(request), before=before, limit=limit)
        turns = {message.turn_id for message in found}
        more = {"before": found[0].turn_id} if len(turns) >= limit else {}
        return Json({"messages": found, **more})

    @router.post(f"{_AT}/fork", status_code=201, responses=answer(CHAT, "The new conversation", 201))
    async def fork(request: Request, chat_id: str, body: Fork) -> Response:
        """A new conversation that begins with everything up to and including a turn of this one."""
        made = await chats.fork(chat_id, principal_of(request), body.turn_id)
        return Json(made, 201, {"location": f"/api/copilot/chats/{made.id}"})

    @router.get(f"{_AT}/checkpoints", responses=answer({"checkpoints": [_CHECKPOINT]}))
    async def checkpoints(request: Request, chat_id: str) -> Response:
        """What it changed in workflows, newest first."""
        return Json({"checkpoints": await chats.checkpoints(chat_id, principal_of(request))})

    @router.post(f"{_AT}/revert", responses=answer({"workflowId": "0192f0c3-…", "version": 5, "workflow": {}}))
    async def revert(request: Request, chat_id: str, body: Revert) -> Response:
        """Take back a checkpoint and all after it: the workflow as it was before, as a new version."""
        now = await chats.revert(chat_id, principal_of(request), body.checkpoint)
        return Json({"workflowId": now.id, "version": now.version, "workflow": workflow_data(now.workflow)})

    @router.get(
        f"{_AT}/export",
        responses=answer({"chat": CHAT, "messages": [MESSAGE]}, more={"text/markdown": {"schema": {"type": "string"}}}),
    )
    async def export(
        request: Request,
        chat_id: str,
        form: Annotated[Literal["json", "markdown"], Query(alias="format")] = "json",
    ) -> Response:
        """A whole conversation to keep."""
        whole = await chats.export(chat_id, principal_of(request), form)
        name = f"attachment; filename=chat.{'md' if form == 'markdown' else 'json'}"
        headers = {"cache-control": "no-store", "content-disposition": name, "x-content-type-options": "nosniff"}
        return Response(whole, 200, headers, _MEDIA[form])

    @router.post("/feedback", responses=answer(_FEEDBACK))
    async def feedback(request: Request, body: GiveFeedback) -> Response:
        """Say what an answer was worth; the last word counts."""
        return Json(await chats.feedback(body.turn_id, principal_of(request), body.rating, body.text))

    return router
