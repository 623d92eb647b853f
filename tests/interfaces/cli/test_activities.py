"""What a live tree says of agents."""

from __future__ import annotations

from typing import Any

from pilothouse.core.plan.agent_events import AgentText, AgentToolStarted, AgentUsed
from pilothouse.core.plan.phases import Phase
from pilothouse.core.run.events import RunStarted
from pilothouse.core.run.usage import Usage
from pilothouse.interfaces.cli.activities import Activities


def spot(node: str, attempt: int = 1) -> dict[str, Any]:
    return {"node_id": node, "attempt": attempt, "phase": Phase.WORK, "to": 1}


def test_pieces_of_a_sentence_become_one_line() -> None:
    activities = Activities()
    assert activities.add(AgentText(**spot("a"), text="I will ")) == ("a", "I will")
    assert activities.add(AgentText(**spot("b"), text="Other")) == ("b", "Other")
    assert activities.add(AgentText(**spot("a"), text="write it")) == ("a", "I will write it")
    assert activities.add(AgentToolStarted(**spot("a"), call_id="c", tool="bash", title="ls")) == ("a", "> bash: ls")


def test_a_new_attempt_begins_anew() -> None:
    activities = Activities()
    activities.add(AgentText(**spot("a"), text="half a sen"))
    assert activities.add(AgentText(**spot("a", 2), text="Again")) == ("a", "Again")


def test_what_says_nothing_of_an_agent_changes_nothing() -> None:
    activities = Activities()
    assert activities.add(RunStarted()) is None
    assert activities.add(AgentUsed(**spot("a"), usage=Usage())) is None
