"""Which agents a plan may ask for."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.registry import DRIVERS, check_agent, require
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.errors import BadInput


def test_every_agent_is_listed_under_its_own_name() -> None:
    assert {name: driver.facts.name for name, driver in DRIVERS.items()} == {name: name for name in DRIVERS}


def test_an_unknown_agent_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"agent: there is no agent 'nobody'; there are: .*scripted"):
        require("nobody")


def test_a_slip_of_the_keyboard_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="did you mean 'scripted'"):
        require("scriptd")


@pytest.mark.parametrize(
    ("script", "message"), [("", "script: the scripted agent needs"), ("../r", "script: .*outside")]
)
def test_a_scripted_agent_without_replies_of_its_repository_is_refused(script: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_agent(AgentSpec(agent="scripted", script=script))
