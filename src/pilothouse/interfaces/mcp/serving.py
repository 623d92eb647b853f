"""One message of MCP, answered: the SDK speaks the protocol in all its revisions, a tool caller does the rest.

Stateless: nothing is kept from one message to the next, and what a message started has ended when its answer has.
Owns the one translation from errors to MCP. Imports the SDK, so that only the door may import this.
"""

from __future__ import annotations

import asyncio
import logging

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from starlette.types import Receive, Scope, Send

from pilothouse.core.auth.principals import Kind, Principal
from pilothouse.core.run.contract import Ended
from pilothouse.engine.driving.patience import Patience
from pilothouse.engine.tools.callers import ToolCaller
from pilothouse.errors import BadInput, Denied, NotFound, PilothouseError, Refused, Unavailable
from pilothouse.interfaces.mcp.tools import failure, result, tool

log = logging.getLogger(__name__)

INSTRUCTIONS = (
    "Tools of a Pilothouse server: workflows, plans that run in parallel in git worktrees, documentation, services. "
    "A call may wait until a person has allowed it; progress says so."
)

# The first class of an error's ancestry that stands here decides.
CODES: dict[type[PilothouseError], int] = {
    NotFound: INVALID_PARAMS,
    Denied: INVALID_REQUEST,
    Refused: INVALID_REQUEST,
    PilothouseError: INTERNAL_ERROR,
}


_PATIENCE = Patience(grace_s=None)
"""A call that is answered as ended has ended."""


class OneMessage:
    """An ASGI application for one request: whatever message is in its body."""

    def __init__(
        self,
        caller: ToolCaller,
        principal: Principal,
        call_id: str,
        ending: asyncio.Event,
        *,
        version: str,
        again: bool,
    ) -> None:
        """See ``McpDoor``."""
        self._caller = caller
        self._remembers = principal.kind is Kind.AGENT
        """Its calls are in the log of its turn."""
        self._call_id = call_id
        self._ending = ending
        self._version = version
        self._again = again

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = Server(
            "pilothouse",
            version=self._version,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,  # none of ours asks for arguments in headers too
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        # The SDK's tasks live in the manager, so each request has its own: who hangs up leaves nothing behind.
        manager = StreamableHTTPSessionManager(server, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    async def _list(self, _: ServerRequestContext, __: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            offered = await self._caller.offered()
        except Exception as error:
            raise _translated(error) from error
        return ListToolsResult(tools=[tool(spec) for spec in offered])

    async def _call(self, context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        told = 0

        async def tell(what: str) -> None:
            nonlocal told
            told += 1
            await context.session.report_progress(told, message=what)

        try:
            if self._again and not self._remembers and not await self._repeatable(params.name):
                lost = f"the server was restarted while {params.name} was executed"
                return failure(f"{lost}. It may have taken effect all the same: look before you call it again.")
            call = self._caller.call(self._call_id, params.name, params.arguments or {}, tell)
            outcome = await _PATIENCE.wait(call, self._ending)
            if isinstance(outcome, Ended):
                raise Unavailable("the server is stopping; ask again")
            return result(outcome)
        except BadInput as error:
            return failure(str(error))  # no error of the protocol: models can mend it
        except Exception as error:
            raise _translated(error) from error

    async def _repeatable(self, name: str) -> bool:
        return any(spec.repeatable for spec in await self._caller.offered() if spec.name == name)


def _translated(error: Exception) -> MCPError:
    if isinstance(error, PilothouseError):
        code = next(CODES[cls] for cls in type(error).__mro__ if cls in CODES)
        return MCPError(code, str(error), {"code": error.code})
    log.error("mcp.bug", exc_info=error)
    return MCPError(INTERNAL_ERROR, "this should not have happened; the server's log says more")
