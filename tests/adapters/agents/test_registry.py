"""Which agents a plan may ask for."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.registry import DRIVERS, check_agents, require
from pilothouse.core.plan.spec_parse import plan_from_data
from pilothouse.errors import BadInput


def plan(**phases: object) -> object:
    return {"name": "p", "jobs": [{"producerId": "api", "task": "t", **phases}]}


def test_every_agent_is_listed_under_its_own_name() -> None:
    assert {name: driver.name for name, driver in DRIVERS.items()} == {name: name for name in DRIVERS}
    for driver in DRIVERS.values():
        driver.check()


def test_an_unknown_agent_is_refused_with_those_that_are_built() -> None:
    with pytest.raises(BadInput, match=r"agent 'copilot' is not built yet; built: scripted$"):
        require("copilot")


def test_a_slip_of_the_keyboard_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="did you mean 'scripted'"):
        require("scriptd")


@pytest.mark.parametrize("phase", ["prechecks", "work", "postchecks"])
def test_agents_are_checked_in_every_phase(phase: str) -> None:
    with pytest.raises(BadInput, match=rf"jobs\[api\]\.{phase}\.agent: agent 'copilot' is not built yet"):
        check_agents(plan_from_data(plan(**{phase: "@agent do it"})))


def test_a_scripted_agent_without_replies_is_refused() -> None:
    with pytest.raises(BadInput, match=r"jobs\[api\]\.work\.script: the scripted agent needs a replies file"):
        check_agents(plan_from_data(plan(work={"type": "agent", "agent": "scripted"})))


def test_a_plan_without_agents_and_one_with_a_scripted_one_pass() -> None:
    check_agents(plan_from_data(plan(work="make")))
    check_agents(plan_from_data(plan(work={"type": "agent", "agent": "scripted", "script": "r.yaml"})))
