"""What the agents of a machine promise, asked of the real ones and of their in-memory twin alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import pytest
from tests.adapters.agents.effects import effect
from tests.adapters.agents.fakes import SYSTEM_PATH, FakeAgent, install

from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.adapters.agents.local import LocalAgents
from pilothouse.adapters.agents.memory import AgentWorld, MemoryAgent, MemoryAgents
from pilothouse.adapters.agents.prices import read_prices
from pilothouse.adapters.agents.private import PrivateFiles
from pilothouse.adapters.agents.registry import Drivers
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.spec import AgentSpec, ProcessSpec, ShellSpec, Tier
from pilothouse.core.run.agents import Permissions, Text, Used
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage
from pilothouse.engine.ports import Agents
from pilothouse.errors import BadInput, NotFound, Unavailable

T = TypeVar("T")

MODELS = ("gpt-5", "gpt-5-mini", "claude-opus-4.6")
PRICES = '[models."gpt-5"]\ninput = 2\noutput = 10\ncached = 0.2\n'
DONE = Exit(reason=ExitReason.EXITED, code=0)


class Setting(Protocol):
    """A machine with an agent ``helper`` that is installed and tells its models, ``quiet`` that does not and cannot
    ask, and ``absent`` that is not installed; a price table; a worktree. ``owner`` is a server's life on it."""

    worktree: Path

    def owner(self) -> Agents: ...

    def answered(self, work: RunWork, request_id: str) -> tuple[bool, bool] | None:
        """(allowed, remember), as the agent of that work finds it."""
        ...


class RealSetting:
    def __init__(self, root: Path, worktree: Path) -> None:
        self.worktree = worktree
        self._root = root
        install(root / "bin", "helper", models=MODELS)
        install(root / "bin", "quiet")
        (root / "prices.toml").write_text(PRICES)

    def owner(self) -> LocalAgents:
        ours = {
            driver.facts.name: driver
            for driver in (
                FakeAgent("helper", asks=True),
                FakeAgent("quiet", tells_models=False),
                FakeAgent("absent"),
            )
        }
        return LocalAgents(
            {"PATH": f"{self._root}/bin:{SYSTEM_PATH}", "HOME": str(self._root)},
            private_root=self._root / "private",
            prices=self._root / "prices.toml",
            drivers=Drivers({}, ours, ()),
        )

    def answered(self, work: RunWork, request_id: str) -> tuple[bool, bool] | None:
        place = PrivateFiles(self._root / "private").run(work.plan_id, work.node_id, work.output)
        try:
            told = json.loads((place / f"answers/{request_id}.json").read_text())
        except FileNotFoundError:
            return None
        return told["allowed"], told["remember"]


class TwinSetting:
    def __init__(self, root: Path, worktree: Path) -> None:
        self.worktree = worktree
        (root / "prices.toml").write_text(PRICES)
        agents = {
            "quiet": MemoryAgent(asks=False),
            "helper": MemoryAgent(models=MODELS),
            "absent": MemoryAgent(installed=False, asks=False),
        }
        self._world = AgentWorld(agents, prices=read_prices(root / "prices.toml"))

    def owner(self) -> MemoryAgents:
        return MemoryAgents(self._world)

    def answered(self, work: RunWork, request_id: str) -> tuple[bool, bool] | None:
        found = self._world.answers.get((work.output, request_id))
        return (found.allowed, found.remember) if found else None


@pytest.fixture(params=[RealSetting, TwinSetting], ids=["local", "memory"])
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Setting:
    worktree = (tmp_path / "worktree").resolve()
    worktree.mkdir()
    made: Setting = request.param(tmp_path, worktree)
    return made


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


def agent_work(setting: Setting, agent: str = "helper", **changes: Any) -> RunWork:
    return effect(setting.worktree, AgentSpec(agent=agent, instructions="Do it well"), **changes)


def answer(work: RunWork, request_id: str = "1", **changes: Any) -> AnswerAgent:
    fields: dict[str, Any] = {
        "key": "k",
        "output": work.output,
        "plan_id": work.plan_id,
        "node_id": work.node_id,
        "request_id": request_id,
        "allowed": True,
    }
    return AnswerAgent(**(fields | changes))


# Whether an agent can do a piece of work.


@pytest.mark.parametrize(
    "spec",
    [
        AgentSpec(agent="helper"),
        AgentSpec(agent="helper", model="gpt-5-mini"),
        AgentSpec(agent="quiet"),
        AgentSpec(agent="quiet", model="anything"),
        AgentSpec(agent="helper", model_tier=Tier.FAST),
        AgentSpec(agent="quiet", model="anything", model_tier=Tier.FAST),
    ],
)
def test_work_that_an_agent_can_do_is_accepted(setting: Setting, spec: AgentSpec) -> None:
    run(setting.owner().check(spec))


