"""What an interface is handed: everything a server offers, and nothing of how it does it."""

from __future__ import annotations

from dataclasses import dataclass

from pilothouse.engine.access.access import Access
from pilothouse.engine.access.credentials import Credentials
from pilothouse.engine.access.keys import Keys
from pilothouse.engine.access.oauth import OAuth
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.agents.catalogue import AgentCatalogue
from pilothouse.engine.answering.tokens import AgentTokens
from pilothouse.engine.calling.callers import Callers
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.chats import Chats
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.plans.plans import Plans
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.engine.ports import Clock
from pilothouse.engine.queries import Queries
from pilothouse.engine.runs import Runs
from pilothouse.engine.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Services:
    """``supervisor`` is here for what is live and for the hub only; control goes through ``runs`` and ``plans``."""

    supervisor: Supervisor
    runs: Runs
    plans: Plans
    queries: Queries
    repos: Repos
    clock: Clock
    agents: AgentCatalogue
    keys: Keys
    access: Access
    workflows: Workflows
    chats: Chats
    tools: ToolRegistry
    tool_callers: Callers
    agent_tokens: AgentTokens
    backend: Backend
    credentials: Credentials
    oauth: OAuth
