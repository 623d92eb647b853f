"""Conversations that real agents answer: they edit a workspace, remember what was said, ask, and end when told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import flow
from tests.support.flow import closes_leg, engine, eventually, make_repo, run, until
from tests.support.living import kept, living
from tests.support.models.parts import hang, hold, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer
from tests.support.real_agents import find_agents, one_for_all, settings

from pilothouse.core.auth.principals import THE_LOCAL_USER
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.run.events import NeedsApproval
from pilothouse.engine.chats.chats import Send
from pilothouse.engine.services import Services

pytestmark = pytest.mark.timeout(300)


def machine(server: ModelServer, agent: str, permissions: str) -> dict[str, Any]:
    return {
        "backend": "agent",
        "agent": agent,
        "agent_permissions": permissions,
        "agents": settings(one_for_all(server), {agent, f"{agent.removesuffix('-acp')}-acp"}),
    }


async def turn(services: Services, message: str, **more: Any) -> TurnResult:
    sent = await services.chats.send(Send(message=message, **more), THE_LOCAL_USER)
    return await services.chats.wait(sent.turn_id, THE_LOCAL_USER, flow.PATIENCE_S)


@pytest.mark.parametrize("agent", ["claude", "opencode", "copilot", "codex", "gemini"])
def test_an_agent_edits_the_workspace_and_remembers_the_conversation(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")
    says = (
        (write_file("made.txt", "hello\n"), usage(input=900, output=40)),
        (say("I made it."), usage(input=1000, output=50)),
        (say("I made made.txt."), usage()),
    )

    async def journey(server: ModelServer) -> None:
        async with engine(tmp_path / "data", **machine(server, agent, "allow")) as services:
            await services.repos.add(str(repo.path), THE_LOCAL_USER.name)
            first = await turn(services, "Make made.txt", workspace=str(repo.path))
            assert (first.success, first.content.strip()) == (True, "I made it."), first
            assert (repo.path / "made.txt").read_text() == "hello\n"
            assert first.tool_calls
            assert {call.status for call in first.tool_calls} == {"success"}
            assert first.usage is not None
            second = await turn(services, "What did you make?", chat_id=first.chat_id)
            assert (second.success, second.content.strip()) == (True, "I made made.txt."), second
        asked = server.questions[-1].asked
        assert asked is not None
        assert "Make made.txt" in asked.text
        assert "What was said before" not in asked.text  # nobody had to tell it
        assert "What did you make?" in asked.text

    with ModelServer(says) as server:
        run(journey(server))


@pytest.mark.parametrize("agent", ["claude", "copilot"])
def test_an_agent_that_outlives_its_server_is_heard_to_its_end(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)

    async def journey(server: ModelServer) -> None:
        around = machine(server, agent, "allow")
        async with engine(tmp_path / "data", **around, orphan_grace=60.0) as services:
            sent = await services.chats.send(Send(message="Count"), THE_LOCAL_USER)

            async def holding() -> int:
                return server.holding

            await eventually(holding, lambda count: count > 0)
        server.let_go("later")
        async with engine(tmp_path / "data", **around) as services:
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, flow.PATIENCE_S)
        assert (result.success, result.content.strip()) == (True, "One two three.")

    with ModelServer([(say("One two "), hold("later"), say("three."))]) as server:
        run(journey(server))


@pytest.mark.parametrize("agent", ["claude", "opencode", "copilot"])
def test_nothing_of_an_agent_is_left_when_its_turn_is_stopped(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)

    async def journey(server: ModelServer) -> None:
        async with engine(tmp_path / "data", **machine(server, agent, "allow")) as services:
            sent = await services.chats.send(Send(message="Go on for ever"), THE_LOCAL_USER)

            async def holding() -> int:
                return server.holding

            await eventually(holding, lambda count: count > 0)
            trees = {one.key for one in kept(tmp_path / "data", living())}
            assert trees
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            await until(services, sent.turn_id, closes_leg)
            assert [one for one in living() if one.key in trees] == []
            result = await services.chats.result(sent.turn_id, THE_LOCAL_USER)
            assert not result.success

    with ModelServer([(say("In the middle "), hang())]) as server:
        run(journey(server))


@pytest.mark.parametrize("agent", ["claude", "copilot"])
@pytest.mark.parametrize("answer", ["approve", "refuse"])
def test_what_an_agent_may_do_is_asked_of_a_person(
    agent: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")

    async def journey(server: ModelServer) -> None:
        async with engine(tmp_path / "data", **machine(server, agent, "ask")) as services:
            await services.repos.add(str(repo.path), THE_LOCAL_USER.name)
            asked = Send(message="Touch it", workspace=str(repo.path))
            sent = await services.chats.send(asked, THE_LOCAL_USER)
            seen = await until(services, sent.turn_id, lambda one: isinstance(one.event, NeedsApproval))
            question = seen[-1].event
            assert isinstance(question, NeedsApproval)
            assert not (repo.path / "touched").exists()
            await services.runs.answer(question.wait.id, answer, by="me")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, flow.PATIENCE_S)
            assert (repo.path / "touched").exists() == (answer == "approve")
            assert result.content

    with ModelServer([(think("hm"), run_shell("touch touched")), say("That was it.")]) as server:
        run(journey(server))