def test_an_agent_nobody_knows_is_refused_with_the_nearest_name(setting: Setting) -> None:
    with pytest.raises(BadInput) as caught:
        run(setting.owner().check(AgentSpec(agent="helpr")))
    assert (caught.value.field, caught.value.fix) == ("agent", "did you mean 'helper'?")


def test_an_agent_that_is_not_installed_is_refused_with_what_installs_it(setting: Setting) -> None:
    with pytest.raises(Unavailable, match="install-absent"):
        run(setting.owner().check(AgentSpec(agent="absent")))


def test_a_model_that_is_not_offered_is_refused_with_the_nearest_and_all_there_are(setting: Setting) -> None:
    with pytest.raises(BadInput, match=r"gpt-5, gpt-5-mini, claude-opus-4\.6") as caught:
        run(setting.owner().check(AgentSpec(agent="helper", model="gpt-5-mni")))
    assert (caught.value.field, caught.value.fix) == ("model", "did you mean 'gpt-5-mini'?")


def test_a_tier_is_refused_where_nobody_knows_the_models(setting: Setting) -> None:
    with pytest.raises(BadInput) as caught:
        run(setting.owner().check(AgentSpec(agent="quiet", model_tier=Tier.FAST)))
    assert caught.value.field == "modelTier"


def test_who_cannot_ask_is_refused_where_a_plan_wants_to_be_asked(setting: Setting) -> None:
    agents = setting.owner()
    run(agents.check(AgentSpec(agent="helper"), Permissions.ASK))
    run(agents.check(AgentSpec(agent="quiet", permissions=Permissions.DENY), Permissions.ASK))
    for spec, permissions in (
        (AgentSpec(agent="quiet"), Permissions.ASK),
        (AgentSpec(agent="quiet", permissions=Permissions.ASK), Permissions.ALLOW),
    ):
        with pytest.raises(BadInput) as caught:
            run(agents.check(spec, permissions))
        assert caught.value.field == "permissions"


# What is started.


def test_commands_of_every_kind_run_in_the_worktree_and_print_where_they_are_told(setting: Setting) -> None:
    agents = setting.owner()
    for spec in (ShellSpec(command="true", timeout_ms=500), ProcessSpec(executable="true", timeout_ms=500)):
        command = run(agents.command(effect(setting.worktree, spec)))
        assert (command.cwd, command.output, command.errors) == (str(setting.worktree), "p1/n1/1/work", "")
        assert command.timeout_ms == 500
    command = run(agents.command(agent_work(setting)))
    assert (command.cwd, command.output, command.errors) == (
        str(setting.worktree),
        "p1/n1/1/work",
        "p1/n1/1/work.stderr",
    )


@pytest.mark.parametrize(("own", "left", "limit"), [(0, 0, 0), (500, 0, 500), (0, 300, 300), (500, 300, 300)])
def test_an_agent_is_ended_by_its_timeout_or_when_its_budget_of_time_is_used(
    setting: Setting, own: int, left: int, limit: int
) -> None:
    spec = AgentSpec(agent="helper", timeout_ms=own)
    command = run(setting.owner().command(effect(setting.worktree, spec, time_left_ms=left)))
    assert command.timeout_ms == limit


def test_an_agent_nobody_knows_is_not_started(setting: Setting) -> None:
    with pytest.raises(BadInput, match="there is no agent 'nobody'"):
        run(setting.owner().command(agent_work(setting, "nobody")))


def test_an_agent_that_is_gone_by_now_is_not_started(setting: Setting) -> None:
    with pytest.raises(BadInput, match="install-absent") as caught:
        run(setting.owner().command(agent_work(setting, "absent")))
    assert caught.value.field == "agent"


# What it tells.


def test_a_reader_reads_what_an_agent_prints_and_whoever_takes_over_reads_the_same(setting: Setting) -> None:
    agents, work = setting.owner(), agent_work(setting)
    run(agents.command(work))
    printed = encode(Text(text="hello"), Used(model="gpt-5", usage=Usage(input_tokens=3)), Finished()).splitlines()
    for owner in (agents, setting.owner()):
        reader = owner.reader(work)
        news = [item for line in printed[:2] for item in reader.line(line)]
        assert news == [Text(text="hello"), Used(model="gpt-5", usage=Usage(input_tokens=3))]
        assert not reader.finished
        assert not list(reader.line(printed[2]))
        assert reader.finished
        assert reader.end(DONE, "").ok


