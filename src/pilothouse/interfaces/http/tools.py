"""Routes of tools: deciding about their calls, what is always allowed, and the flow in which a client runs them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.request import ToolReport
from pilothouse.core.tools.spec import Permit, ToolAnswer
from pilothouse.engine.calling.direct import DirectTools
from pilothouse.engine.services import Services
from pilothouse.engine.tools.journal import MOST
from pilothouse.errors import NotFound
from pilothouse.interfaces.http.chat_bodies import AllowTool, ConfirmTool, ExecuteTool, MarkComplete
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.passing import ChatFlags
from pilothouse.interfaces.http.wire import Json

_TOOL: dict[str, Any] = {
    "name": "list_workflows",
    "description": "List the workflows there are.",
    "parameters": {"type": "object", "properties": {}},
    "touches": "nothing",
}
_EXECUTED = {"success": True, "toolCallId": "tc_001", "toolName": "list_workflows", "result": {"workflows": []}}
_CALL = {
    "id": "0192f0c1-…",
    "at": 1767225600000,
    "endedAt": 1767225600120,
    "owner": "ann",
    "door": "execute-tool",
    "tool": "list_workflows",
    "arguments": {},
    "status": "success",
}
_ALLOWED = {"success": True, "autoAllowedTools": ["write_file"]}


def make_tools(services: Services, flags: ChatFlags) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["tools"])
    chats, direct = services.chats, DirectTools(services.chats, services.tools)

    @router.get("/tools", responses=answer({"tools": [_TOOL]}))
    async def list_tools() -> Response:
        """Every tool that turns can be offered."""
        return Json({"tools": [msgspec.to_builtins(spec) for spec in services.tools.specs()]})

    @router.get("/tools/calls", responses=answer({"calls": [_CALL]}))
    async def list_calls(request: Request, limit: Annotated[int, Query(ge=1, le=MOST)] = 100) -> Response:
        """The last calls that this user made outside any conversation, newest first: over `execute-tool` and MCP. What
        conversations and plans did is in the log of their runs. `status` is `executing`, `success`, `error`, or
        `interrupted` where nobody knows what became of it."""
        journal = services.tools.journal
        found = await journal.calls(principal_of(request).name, limit) if journal is not None else []
        return Json({"calls": msgspec.to_builtins(found)})

    @router.post(
        "/copilot/confirm",
        responses=answer({"success": True, "toolCallId": "tc_001", "status": "accepted", "streamId": "0192f0c1-…"}),
    )
    async def confirm(request: Request, body: ConfirmTool) -> Response:
        """Decide about a call that waits for a person, or that runs (`background`). One decision wins, a second is
        refused. `scope` keeps it for the chat, or always; `arguments` are what it is called with instead."""
        turn_id = await chats.confirm(
            principal_of(request),
            body.tool_call_id,
            body.status,
            turn_id=body.stream_id,
            arguments=body.arguments,
            scope=body.scope,
            message=body.message,
            result=body.result,
            error=body.error,
        )
        return Json({"success": True, "toolCallId": body.tool_call_id, "status": body.status, "streamId": turn_id})

    async def allowed(principal: Principal) -> Response:
        permits = await chats.permits(principal)
        always = sorted(name for name, permit in permits.items() if permit is Permit.ALLOW)
        return Json({"success": True, "autoAllowedTools": always})

    @router.get("/copilot/auto-allowed-tools", responses=answer(_ALLOWED))
    async def list_allowed(request: Request) -> Response:
        """Tools that this user always allows."""
        return await allowed(principal_of(request))

    @router.post("/copilot/auto-allowed-tools", responses=answer(_ALLOWED))
    async def allow(request: Request, body: AllowTool) -> Response:
        """Always allow a tool."""
        await chats.set_permit(principal_of(request), body.tool, Permit.ALLOW)
        return await allowed(principal_of(request))

    @router.delete("/copilot/auto-allowed-tools", responses=answer({**_ALLOWED, "autoAllowedTools": []}))
    async def ask_again(
        request: Request,
        tool: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
        tool_id: Annotated[str | None, Query(alias="toolId", description="The same, as some clients call it.")] = None,
    ) -> Response:
        """Ask about a tool again, or with none named about all."""
        principal, named = principal_of(request), tool or tool_id
        permits = await chats.permits(principal)
        for name in [named] if named else [name for name, permit in permits.items() if permit is Permit.ALLOW]:
            if name in permits:
                await chats.set_permit(principal, name, None)
        return await allowed(principal)

    async def execute(request: Request, body: ExecuteTool) -> Response:
        done = await direct.run(
            body.tool_name,
            body.arguments,
            principal_of(request),
            chat_id=body.chat_id,
            call_id=body.tool_call_id or "",
            workflow_id=body.workflow_id,
            door="execute-tool",
        )
        return _executed(body, done)

    @router.post("/copilot/execute-tool", responses=answer(_EXECUTED))
    async def execute_tool(request: Request, body: ExecuteTool) -> Response:
        """Run one tool, for clients that drive their tools themselves: with the permits that a turn of `chatId` has, or
        of a new chat. Whom a turn would ask needs the scope `approve`. `success` says whether the tool could do it."""
        return await execute(request, body)

    @router.post("/copilot/execute-copilot-server-tool", responses=answer(_EXECUTED))
    async def execute_server_tool(request: Request, body: ExecuteTool) -> Response:
        """The same: here all tools are the server's."""
        return await execute(request, body)

    @router.post("/copilot/tools/mark-complete", responses=answer({"success": True, "toolCallId": "tc_001"}))
    async def mark_complete(request: Request, body: MarkComplete) -> Response:
        """Say how a call ended that the client executes: to the turn that waits for it, or, while conversations are
        passed through, to the backend."""
        ok = HTTPStatus(200) <= body.status < HTTPStatus(300)
        said = body.message if isinstance(body.message, str) else ""
        try:
            await chats.confirm(
                principal_of(request),
                body.id,
                "success" if ok else "error",
                message=said,
                result=body.data,
                error="" if ok else said or f"it failed with status {body.status}",
            )
        except NotFound:
            if flags.orchestrator:
                raise
            report = ToolReport(
                turn_id="", tool_call_id=body.id, name=body.name, status=body.status, message=said, data=body.data
            )
            await services.backend.report(report)
        return Json({"success": True, "toolCallId": body.id})

    return router


def _executed(body: ExecuteTool, done: ToolAnswer) -> Response:
    said: dict[str, Any] = {
        "success": done.ok,
        "toolCallId": body.tool_call_id,
        "toolName": body.tool_name,
        "result": done.result,
    }
    if not done.ok:
        said["error"] = done.error
    if done.runs:
        said["runs"] = done.runs
    if done.workflow_id:
        said["workflowId"] = done.workflow_id
    return Json(said)
