"""Real agents, spoken with over the Agent Client Protocol, against a model server on the loopback interface."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.adapters.agents.live import KEY, Place, used
from tests.support.models.parts import hang, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer

from pilothouse.adapters.agents import acp_agents
from pilothouse.adapters.agents.acp import AcpAgent
from pilothouse.adapters.agents.private import ANSWERS, PrivateFiles
from pilothouse.core.run.agents import Asked, FileEdited, Permissions, SessionStarted, Text, ToolEnded, ToolStatus, Used


class Real(NamedTuple):
    driver: AcpAgent
    program: str
    path: str = "/v1"
    """Of the endpoint at the model server."""
    model: str = "fake-1"


AGENTS = {
    "copilot": Real(acp_agents.COPILOT, "copilot"),
    "claude": Real(acp_agents.CLAUDE, "claude-agent-acp", ""),
}


@pytest.fixture(params=AGENTS)
def real(request: pytest.FixtureRequest) -> Real:
    return AGENTS[request.param]


@pytest.fixture
def place(tmp_path: Path, real: Real) -> Place:
    return Place(tmp_path.resolve(), real.driver, real.program)


def answer(place: Place, request: Asked, *, allowed: bool) -> None:
    run = place.private / "runs" / "one"
    PrivateFiles(place.private).answer(run, request.request_id, allowed=allowed, remember=False)


def test_it_writes_a_file_and_tells_everything_once(place: Place, real: Real) -> None:
    turns = (
        (think("It is missing."), say("I write it."), write_file("hello.txt", "one\ntwo\n"), usage(1200, 60)),
        (say("It is written."), usage(1400, 20)),
    )
    with ModelServer(turns) as server, place.run(place.work(server.url + real.path)) as run:
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
    with ModelServer(turns) as server, place.run(place.work(server.url + real.path, permissions=asking)) as run:
        request = run.wait(Asked)
        assert "echo one > hello.txt" in request.input
        assert place.left() == []
        answer(place, request, allowed=allowed)
        run.end()

    assert place.left() == (["?? hello.txt"] if allowed else [])
    assert [one.status for one in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED if allowed else ToolStatus.DENIED]


def test_what_nobody_permits_is_not_done(place: Place, real: Real) -> None:
    turns, denying = (write_file("hello.txt", "x"), say("It is written.")), Permissions.DENY
    with ModelServer(turns) as server, place.run(place.work(server.url + real.path, permissions=denying)) as run:
        run.end()

    assert place.left() == []
    assert run.of(FileEdited) == []


def test_a_conversation_goes_on_and_only_what_is_new_is_told(place: Place, real: Real) -> None:
    with ModelServer(((say("One."), usage(1000, 10)), (say("Two."), usage(2000, 20)))) as server:
        with place.run(place.work(server.url + real.path)) as first:
            assert first.end().ok
        (begun,) = first.of(SessionStarted)
        again = place.work(server.url + real.path, "two", session_id=begun.session_id, prompt="Go on")
        with place.run(again) as second:
            assert second.end().ok
        asked = server.questions[-1].asked

    assert asked is not None
    assert asked.turns == 1
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)
    assert [one.session_id for one in second.of(SessionStarted)] == [begun.session_id]
    assert "One." not in second.said
    assert "Two." in second.said
    told = used(second.of(Used))
    assert (told.total.input_tokens, told.total.output_tokens) == (2000, 20)


def test_a_polite_signal_ends_it(place: Place, real: Real) -> None:
    turns = ((say("Thinking about it"), hang()),)
    with ModelServer(turns) as server, place.run(place.work(server.url + real.path)) as run:
        run.wait(Text, lambda news: "it" in news.text)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end()

    assert ended.error == "it was ended"
    assert not ended.transient
