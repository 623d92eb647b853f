"""Real agents, spoken with over the Agent Client Protocol, against a model server on the loopback interface."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.adapters.agents.live import KEY, Place, used
from tests.support import agent_run, stdio_tools
from tests.support.living import living
from tests.support.models.parts import hang, run_shell, say, think, usage, use_tool, write_file
from tests.support.models.server import ModelServer

from pilothouse.adapters.agents.acp import agents as acp_agents
from pilothouse.adapters.agents.acp.driver import AcpAgent
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.private import ANSWERS, PrivateFiles
from pilothouse.core.run.agents import (
    AgentConfig,
    Asked,
    FileEdited,
    Permissions,
    SessionStarted,
    Text,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)


class Real(NamedTuple):
    driver: AcpAgent
    program: str
    path: str = "/v1"
    """Of the endpoint at the model server."""
    model: str = "fake-1"
    shows: bool = True
    """Whether it offers its model tools that nobody permits."""


pytestmark = pytest.mark.timeout(300)

AGENTS = {
    "copilot": Real(acp_agents.COPILOT, "copilot"),
    "codex": Real(acp_agents.CODEX, "codex-acp"),
    "opencode": Real(acp_agents.OPENCODE, "opencode", shows=False),
    "gemini": Real(acp_agents.GEMINI, "gemini", "", "gemini-2.5-flash"),
    "claude": Real(acp_agents.CLAUDE, "claude-agent-acp", ""),
}


@pytest.fixture(params=AGENTS)
def real(request: pytest.FixtureRequest) -> Real:
    return AGENTS[request.param]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_run, "PATIENCE_S", 100.0)


@pytest.fixture
def place(tmp_path: Path, real: Real) -> Place:
    return Place(tmp_path.resolve(), real.driver, real.program)


def work(place: Place, server: ModelServer, real: Real, run: str = "one", **changes: Any) -> AgentWork:
    config = AgentConfig(base_url=server.url + real.path, api_key_env="OWN_KEY", model=real.model)
    return place.work("", run, config=config, **changes)


def answer(place: Place, request: Asked, *, allowed: bool) -> None:
    run = place.private / "runs" / "one"
    PrivateFiles(place.private).answer(run, request.request_id, allowed=allowed, remember=False)


def test_it_writes_a_file_and_tells_everything_once(place: Place, real: Real) -> None:
    turns = (
        (think("It is missing."), say("I write it."), write_file("hello.txt", "one\ntwo\n"), usage(1200, 60)),
        (say("It is written."), usage(1400, 20)),
    )
    with ModelServer(turns) as server, place.run(work(place, server, real)) as run:
        ended = run.end()
        asked = server.questions

    assert ended.ok, ended.error
    assert (place.worktree / "hello.txt").read_text() == "one\ntwo\n"
    assert place.left() == ["?? hello.txt"]
    assert "I write it." in run.said
    assert "It is written." in run.said
    assert run.said.count("It is written.") == 1
    assert len(run.of(SessionStarted)) == 1
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED]
    told = used(run.of(Used))
    assert (told.total.input_tokens, told.total.output_tokens) == (2600, 80)
    assert (told.total.turns, told.total.tool_calls) == (2, 1)
    assert asked[0].model == real.model
    assert not any(KEY in argument for argument in real.driver.launch(run.work).argv)
    assert KEY not in real.driver.launch(run.work).stdin


@pytest.mark.parametrize("allowed", [True, False])
def test_a_person_decides_whether_it_may(place: Place, real: Real, allowed: bool) -> None:
    turns = (run_shell("echo one > hello.txt"), say("That was it."))
    (place.private / "runs" / "one" / ANSWERS).mkdir(parents=True)
    asking = Permissions.ASK
    with ModelServer(turns) as server, place.run(work(place, server, real, permissions=asking)) as run:
        request = run.wait(Asked)
        assert "echo one > hello.txt" in request.title + request.input
        assert place.left() == []
        answer(place, request, allowed=allowed)
        run.end()

    assert place.left() == (["?? hello.txt"] if allowed else [])
    assert [one.status for one in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED if allowed else ToolStatus.DENIED]


def test_what_nobody_permits_is_not_done(place: Place, real: Real) -> None:
    denying = Permissions.DENY
    turns = (write_file("hello.txt", "x"), say("It is written.")) if real.shows else (say("I have no tool for it."),)
    with ModelServer(turns) as server, place.run(work(place, server, real, permissions=denying)) as run:
        run.end()

    assert place.left() == []
    assert run.of(FileEdited) == []


def test_a_conversation_goes_on_in_another_worktree_and_only_what_is_new_is_told(place: Place, real: Real) -> None:
    if not real.driver.facts.resumes:
        return
    turns = (
        (say("One."), usage(1000, 10)),
        (run_shell("echo two > two.txt"), usage(1900, 15)),
        (say("Two."), usage(2000, 20)),
    )
    with ModelServer(turns) as server:
        with place.run(work(place, server, real)) as first:
            assert first.end().ok
        (begun,) = first.of(SessionStarted)
        place.worktree = place.new_worktree()
        again = work(place, server, real, "two", session_id=begun.session_id, prompt="Go on")
        with place.run(again) as second:
            assert second.end().ok
        asked = server.questions[-1].asked

    assert asked is not None
    assert asked.turns == 2
    assert place.left() == ["?? two.txt"]
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)
    assert [one.session_id for one in second.of(SessionStarted)] == [begun.session_id]
    assert "One." not in second.said
    assert "Two." in second.said
    told = used(second.of(Used))
    assert (told.total.input_tokens, told.total.output_tokens) == (3900, 35)


def test_a_polite_signal_ends_it(place: Place, real: Real) -> None:
    turns = ((say("Thinking about it"), hang()),)
    with ModelServer(turns) as server, place.run(work(place, server, real)) as run:
        run.wait(Text, lambda news: "it" in news.text)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end()

    assert ended.error == "it was ended"
    assert not ended.transient


@pytest.mark.parametrize("permissions", [Permissions.ASK, Permissions.DENY])
def test_tools_of_the_server_it_was_given_are_used_unasked_and_left_to_whoever_serves_them(
    place: Place, real: Real, permissions: Permissions
) -> None:
    asked_of = place.root / "asked"
    secret = "secret-of-its-server"
    given = ToolServer(
        name="pilothouse",
        command=(sys.executable, stdio_tools.__file__, str(asked_of)),
        env={stdio_tools.SECRET: secret},
    )
    (place.private / "runs" / "one" / ANSWERS).mkdir(parents=True)
    turns = (use_tool("refuse", {"text": "one"}), use_tool("echo", {"text": "two"}), say("That was it."))
    with ModelServer(turns) as server:
        with place.run(work(place, server, real, tools=given, permissions=permissions)) as run:
            server.wait_for(lambda _: len(server.questions) > 1)
            processes = living()
            ended = run.end()
        heard = server.questions[-1].asked

    assert ended.ok, ended.error
    assert heard is not None
    assert ["refused: one" in heard.results[0], secret in heard.results[1]] == [True, True]
    assert (run.of(Asked), run.of(ToolStarted), run.of(ToolEnded)) == ([], [], [])
    assert used(run.of(Used)).total.tool_calls == 2
    assert not any(secret in process.command for process in processes)
    called = [one for one in map(json.loads, asked_of.read_text().splitlines()) if one["method"] == "tools/call"]
    assert [(one["params"]["name"], one["secret"]) for one in called] == [("refuse", secret), ("echo", secret)]
