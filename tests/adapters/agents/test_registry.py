"""Which agents a plan may ask for: ours, those of users, those that packages bring."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from tests.adapters.agents.fakes import FakeAgent

from pilothouse.adapters.agents.registry import DRIVERS, GROUP, Drivers
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, Permissions
from pilothouse.errors import BadInput, Unavailable

instance = FakeAgent("instance")


class Made(FakeAgent):
    def __init__(self) -> None:
        super().__init__("made")


def broken() -> FakeAgent:
    raise RuntimeError("no such model")


def test_every_agent_is_listed_under_its_own_name() -> None:
    assert {name: driver.facts.name for name, driver in DRIVERS.items()} == {name: name for name in DRIVERS}


def test_every_agent_whose_program_one_gets_somewhere_says_where_and_from_which_version_on() -> None:
    for driver in DRIVERS.values():
        facts = driver.facts
        assert facts.title
        assert not facts.programs or facts.install, facts.name
        assert not facts.programs or facts.minimum or not facts.tells_version, facts.name
        assert not facts.asking or DRIVERS[facts.asking].facts.asks, facts.name


def test_an_unknown_agent_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"agent: there is no agent 'nobody'; there are: .*scripted"):
        Drivers({}, foreign=()).require("nobody")


def test_a_slip_of_the_keyboard_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="did you mean 'scripted'"):
        Drivers({}, foreign=()).require("Scriptd")


@pytest.mark.parametrize(
    ("script", "message"), [("", "script: the scripted agent needs"), ("../r", r"script: .*outside")]
)
def test_a_scripted_agent_without_replies_of_its_repository_is_refused(script: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Drivers({}, foreign=()).require("scripted").check(AgentSpec(agent="scripted", script=script), Permissions.ALLOW)


def test_a_package_brings_an_agent_as_a_driver_or_as_what_makes_one() -> None:
    found = Drivers(
        {}, {}, [EntryPoint("instance", f"{__name__}:instance", GROUP), EntryPoint("made", f"{__name__}:Made", GROUP)]
    )
    assert list(found) == ["instance", "made"]
    assert found.require("instance") is instance
    assert found.require("made") is found.require("made")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no.such.package:driver", "ModuleNotFoundError: No module named 'no'"),
        (f"{__name__}:broken", "RuntimeError: no such model"),
        (f"{__name__}:instance", "ValueError: its driver calls itself 'instance'"),
        (f"{__name__}:nothing", "AttributeError"),
    ],
)
def test_a_broken_package_is_told_and_takes_no_other_agent_down(value: str, reason: str) -> None:
    found = Drivers({}, foreign=[EntryPoint("theirs", value, GROUP)])
    for _ in range(2):
        with pytest.raises(Unavailable, match=f"the agent 'theirs' of {value} cannot be loaded: {reason}"):
            found.require("theirs")
    assert found.require("scripted").facts.name == "scripted"
    assert "theirs" in list(found)


def test_a_package_does_not_take_the_place_of_an_agent_of_ours() -> None:
    found = Drivers({}, foreign=[EntryPoint("scripted", f"{__name__}:broken", GROUP)])
    assert found.require("scripted") is DRIVERS["scripted"]


def test_a_user_adds_an_agent_that_speaks_the_protocol_by_its_command() -> None:
    found = Drivers({"mine": AgentConfig(command=("my-agent", "--acp"), acp=True)}, foreign=())
    facts = found.require("mine").facts
    assert (facts.name, facts.acp, facts.asks) == ("mine", True, True)
    assert "mine" in list(found)


@pytest.mark.parametrize(
    ("name", "config", "field"),
    [
        ("copilt", AgentConfig(model="gpt-5"), "agents.copilt"),
        ("mine", AgentConfig(acp=True), "agents.mine.command"),
        ("scripted", AgentConfig(acp=True, command=("x",)), "agents.scripted.acp"),
        ("My Agent", AgentConfig(acp=True, command=("x",)), "agents.My Agent"),
    ],
)
def test_settings_that_cannot_be_are_refused_when_the_server_starts(name: str, config: AgentConfig, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        Drivers({name: config}, foreign=())
    assert caught.value.field == field


def test_settings_of_an_agent_that_works_for_another_are_its_own_first() -> None:
    ours = {
        driver.facts.name: driver
        for driver in (FakeAgent("a", asking="b"), FakeAgent("b", programs=("a",)), FakeAgent("c"))
    }
    config = AgentConfig(command=("x",), model="m")
    found = Drivers({"a": config}, ours, ())
    assert found.config_of(ours["a"], "a") == config
    assert found.config_of(ours["b"], "a") == config
    assert found.config_of(ours["c"], "a") == AgentConfig(model="m")
    assert Drivers({"a": config, "b": AgentConfig()}, ours, ()).config_of(ours["b"], "a") == AgentConfig()
