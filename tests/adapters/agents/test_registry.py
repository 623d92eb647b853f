"""Which agents a plan may ask for."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.registry import DRIVERS, check_agent, require
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.errors import BadInput


def test_every_agent_is_listed_under_its_own_name() -> None:
    assert {name: driver.facts.name for name, driver in DRIVERS.items()} == {name: name for name in DRIVERS}


def test_an_unknown_agent_is_refused_with_those_that_are_built() -> None:
    with pytest.raises(BadInput, match=r"agent 'copilot' is not built yet; built: scripted$"):
        require("copilot")


def test_a_slip_of_the_keyboard_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="did you mean 'scripted'"):
        require("scriptd")


def test_an_agent_is_checked_before_a_plan_is_accepted() -> None:
    check_agent(AgentSpec(agent="scripted", script="r.yaml"))
    with pytest.raises(BadInput, match="agent: agent 'copilot' is not built yet"):
        check_agent(AgentSpec())


@pytest.mark.parametrize(
    ("script", "message"), [("", "script: the scripted agent needs"), ("../r", "script: .*outside")]
)
def test_a_scripted_agent_without_replies_of_its_repository_is_refused(script: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_agent(AgentSpec(agent="scripted", script=script))