def test_readers_do_not_share_anything(setting: Setting) -> None:
    agents, work = setting.owner(), agent_work(setting)
    first, second = agents.reader(work), agents.reader(work)
    list(first.line(encode(Finished())))
    assert (first.finished, second.finished) == (True, False)


# What it costs.


def test_a_model_in_the_price_table_has_a_cost(setting: Setting) -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=500_000, output_tokens=100_000)
    priced = setting.owner().priced("gpt-5", usage)
    assert priced == msgspec.structs.replace(usage, cost=pytest.approx(1.0 + 0.1 + 1.0))


def test_a_model_without_a_price_costs_nothing_and_its_tokens_are_marked(setting: Setting) -> None:
    priced = setting.owner().priced("gpt-6", Usage(input_tokens=10, output_tokens=5, cost=7.0))
    assert priced == Usage(input_tokens=10, output_tokens=5, unpriced_tokens=15)


# Answers.


def test_an_answer_is_there_for_the_agent_whether_it_looks_already_or_not(setting: Setting) -> None:
    agents, work = setting.owner(), agent_work(setting)
    run(agents.command(work))
    assert setting.answered(work, "1") is None
    run(agents.answer(answer(work, allowed=True, remember=True)))
    run(agents.answer(answer(work, "2", allowed=False)))
    assert setting.answered(work, "1") == (True, True)
    assert setting.answered(work, "2") == (False, False)


def test_the_first_answer_counts_also_for_the_next_owner(setting: Setting) -> None:
    work = agent_work(setting)
    run(setting.owner().command(work))
    run(setting.owner().answer(answer(work, allowed=False)))
    run(setting.owner().answer(answer(work, allowed=True)))
    assert setting.answered(work, "1") == (False, False)


def test_asking_for_the_same_command_again_keeps_the_answers(setting: Setting) -> None:
    work = agent_work(setting)
    run(setting.owner().command(work))
    run(setting.owner().answer(answer(work)))
    run(setting.owner().command(work))
    assert setting.answered(work, "1") == (True, False)


def test_an_answer_to_an_agent_that_never_was_is_no_error(setting: Setting) -> None:
    work = agent_work(setting)
    run(setting.owner().answer(answer(work)))
    assert setting.answered(work, "1") is None


def test_runs_have_answers_of_their_own(setting: Setting) -> None:
    agents = setting.owner()
    first, second = agent_work(setting), agent_work(setting, attempt=2, output="p1/n1/2/work")
    run(agents.command(first))
    run(agents.command(second))
    run(agents.answer(answer(second)))
    assert setting.answered(first, "1") is None
    assert setting.answered(second, "1") == (True, False)


def test_a_deleted_plan_is_forgotten_and_forgetting_it_again_is_no_error(setting: Setting) -> None:
    agents, work, other = setting.owner(), agent_work(setting), agent_work(setting, plan_id="p2", output="p2/n1/1/work")
    run(agents.command(work))
    run(agents.command(other))
    run(agents.forget("p1"))
    run(agents.forget("p1"))
    run(agents.answer(answer(work)))
    run(agents.answer(answer(other)))
    assert setting.answered(work, "1") is None
    assert setting.answered(other, "1") == (True, False)


# What there is.


def test_all_agents_are_listed_by_name_with_what_they_lack(setting: Setting) -> None:
    found = {info.name: info for info in run(setting.owner().agents())}
    assert list(found) == ["absent", "helper", "quiet"]
    assert [(info.installed, info.asks, info.models) for info in found.values()] == [
        (False, False, None),
        (True, True, 3),
        (True, False, None),
    ]
    assert found["absent"].install == "install-absent"
    assert found["absent"].problem
    assert not found["helper"].problem


def test_models_are_listed_with_vendor_tier_default_and_whether_they_have_a_price(setting: Setting) -> None:
    told = run(setting.owner().models())
    assert [(m.id, m.agent, m.vendor, m.tier, m.default, m.priced) for m in told] == [
        ("gpt-5", "helper", "openai", "standard", True, True),
        ("gpt-5-mini", "helper", "openai", "fast", False, False),
        ("claude-opus-4.6", "helper", "anthropic", "premium", False, False),
    ]
    assert run(setting.owner().models("helper")) == told
    assert run(setting.owner().models("quiet", fresh=True)) == []


def test_models_of_an_agent_nobody_knows_are_not_found(setting: Setting) -> None:
    with pytest.raises(NotFound, match="did you mean 'helper'"):
        run(setting.owner().models("helpr"))
