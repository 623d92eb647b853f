"""What an agent is given that answers a turn: a server of the turn's tools, and what it may show there.

Knows neither the program that is that server nor what comes of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.auth.agent_tokens import make_token
from pilothouse.core.auth.principals import Answering
from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.run.agents import ToolServer
from pilothouse.engine.answering.tools import agents_part
from pilothouse.engine.tools.registry import ToolRegistry

SERVER_NAME = "pilothouse"
"""What agents know it by."""
SOCKET, TOKEN = "PILOTHOUSE_MCP_SOCKET", "PILOTHOUSE_MCP_TOKEN"
"""The environment of its program: where this server listens, and what the agent shows there."""


class AgentTools:
    """``secret``: what tokens are derived from. ``missing``: why no agent can be given any, in words for people."""

    def __init__(
        self, registry: ToolRegistry, secret: bytes, command: Sequence[str], socket: str, missing: str = ""
    ) -> None:
        self._registry = registry
        self._secret = secret
        self._command = tuple(command)
        self._socket = socket
        self._missing = missing

    async def server(self, call: CallBackend) -> ToolServer | None:
        """For the agent of a request; the same for whoever follows it later. None: it is offered nothing."""
        if self._missing or not await self._offers(call):
            return None
        token = make_token(self._secret, Answering(call.turn_id, call.call))
        return ToolServer(name=SERVER_NAME, command=self._command, env={SOCKET: self._socket, TOKEN: token})

    async def trouble(self, call: CallBackend) -> str:
        """Why an agent goes without tools that it would be given; empty where it does not."""
        return self._missing if self._missing and await self._offers(call) else ""

    async def _offers(self, call: CallBackend) -> bool:
        return bool(agents_part(await self._registry.named(call.agent_tools)))
