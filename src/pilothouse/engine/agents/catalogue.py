"""Which agents and models there are, for those who choose one: people, and programs that write plans."""

from __future__ import annotations

from pilothouse.core.run.agents import AgentInfo, ModelInfo
from pilothouse.engine.ports import Agents


class AgentCatalogue:
    """Reads only; gives no agent anything to do."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def agents(self, *, fresh: bool = False) -> list[AgentInfo]:
        """Every agent there is a driver for, installed or not, by name. ``fresh``: asked anew, not from the cache."""
        return await self._agents.agents(fresh=fresh)

    async def models(self, agent: str | None = None, *, fresh: bool = False) -> list[ModelInfo]:
        """What each installed agent, or the given one, says it can use. Raises ``NotFound`` for an unknown agent."""
        return await self._agents.models(agent, fresh=fresh)
