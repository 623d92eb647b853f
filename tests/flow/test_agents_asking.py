"""Real agents that ask a person what they may do, and are answered by a server that did not hear the question."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.flow import engine, finished, make_repo, node, run, submit, until
from tests.support.models.parts import run_shell, say
from tests.support.models.server import ModelServer
from tests.support.real_agents import find_agents, for_owners, job, one_for_all, plan, settings
from tests.support.terminal import desk
from tests.support.terminal import until as seen

from pilothouse.core.plan.agent_events import AgentToolEnded
from pilothouse.core.run.agents import ToolStatus
from pilothouse.core.run.events import NeedsApproval

pytestmark = pytest.mark.timeout(300)

ANSWERS = {"copilot": "approve", "claude": "refuse", "codex": "approve", "opencode": "refuse", "gemini": "approve"}
"""Named as in any other plan: that they are driven over another protocol then is nobody's concern. What each makes of
either answer its own tests show."""


@pytest.mark.parametrize(("agent", "answer"), ANSWERS.items())
def test_what_a_real_agent_asks_is_answered_after_its_server_was_gone(
    agent: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")

    async def journey(server: ModelServer) -> None:
        known = settings(one_for_all(server), [agent])
        async with engine(tmp_path / "data", agents=known, orphan_grace=60.0) as services:
            plan_id = await submit(services, repo, plan(job("it", agent), more="permissions: ask"))
            asked = (await until(services, plan_id, lambda r: isinstance(r.event, NeedsApproval)))[-1].event
            assert isinstance(asked, NeedsApproval)
            assert "echo made > made.txt" in str(asked.preview)
        async with engine(tmp_path / "data", agents=known) as services:
            [wait] = [wait for row in await services.runs.waits() for wait in row.waits]
            await services.runs.answer(wait.id, answer, "somebody")
            done = await finished(services, plan_id)
            told = [recorded.event for recorded in await services.queries.events(plan_id, 0, 100_000)]
        expected = "succeeded" if answer == "approve" else "failed"
        assert node(done, "it")["status"] == expected, node(done, "it")["error"]
        assert len([event for event in told if isinstance(event, NeedsApproval)]) == 1
        [ended] = [event for event in told if isinstance(event, AgentToolEnded)]
        assert ended.status is (ToolStatus.SUCCEEDED if answer == "approve" else ToolStatus.DENIED)
        if answer == "approve":
            assert repo.show("result", "made.txt") == "made\n"

    with ModelServer((run_shell("echo made > made.txt"), say("That was it."))) as server:
        run(journey(server))


def test_requests_are_listed_answered_and_expire_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")
    script = run_shell("echo made > made.txt"), say("That was it.")
    agents = {"yes": "copilot", "no": "claude", "late": "copilot"}
    with (
        ModelServer(script) as server,
        desk(tmp_path, **for_owners(settings(one_for_all(server), {*agents.values()}))) as at,
    ):
        ask = at.plan(plan(job("yes", agents["yes"]), job("no", agents["no"]), more="permissions: ask"))
        assert at.run("run", ask, "--repo", repo.path, "--detach").code == 0
        listed = seen(lambda: found if len(found := at.ask("approvals", "list")["approvals"]) == 2 else None)
        shown = at.run("approvals", "list").out
        for wait in listed:
            assert (wait["kind"], wait["id"] in shown) == ("approval", True)
            answer = "approve" if wait["detail"]["node"] == "yes" else "refuse"
            assert answer in wait["options"]
            assert at.run("approvals", "answer", wait["id"], answer).code == 0
            again = at.run("approvals", "answer", wait["id"], "approve")
            assert (again.code, "nothing waits" in again.err) == (2, True), again
        ended = at.run("plan", "show", "last", "--follow", "--json").json
        assert at.ask("approvals", "list") == {"approvals": []}
        assert {one["producerId"]: one["status"] for one in ended["nodes"]} == {"yes": "succeeded", "no": "failed"}
        assert repo.show("result", "made.txt") == "made\n"

        late = at.plan(plan(job("late", agents["late"]), more="permissions: ask\napprovalTimeout: 500"))
        said = at.run("run", late, "--repo", repo.path)
        assert said.code == 1
        [closed] = [one for one in at.ask("runs", "events", "last")["events"] if one["type"] == "WAIT_CLOSED"]
        assert (closed["answer"], closed["by"]) == ("refuse", "timeout")
        assert f"pilothouse approvals answer {closed['waitId']} approve" in said.out
        assert "it was not permitted to use" in said.out
