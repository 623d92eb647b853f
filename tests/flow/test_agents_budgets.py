"""Budgets that real agents pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.flow import engine, eventually, make_repo, node, run, run_plan
from tests.support.models.parts import hang, run_shell, say, usage, write_file
from tests.support.models.server import ModelServer
from tests.support.real_agents import find_agents, job, one_for_all, plan, settings

from pilothouse.core.plan.agent_events import BudgetReached

pytestmark = pytest.mark.timeout(300)

TELL_TOKENS_AS_THEY_WORK = ("claude", "copilot")
"""Copilot does so when it has had a few seconds for it. The others tell them at their end."""


@pytest.mark.parametrize("agent", TELL_TOKENS_AS_THEY_WORK)
def test_a_budget_of_tokens_stops_the_agent_that_passes_it_and_no_other(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")
    scripts = {
        "greedy": (
            (write_file("greedy.txt", "half\n"), usage(400, 100)),
            (run_shell("sleep 3"), usage(400, 101)),
            (run_shell("sleep 3"), usage(1, 1)),
            (say("Slowly. "), hang()),
        ),
        "modest": ((write_file("modest.txt", "done\n"), usage(400, 90)), (say("Done."), usage(400, 90))),
    }

    async def journey(server: ModelServer) -> None:
        async with engine(tmp_path / "data", agents=settings(one_for_all(server), [agent])) as services:
            jobs = (job(name, agent, f"Be {name}", "budget: {tokens: 1000}") for name in scripts)
            ended = await run_plan(services, repo, plan(*jobs))
            greedy = node(ended, "greedy")
            assert (ended["status"], greedy["status"], node(ended, "modest")["status"]) == (
                "partial",
                "failed",
                "succeeded",
            )
            assert "1,001 of 1,000 tokens" in greedy["error"]
            told = [one.event for one in await services.queries.events(ended["planId"], 0, 100_000)]
            assert [one.node_id for one in told if isinstance(one, BudgetReached)] == [greedy["id"]]
            assert node(ended, "modest")["usage"]["totalTokens"] == 980

            async def rescued() -> str:
                return node(await services.queries.plan(ended["planId"]), "greedy")["rescueRef"] or ""

            assert repo.show(await eventually(rescued, bool), "greedy.txt") == "half\n"
        assert repo.files("result") == {"README.md", "modest.txt"}

    with ModelServer(scripts) as server:
        run(journey(server))
