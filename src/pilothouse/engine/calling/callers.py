"""From who asks to what they may call: an agent the tools of the turn that it answers, anybody else those outside."""

from __future__ import annotations

from pilothouse.core.auth.policy import Action, require
from pilothouse.core.auth.principals import Principal
from pilothouse.engine.answering.backend import AgentTurns
from pilothouse.engine.answering.tools import TurnTools
from pilothouse.engine.calling.direct import DirectTools
from pilothouse.engine.calling.direct_calls import DirectCalls
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.chats import Chats
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.tools.callers import ToolCaller
from pilothouse.engine.tools.registry import ToolRegistry


class Callers:
    """Callers of the server's tools, by principal."""

    def __init__(self, supervisor: Supervisor, tools: ToolRegistry, chats: Chats, backend: Backend) -> None:
        self._supervisor = supervisor
        self._tools = tools
        self._backend = backend
        self._direct = DirectCalls(DirectTools(chats, tools))

    def __call__(self, principal: Principal) -> ToolCaller:
        """Raises ``NeedsScope``."""
        if principal.answering is not None:
            return TurnTools(self._supervisor, self._tools, principal.answering, self._caught_up)
        require(principal, Action.SEND)
        return self._direct.of(principal)

    async def _caught_up(self, turn_id: str, call: int) -> None:
        if isinstance(self._backend, AgentTurns):
            await self._backend.caught_up(turn_id, call)
