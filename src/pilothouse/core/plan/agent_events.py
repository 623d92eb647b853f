"""What an agent at work in a node told, as recorded: one event per kind of news of ``core.run.agents``.

Each says where (``node_id``, ``attempt``, ``phase``) and ``to``: how many bytes of the agent's raw output it and the
news before it account for. That is what lets the next owner go on without losing or doubling any. News that came with
the end of the process have the size of the whole output there.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from pilothouse.core.plan.phases import Phase
from pilothouse.core.run import agents
from pilothouse.core.run.agents import ToolStatus
from pilothouse.core.run.events import Event
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.usage import Usage

NewsOfEvent: TypeAlias = (
    agents.SessionStarted
    | agents.Text
    | agents.Reasoning
    | agents.ToolStarted
    | agents.ToolEnded
    | agents.FileEdited
    | agents.Used
    | agents.Noted
)


class AgentEvent(Event, frozen=True, kw_only=True):
    """Base of them all."""

    durable: ClassVar[bool] = False

    node_id: str
    attempt: int
    phase: Phase
    to: int


class AgentSessionStarted(AgentEvent, frozen=True, kw_only=True, tag="AGENT_SESSION_STARTED"):
    """The conversation can be resumed by this id from here on."""

    durable: ClassVar[bool] = True

    session_id: str
    model: str = ""


class AgentText(AgentEvent, frozen=True, kw_only=True, tag="AGENT_TEXT"):
    """A piece of what the agent says; pieces follow one another without anything between them."""

    text: str


class AgentReasoning(AgentEvent, frozen=True, kw_only=True, tag="AGENT_REASONING"):
    """A piece of what the agent thinks before it says something."""

    text: str


class AgentToolStarted(AgentEvent, frozen=True, kw_only=True, tag="AGENT_TOOL_STARTED"):
    """The agent uses a tool; ``input`` is what it gives it."""

    call_id: str
    tool: str
    title: str = ""
    input: str = ""


class AgentToolEnded(AgentEvent, frozen=True, kw_only=True, tag="AGENT_TOOL_ENDED"):
    """A tool answered, failed, or was not permitted."""

    call_id: str
    tool: str = ""
    status: ToolStatus = ToolStatus.SUCCEEDED
    output: str = ""


class AgentFileEdited(AgentEvent, frozen=True, kw_only=True, tag="AGENT_FILE_EDITED"):
    """The agent says that it changed a file; what is so is in the node's commit."""

    path: str
    change: str = "modified"
    lines_added: int = 0
    lines_removed: int = 0


class AgentUsed(AgentEvent, frozen=True, kw_only=True, tag="AGENT_USED"):
    """More usage, since the last such event."""

    usage: Usage
    model: str = ""

    def project(self, row: RunRow) -> RunRow:
        """Totals only: what a list of runs shows."""
        before: dict[str, float] = row.detail.get("usage", {})
        added = {
            "totalTokens": self.usage.tokens,
            "cost": self.usage.cost,
            "unpricedTokens": self.usage.unpriced_tokens,
        }
        sums = {name: before.get(name, 0) + amount for name, amount in added.items()}
        return msgspec.structs.replace(row, detail={**row.detail, "usage": sums})


class AgentNoted(AgentEvent, frozen=True, kw_only=True, tag="AGENT_NOTED"):
    """Anything else worth knowing: a retry of the agent's own, a warning, a line that is none of its events."""

    text: str
    level: str = "info"


class AgentAnswered(Event, frozen=True, kw_only=True, tag="AGENT_ANSWERED"):
    """The answer to a request lies where the agent that asked finds it, or could not be put there (``error``)."""

    durable: ClassVar[bool] = False

    node_id: str
    wait_id: str
    request_id: str
    error: str = ""


class BudgetReached(Event, frozen=True, kw_only=True, tag="BUDGET_REACHED"):
    """A node's agent is ended because its own budget, or the plan's, is used up: ``reason`` says which and of what."""

    node_id: str
    attempt: int
    reason: str


_EVENT_OF: dict[type[Any], type[AgentEvent]] = {
    agents.SessionStarted: AgentSessionStarted,
    agents.Text: AgentText,
    agents.Reasoning: AgentReasoning,
    agents.ToolStarted: AgentToolStarted,
    agents.ToolEnded: AgentToolEnded,
    agents.FileEdited: AgentFileEdited,
    agents.Used: AgentUsed,
    agents.Noted: AgentNoted,
}


def agent_event(news: NewsOfEvent, *, node_id: str, attempt: int, phase: Phase, to: int) -> AgentEvent:
    """The event that records ``news``. ``Asked`` has none: what becomes of it is decided, see ``NeedsApproval``."""
    return _EVENT_OF[type(news)](node_id=node_id, attempt=attempt, phase=phase, to=to, **msgspec.structs.asdict(news))


AGENT_EVENTS: tuple[type[Event], ...] = (*_EVENT_OF.values(), AgentAnswered, BudgetReached)
