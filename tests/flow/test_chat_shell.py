"""Commands that a conversation runs in a workspace: ended for certain, whoever goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.flow.test_chat_crash import CHAT, asking, kill, log_of, serve, went_on
from tests.flow.test_serve_http import Server, Stream, is_a
from tests.support.flow import make_repo
from tests.support.living import living
from tests.support.terminal import Desk, desk, until

SCRIPT = """\
rules:
  - when: { contains: work }
    steps:
      - say: "I begin. "
      - call: { tool: run_shell, id: c1, arguments: { command: SLEEP } }
      - say: "It is over: {errors.run_shell}"
"""
SLEEP = '"(setsid sleep 31415 &); echo up > up.txt; sleep 31415"'


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.replace("SLEEP", SLEEP), encoding="utf-8")
    make_repo(tmp_path / "repo")
    with desk(tmp_path, PILOTHOUSE_BACKEND="script", PILOTHOUSE_SCRIPT=str(script)) as made:
        yield made


def sleeping() -> int:
    return sum(1 for one in living() if one.command.strip() == "sleep 31415")


def working(at: Desk, server: Server) -> str:
    """The turn whose command runs by now."""
    repo = at.path / "repo"
    assert at.run("repo", "add", repo).code == 0
    with asking(at, server) as client:
        allowed = client.post("/api/copilot/auto-allowed-tools", json={"toolId": "run_shell"})
        assert allowed.status_code == 200, allowed.text
    with asking(at, server) as client:
        asked = {"message": "work", "workspace": str(repo)}
        with client.stream("POST", CHAT, json=asked) as response:
            stream = Stream(response)
            stream.until(is_a("tool_call"))
    until(lambda: (repo / "up.txt").exists() and sleeping() == 2)
    turn_id: str = stream.events[0]["streamId"]
    return turn_id


def test_a_stopped_turn_leaves_no_command_behind(at: Desk) -> None:
    server = serve(at)
    turn_id = working(at, server)
    with asking(at, server) as client:
        assert client.post(f"{CHAT}/abort", json={"streamId": turn_id}).status_code == 200
    until(lambda: sleeping() == 0)


def test_a_command_whose_server_was_killed_is_ended_by_the_next_and_not_run_again(at: Desk) -> None:
    server = serve(at)
    turn_id = working(at, server)
    kill(at, server)
    assert sleeping() == 2
    server = serve(at)
    until(lambda: sleeping() == 0)
    (end,) = [event for event in went_on(at, server, turn_id, 0) if event["type"] in ("done", "error")]
    assert end["type"] in ("done", "error")
    assert log_of(at, server, turn_id).count("TOOL_STARTED") == 1
