"""Which action of the policy each route is, and the check before every one of them.

A route that has no row here is closed to all but the owner of the server, so that forgetting one harms nobody else. A
path that names a run is checked for whose it is; lists are filtered by their routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from fastapi import Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.requests import Request

from pilothouse.core.auth.policy import Action
from pilothouse.core.auth.principals import Kind
from pilothouse.engine.access.access import Access
from pilothouse.interfaces.http.credentials import HEADER
from pilothouse.interfaces.http.guard import AGENTS_PATH, OPEN_PATHS, principal_of

_NODE = "/api/plans/{plan_id}/nodes/{node}"
_WORKFLOW = "/api/workflows/{workflow_id}"
_CHAT = "/api/copilot/chats/{chat_id}"

ROUTES: Mapping[str, Action] = MappingProxyType(
    {
        "GET /api/plans": Action.READ_RUNS,
        "POST /api/plans": Action.START_RUNS,
        "GET /api/plans/{plan_id}": Action.READ_RUNS,
        "DELETE /api/plans/{plan_id}": Action.DELETE_RUNS,
        "GET /api/plans/{plan_id}/graph": Action.READ_RUNS,
        "POST /api/plans/{plan_id}/retry": Action.CONTROL_RUNS,
        "POST /api/plans/{plan_id}/groups/cancel": Action.CONTROL_RUNS,
        f"GET {_NODE}": Action.READ_RUNS,
        f"GET {_NODE}/logs": Action.READ_RUNS,
        f"GET {_NODE}/diff": Action.READ_RUNS,
        f"POST {_NODE}/cancel": Action.CONTROL_RUNS,
        f"POST {_NODE}/retry": Action.CONTROL_RUNS,
        "GET /api/workflows": Action.READ_WORKFLOWS,
        "POST /api/workflows": Action.CHANGE_WORKFLOWS,
        f"GET {_WORKFLOW}": Action.READ_WORKFLOWS,
        f"PUT {_WORKFLOW}": Action.CHANGE_WORKFLOWS,
        f"DELETE {_WORKFLOW}": Action.CHANGE_WORKFLOWS,
        f"GET {_WORKFLOW}/versions": Action.READ_WORKFLOWS,
        f"GET {_WORKFLOW}/plan": Action.READ_WORKFLOWS,
        f"POST {_WORKFLOW}/edit": Action.CHANGE_WORKFLOWS,
        f"POST {_WORKFLOW}/revert": Action.CHANGE_WORKFLOWS,
        f"POST {_WORKFLOW}/run": Action.START_RUNS,
        "POST /api/v1/copilot/chat": Action.SEND,
        "POST /api/copilot/chat": Action.SEND,
        "POST /api/agui": Action.SEND,
        "GET /api/copilot/chat": Action.READ_CHATS,
        "GET /api/copilot/chat/stream": Action.READ_CHATS,
        "POST /api/copilot/chat/abort": Action.SEND,
        "POST /api/copilot/chat/stop": Action.SEND,
        "POST /api/copilot/chat/steer": Action.SEND,
        "POST /api/copilot/chat/rename": Action.CHANGE_CHATS,
        "GET /api/copilot/chats": Action.READ_CHATS,
        f"GET {_CHAT}": Action.READ_CHATS,
        f"PATCH {_CHAT}": Action.CHANGE_CHATS,
        f"DELETE {_CHAT}": Action.DELETE_CHATS,
        f"GET {_CHAT}/messages": Action.READ_CHATS,
        f"POST {_CHAT}/fork": Action.CHANGE_CHATS,
        f"GET {_CHAT}/checkpoints": Action.READ_CHATS,
        f"POST {_CHAT}/revert": Action.CHANGE_WORKFLOWS,
        f"GET {_CHAT}/export": Action.READ_CHATS,
        "POST /api/copilot/feedback": Action.CHANGE_CHATS,
        "POST /api/copilot/confirm": Action.SEND,
        "GET /api/copilot/auto-allowed-tools": Action.READ_CHATS,
        "POST /api/copilot/auto-allowed-tools": Action.ANSWER_APPROVALS,
        "DELETE /api/copilot/auto-allowed-tools": Action.ANSWER_APPROVALS,
        "POST /api/copilot/execute-tool": Action.SEND,
        "POST /api/copilot/execute-copilot-server-tool": Action.SEND,
        "POST /api/copilot/tools/mark-complete": Action.SEND,
        "GET /api/copilot/models": Action.READ_SERVER,
        "GET /api/tools": Action.READ_TOOLS,
        "GET /api/tools/calls": Action.READ_CHATS,
        "GET /api/commands": Action.READ_SERVER,
        "GET /api/runs": Action.READ_RUNS,
        "GET /api/runs/{run_id}": Action.READ_RUNS,
        "DELETE /api/runs/{run_id}": Action.DELETE_RUNS,
        "GET /api/runs/{run_id}/events": Action.READ_RUNS,
        "POST /api/runs/{run_id}/{verb}": Action.CONTROL_RUNS,
        "POST /api/stop-everything": Action.CONTROL_RUNS,
        "GET /api/events": Action.READ_RUNS,
        "GET /api/approvals": Action.READ_APPROVALS,
        "POST /api/approvals/{wait_id}": Action.ANSWER_APPROVALS,
        "GET /api/repos": Action.READ_REPOS,
        "POST /api/repos": Action.REGISTER_REPOS,
        "DELETE /api/repos": Action.REMOVE_REPOS,
        "GET /api/credentials": Action.READ_CREDENTIALS,
        "POST /api/credentials": Action.CHANGE_CREDENTIALS,
        "POST /api/credentials/connect": Action.CHANGE_CREDENTIALS,
        "POST /api/credentials/connected": Action.CHANGE_CREDENTIALS,
        "POST /api/credentials/{credential_id}/default": Action.CHANGE_CREDENTIALS,
        "DELETE /api/credentials/{credential_id}": Action.CHANGE_CREDENTIALS,
        "GET /api/keys": Action.READ_KEYS,
        "POST /api/keys": Action.CHANGE_KEYS,
        "DELETE /api/keys/{key_id}": Action.CHANGE_KEYS,
        "GET /api/agents": Action.READ_SERVER,
        "GET /api/models": Action.READ_SERVER,
        "GET /api/owner": Action.READ_SERVER,
        "GET /metrics": Action.READ_SERVER,
        "POST /api/owner/step-down": Action.CONTROL_SERVER,
        "POST /api/logout": Action.READ_SERVER,
        "POST /mcp": Action.SEND,
    }
)

SCHEMES = (
    # For the OpenAPI document only: the guard has looked at the credential before any route is found.
    Security(APIKeyHeader(name=HEADER, scheme_name="apiKey", auto_error=False)),
    Security(HTTPBearer(scheme_name="bearer", auto_error=False)),
)


def make_access(access: Access) -> Callable[[Request], Awaitable[None]]:
    """A dependency of the whole application."""

    async def admitted(request: Request) -> None:
        path = request.scope["route"].path_format
        if path in OPEN_PATHS:
            return
        principal, names = principal_of(request), request.path_params
        if principal.kind is Kind.AGENT and path == AGENTS_PATH:
            return  # it has no scope: what it may do there, its turn says
        action = ROUTES.get(f"{request.method} {path}", Action.CONTROL_SERVER)
        await access.require(principal, action, names.get("run_id") or names.get("plan_id"))

    return admitted
