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

pytestmark = pytest.mark.timeout(300)

NATIVE = ("copilot", "claude", "codex", "opencode", "gemini")
"""Each is a program of its own with a way of its own; over the common protocol what goes wrong is told by one client,
whoever is behind it, so that one of those stands for all."""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    find_agents(monkeypatch)
    return make_repo(tmp_path / "repo")


def _at_once(agents: Iterable[str], more: str = "") -> str:
    return plan(*(job(agent, agent) for agent in agents), more=f"maxParallel: 16\n{more}")


DENIED = (*NATIVE, "copilot-acp")
MAY_HIDE_WHAT_WAS_DENIED = frozenset({"codex"})
"""It forbids by a sandbox, and at times says nothing of a command that ran into it."""
WRITERS = {
    "gemini": call("write_file", {"file_path": "made.txt", "content": "made\n"}),
    "opencode": call("write", {"filePath": "made.txt", "content": "made\n"}),
}
"""These take what is not permitted away from their models."""


def test_what_is_not_permitted_fails_and_the_reason_names_the_tool(repo: Repo) -> None:
    async def journey(server: ModelServer) -> None:
        async with engine(repo.path.parent / "data", agents=settings(server.url_of, DENIED)) as services:
            ended = await run_plan(services, repo, _at_once(DENIED, "permissions: deny"))
            told = [one.event for one in await services.queries.events(ended["planId"], 0, 100_000)]
        for agent in DENIED:
            found = node(ended, agent)
            assert found["status"] == "failed"
            assert "No work evidence" in found["error"]
            if agent not in MAY_HIDE_WHAT_WAS_DENIED:
                tools = [one for one in told if isinstance(one, AgentToolEnded) and one.node_id == found["id"]]
                assert [one.status for one in tools] == [ToolStatus.DENIED]
                assert f"it was not permitted to use: {tools[0].tool}" in found["error"]

    write = write_file("made.txt", "made\n")
    scripts = {agent: (WRITERS.get(agent.removesuffix("-acp"), write), say("It is written.")) for agent in DENIED}
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


@pytest.mark.parametrize(
    ("status", "message", "asked"),
    [
        (429, "rate limit reached", ("copilot", "codex", "gemini-acp")),
        (500, "internal server error", ("claude", "opencode", "codex-acp")),
    ],
)
def test_a_model_that_limits_its_rate_or_breaks_is_asked_again_after_a_pause(
    status: int, message: str, asked: tuple[str, ...], repo: Repo
) -> None:
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


LOST = ("claude", "codex", "opencode", "gemini", "copilot-acp")
GIVE_UP_SOON = ("claude", "copilot-acp")
"""Within half a minute. OpenCode takes more than one, Gemini four, and Codex tries for ever."""


def test_a_model_that_is_not_there_is_the_reason_for_a_pause_and_who_keeps_trying_is_ended_in_time(repo: Repo) -> None:
    others = [agent for agent in LOST if agent not in GIVE_UP_SOON]
    jobs = (job(agent, agent, work="" if agent in GIVE_UP_SOON else "timeout: 10000") for agent in LOST)

    async def journey(url: str) -> None:
        agents = settings(lambda _: url, LOST)
        async with engine(repo.path.parent / "data", agents=agents, agent_backoff=3600.0) as services:
            plan_id = await submit(services, repo, plan(*jobs, more="maxParallel: 16"))

            async def ended() -> dict[str, str]:
                nodes = (await services.queries.plan(plan_id))["nodes"]
                found = {one["producerId"]: one["error"] for one in nodes if one["error"]}
                return found | {one["producerId"]: one["waits"][0]["question"] for one in nodes if one["waits"]}

            reasons = await eventually(ended, lambda found: len(found) == len(LOST))
            for agent in GIVE_UP_SOON:
                assert "is tried again after a pause of 3600 s" in reasons[agent]
                assert re.search("connect|refused", reasons[agent], re.IGNORECASE), reasons
            assert {reasons[agent].startswith("Timed out") for agent in others} == {True}, reasons
            assert "Connection failed" in (await services.queries.node_logs(plan_id, "codex"))["text"]
            await services.runs.control(plan_id, "cancel")
            assert (await finished(services, plan_id))["status"] in ("canceled", "failed")

    with refusing() as url:
        run(journey(url))
