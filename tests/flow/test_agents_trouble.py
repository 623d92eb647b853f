"""What goes wrong around real agents, and that each ends in the right state, with a reason that says what it was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.flow import Repo, engine, eventually, finished, make_repo, node, run, run_plan, submit
from tests.support.models.asked import Asked
from tests.support.models.parts import Part, Turn, call, fail, say, write_file
from tests.support.models.script import ASIDE
from tests.support.models.server import ModelServer, refusing
from tests.support.real_agents import find_agents, job, plan, settings

from pilothouse.core.plan.agent_events import AgentToolEnded
from pilothouse.core.plan.events import AttemptStarted
from pilothouse.core.plan.phases import Trigger
from pilothouse.core.run.agents import ToolStatus
from pilothouse.core.run.events import WaitOpened
from pilothouse.core.run.waits import WaitKind

pytestmark = pytest.mark.timeout(180)

AGENTS = (
    "copilot",
    "claude",
    "codex",
    "opencode",
    "gemini",
    "copilot-acp",
    "claude-acp",
    "codex-acp",
    "opencode-acp",
    "gemini-acp",
)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    find_agents(monkeypatch)
    return make_repo(tmp_path / "repo")


def _at_once(agents: Iterable[str], more: str = "") -> str:
    return plan(*(job(agent, agent) for agent in agents), more=f"maxParallel: 16\n{more}")


TELL_WHAT_WAS_DENIED = tuple(agent for agent in AGENTS if agent not in ("codex-acp", "opencode-acp"))
WRITERS = {
    "gemini": call("write_file", {"file_path": "made.txt", "content": "made\n"}),
    "opencode": call("write", {"filePath": "made.txt", "content": "made\n"}),
}
"""These take what is not permitted away from their models."""


def test_what_is_not_permitted_fails_and_the_reason_names_the_tool(repo: Repo) -> None:
    async def journey(server: ModelServer) -> None:
        agents = settings(server.url_of, TELL_WHAT_WAS_DENIED)
        async with engine(repo.path.parent / "data", agents=agents) as services:
            ended = await run_plan(services, repo, _at_once(TELL_WHAT_WAS_DENIED, "permissions: deny"))
            told = [one.event for one in await services.queries.events(ended["planId"], 0, 100_000)]
        for agent in TELL_WHAT_WAS_DENIED:
            found = node(ended, agent)
            tools = [one for one in told if isinstance(one, AgentToolEnded) and one.node_id == found["id"]]
            assert [one.status for one in tools] == [ToolStatus.DENIED], f"{agent}: {found['error']}"
            assert found["status"] == "failed"
            assert f"it was not permitted to use: {tools[0].tool}" in found["error"]

    write = write_file("made.txt", "made\n")
    scripts = {agent: (WRITERS.get(agent, write), say("It is written.")) for agent in TELL_WHAT_WAS_DENIED}
    with ModelServer(scripts) as server:
        run(journey(server))


class Recovers:
    """A model that fails the first try of whoever asks, however often, and helps the next."""

    def __init__(self, fault: Part) -> None:
        self._fault = fault

    def __call__(self, asked: Asked) -> Turn:
        if not asked.tools:
            return ASIDE
        if not {"# Go on", "# An earlier attempt"} & set("\n".join(asked.prompts).splitlines()):
            return (self._fault,)
        return (say("It is written."),) if asked.results else (write_file("made.txt", "made\n"),)


@pytest.mark.parametrize(("status", "message"), [(429, "rate limit reached"), (500, "internal server error")])
def test_a_model_that_limits_its_rate_or_breaks_is_asked_again_after_a_pause(
    status: int, message: str, repo: Repo
) -> None:
    asked = AGENTS[status == 500 :: 2]

    async def journey(server: ModelServer) -> None:
        agents = settings(server.url_of, asked)
        async with engine(repo.path.parent / "data", agents=agents, agent_backoff=0.1) as services:
            ended = await run_plan(services, repo, _at_once(asked))
            told = [one.event for one in await services.queries.events(ended["planId"], 0, 100_000)]
        for agent in asked:
            found = node(ended, agent)
            assert found["status"] == "succeeded", found["error"]
            waits = [one.wait for one in told if isinstance(one, WaitOpened) and one.wait.scope == found["id"]]
            assert [one.kind for one in waits] == [WaitKind.BACKOFF]
            assert re.search(f"{message}|{status}|high demand", waits[0].question), waits
            tries = [one.trigger for one in told if isinstance(one, AttemptStarted) and one.node_id == found["id"]]
            assert tries == [Trigger.INITIAL, Trigger.BACKOFF]

    with ModelServer({agent: Recovers(fail(status, message, retry_after=1)) for agent in asked}) as server:
        run(journey(server))


def test_a_model_that_is_not_there_is_the_reason_for_a_pause(repo: Repo) -> None:
    async def journey(url: str) -> None:
        agents = settings(lambda _: url, AGENTS)
        async with engine(repo.path.parent / "data", agents=agents, agent_backoff=3600.0) as services:
            plan_id = await submit(services, repo, _at_once(AGENTS))

            async def reasons() -> dict[str, str]:
                nodes = (await services.queries.plan(plan_id))["nodes"]
                return {one["producerId"]: one["waits"][0]["question"] for one in nodes if one["waits"]}

            found = await eventually(reasons, lambda found: set(found) == set(AGENTS))
            for agent, question in found.items():
                assert re.search("connect|refused", question, re.IGNORECASE), f"{agent}: {question}"
            await services.runs.control(plan_id, "cancel")
            assert (await finished(services, plan_id))["status"] == "canceled"

    with refusing() as url:
        run(journey(url))
