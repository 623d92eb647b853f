"""The simulation in CI: thousands of seeds keep every promise, a seed replays exactly, and a broken rule is noticed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.simulation.run import Result, simulate

from pilothouse.adapters.agents.memory import MemoryAgents
from pilothouse.adapters.store import refusals
from pilothouse.core.plan import agent_flow, flow, kind, recover
from pilothouse.core.plan.effects import AnswerAgent, CleanedUp, Rescue, RunWork
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.spec import OnInterrupted
from pilothouse.core.plan.state import PlanState
from pilothouse.core.run.events import Event
from pilothouse.engine.agents.work import AgentWork
from pilothouse.engine.driving.actor import Actor
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.plans.git import PlanGit
from pilothouse.errors import PilothouseError, StaleOwner

SEEDS = 2000
CHUNK = 125
ONCE_FAILED = (10, 55, 109, 137, 417, 856, 1001, 1538, 2191, 2845, 2926, 3410)
"""Seeds that found something, in the engine or in the simulation itself; see docs/decisions/simulation.md."""
ONCE_FAILED_WITH_AGENTS = (194, 667, 1163)


@pytest.fixture(autouse=True)
def no_collection_in_between() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def kept(result: Result) -> None:
    assert result.broken is None, result.story()


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kept(simulate(seed))


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    kept(simulate(seed, agents=False))


@pytest.mark.parametrize("seed", ONCE_FAILED_WITH_AGENTS)
def test_what_was_found_once_with_agents_stays_mended(seed: int) -> None:
    kept(simulate(seed, agents=True))


def test_a_seed_makes_the_same_log_in_every_process() -> None:
    script = "from tests.simulation.run import simulate\nprint([simulate(s).fingerprint for s in range(40, 70)])"
    logs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            timeout=50,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(logs) == 1
    assert len(set(msgspec.json.decode(logs.pop().replace(b"'", b'"'), type=list[str]))) == 30


# The simulation is worth what it notices: rules of the engine, each broken on purpose.


def noticed(within: int, *, agents: bool | None = None) -> str:
    """What is noticed first, in at most so many seeds."""
    for seed in range(within):
        broken = simulate(seed, agents=agents).broken
        if broken is not None:
            return broken
    pytest.fail(f"nothing was noticed in {within} seeds")


def test_it_notices_an_effect_that_begins_before_its_intent_is_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Actor._commit

    async def dispatch_first(self: Actor[Any], at: int) -> None:
        self._dispatch()
        await commit(self, at)

    monkeypatch.setattr(Actor, "_commit", dispatch_first)
    assert "its intent is not in the log" in noticed(100)


def test_it_notices_an_owner_that_writes_after_it_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    fence = refusals.not_owned

    def no_fence(run_id: str, standing: refusals.Standing, epoch: int) -> PilothouseError | None:
        refusal = fence(run_id, standing, epoch)
        return None if isinstance(refusal, StaleOwner) else refusal

    monkeypatch.setattr(refusals, "not_owned", no_fence)
    assert "holds it" in noticed(1000)


def test_it_notices_work_that_runs_again_although_a_person_was_to_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = recover.lost

    def always_rerun(state: PlanState, effect: RunWork) -> list[Event]:
        spec = msgspec.structs.replace(effect.spec, on_interrupted=OnInterrupted.RERUN)
        return lost(state, msgspec.structs.replace(effect, spec=spec))

    monkeypatch.setattr(recover, "lost", always_rerun)
    monkeypatch.setattr(agent_flow, "lost", always_rerun)
    assert "nobody was asked" in noticed(300)


def test_it_notices_a_stop_that_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlanKind, "todo", lambda self, state: {**state.open, **state.timers, **state.housekeeping})
    assert "stopped after" in noticed(300, agents=False)


def test_it_notices_edits_that_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def only_remove(self: PlanGit, effect: Rescue) -> CleanedUp:
        await self._git.remove_worktree(effect.repo, effect.path)
        return CleanedUp(removed=True)

    monkeypatch.setattr(PlanGit, "rescue", only_remove)
    assert "what is in it is lost" in noticed(300)


def test_it_notices_too_many_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlanKind, "demand", lambda self, state: state.ready.working if self._may_start(state) else 0)
    assert "work at once" in noticed(100)


# The same for agents.


def test_it_notices_news_that_are_told_again_by_the_next_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = AgentWork.run

    async def from_the_start(self: AgentWork, effect: RunWork, within: Within) -> msgspec.Struct:
        return await follow(self, msgspec.structs.replace(effect, read_to=0), within)

    monkeypatch.setattr(AgentWork, "run", from_the_start)
    assert "but it printed" in noticed(300)


def test_it_notices_news_that_are_lost_with_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = AgentWork.run

    async def forget_the_start(self: AgentWork, effect: RunWork, within: Within) -> msgspec.Struct:
        read_to = 1 << 30 if effect.adopted else 0
        return await follow(self, msgspec.structs.replace(effect, read_to=read_to), within)

    monkeypatch.setattr(AgentWork, "run", forget_the_start)
    assert "but it printed" in noticed(300)


def test_it_notices_an_answer_that_never_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(self: MemoryAgents, answer: AnswerAgent) -> None:
        pass

    monkeypatch.setattr(MemoryAgents, "answer", nowhere)
    assert "never reached the agent" in noticed(300) or "does not come to an end" in noticed(300)


def test_it_notices_an_agent_that_works_on_when_its_budget_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "end_spenders", lambda state: [])
    monkeypatch.setattr(flow, "refusal", lambda state, node, spec: "")
    assert "budget" in noticed(300)
