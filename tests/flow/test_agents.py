"""Plans whose nodes are real agent CLIs, one agent at a time: from an edit to its merge, over a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.flow import engine, finished, make_repo, node, run, run_plan
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer
from tests.support.real_agents import endpoint, find_agents, job, one_for_all, plan, settings

from pilothouse.core.plan.agent_events import (
    AgentFileEdited,
    AgentReasoning,
    AgentSessionStarted,
    AgentText,
    AgentToolEnded,
    AgentToolStarted,
    AgentUsed,
)
from pilothouse.core.run.agents import ToolStatus

pytestmark = pytest.mark.timeout(300)

AGENTS = (
    *("copilot", "claude", "codex", "opencode", "gemini"),
    *("copilot-acp", "codex-acp"),
)
TELL_NO_REASONING_TOKENS = frozenset({"claude"})
"""Its models count them as output."""
SHOW_NO_REASONING = frozenset({"gemini"})
COPY_CONVERSATIONS = frozenset({"gemini"})
"""They go on under another id."""
TELL_NO_EDITS = frozenset({"codex", "codex-acp"})
"""It edits by its shell, so it does not know itself. What was edited, git knows."""

TWO_TRIES = (
    (think("I look around."), say("Looking."), run_shell("cat README.md"), usage(1000, 100, 200, 10)),
    (say("There is nothing to do."), usage(1100, 110, 400)),
    (say("I write it now."), write_file("made.txt", "made\n"), usage(1200, 120, 600)),
    (say("It is written."), usage(1300, 130, 800)),
)
"""The first conversation ends with nothing to show for it. Whoever goes on with it writes a file."""


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_did_nothing_is_told_so_and_goes_on_and_what_it_then_edits_is_merged(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")

    async def journey(server: ModelServer) -> None:
        async with engine(tmp_path / "data", agents=settings(one_for_all(server), [agent])) as services:
            failed = await run_plan(services, repo, plan(job("it", agent, "Write made.txt")))
            assert "No work evidence" in (node(failed, "it")["error"] or ""), failed
            plan_id, seq = failed["planId"], (await services.queries.run(failed["planId"])).seq
            await services.plans.retry(plan_id)
            done = await finished(services, plan_id, seq)
            told = [recorded.event for recorded in await services.queries.events(plan_id, 0, 100_000)]
        assert done["status"] == "succeeded", node(done, "it")["error"]
        assert (repo.files("result"), repo.show("result", "made.txt")) == ({"README.md", "made.txt"}, "made\n")

        said = ["".join(e.text for e in told if isinstance(e, AgentText) and e.attempt == n) for n in (1, 2)]
        for n, text in ((0, "Looking."), (0, "There is nothing to do."), (1, "I write it now."), (1, "It is written.")):
            assert ("".join(said).count(text), said[n].count(text)) == (1, 1), said
        reasoning = "".join(e.text for e in told if isinstance(e, AgentReasoning)).strip()
        assert reasoning == ("" if agent in SHOW_NO_REASONING else "I look around.")
        begun = [(e.attempt, e.call_id) for e in told if isinstance(e, AgentToolStarted)]
        ended = {(e.attempt, e.call_id): e for e in told if isinstance(e, AgentToolEnded)}
        assert [attempt for attempt, _ in begun] == [1, 2]
        assert list(ended) == begun
        assert {tool.status for tool in ended.values()} == {ToolStatus.SUCCEEDED}
        assert "hello" in ended[begun[0]].output
        edits = [(e.attempt, e.path) for e in told if isinstance(e, AgentFileEdited)]
        assert edits == ([] if agent in TELL_NO_EDITS else [(2, "made.txt")])

        for used in (node(done, "it")["usage"], done["usage"]):
            assert (used["inputTokens"], used["outputTokens"], used["cachedTokens"]) == (4600, 460, 2000), used
            assert used["reasoningTokens"] == (0 if agent in TELL_NO_REASONING_TOKENS else 10)
            assert (used["turns"], used["toolCalls"]) == (4, 2)
            assert used["wallMs"] > 0
            assert {m["model"]: m["totalTokens"] for m in used["models"]} == {endpoint(agent).model: 5060}
        first = sum(e.usage.tokens for e in told if isinstance(e, AgentUsed) and e.attempt == 1)
        assert first == 1100 + 1210  # what the second try was told of the first one's usage is not counted again
        sessions = {e.attempt: e.session_id for e in told if isinstance(e, AgentSessionStarted)}
        assert sorted(sessions) == [1, 2]
        assert sessions[2] == node(done, "it")["sessionId"]
        assert (sessions[1] == sessions[2]) == (agent not in COPY_CONVERSATIONS)

    with ModelServer(TWO_TRIES) as server:
        run(journey(server))
        asked = [one.asked for one in server.questions if one.asked]
    assert [one.turns for one in asked] == [0, 1, 2, 3]
    again = asked[2]
    assert "Write made.txt" in "\n".join(again.prompts[:-1]), "the earlier conversation was sent again"
    assert any("hello" in result for result in again.results)
    assert "No work evidence" in again.prompts[-1]


def test_an_agent_that_cannot_go_on_with_a_conversation_is_told_in_a_new_one_how_the_last_try_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")

    async def journey(server: ModelServer) -> None:
        agents = settings(one_for_all(server), ["gemini-acp"])
        async with engine(tmp_path / "data", agents=agents) as services:
            failed = await run_plan(services, repo, plan(job("it", "gemini-acp", "Write made.txt")))
            plan_id, seq = failed["planId"], (await services.queries.run(failed["planId"])).seq
            await services.plans.retry(plan_id)
            done = await finished(services, plan_id, seq)
        assert done["status"] == "succeeded", node(done, "it")["error"]
        assert repo.show("result", "made.txt") == "made\n"
        assert done["usage"]["totalTokens"] == 1100 * 3

    def model(asked: Asked) -> Turn:
        told = "\n".join(asked.prompts)
        if "# An earlier attempt" in told and "No work evidence" in told and not asked.results:
            return (write_file("made.txt", "made\n"),)
        return (say("That is it."),)

    with ModelServer(model) as server:
        run(journey(server))
        assert [one.asked.turns for one in server.questions if one.asked] == [0, 0, 1]
