"""What an interface is handed: everything a server offers, and nothing of how it does it."""

from __future__ import annotations

from dataclasses import dataclass

from pilothouse.engine.access import Access
from pilothouse.engine.agent_tokens import AgentTokens
from pilothouse.engine.agents import AgentCatalogue
from pilothouse.engine.callers import Callers
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats import Chats
from pilothouse.engine.credentials import Credentials
from pilothouse.engine.keys import Keys
from pilothouse.engine.oauth import OAuth
from pilothouse.engine.plans import Plans
from pilothouse.engine.ports import Clock
from pilothouse.engine.queries import Queries
from pilothouse.engine.repos import Repos
from pilothouse.engine.runs import Runs
from pilothouse.engine.supervisor import Supervisor
from pilothouse.engine.tools import ToolRegistry
from pilothouse.engine.workflows import Workflows


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
