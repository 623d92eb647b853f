"""The scripted agent answers a conversation and uses the server's tools, as a model would but always alike."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from tests.flow.test_chat_agent_tools import Talk, content, told
from tests.flow.test_serve_http import is_a
from tests.support.flow import Repo, make_repo
from tests.support.terminal import desk

SCRIPT = """
- say: I draft it.
- call:
    tool: create_workflow
    arguments:
      name: greetings
      blocks: [ { id: hello, type: shell, task: Greet, config: { command: echo hello > hello.txt } } ]
- call: { tool: run_workflow, mayFail: true }
- say: "I heard: {result}"
- call: { tool: get_plan_status, arguments: { planId: "{result.runId}" } }
- say: "Its name is {result.name}."
"""


@pytest.mark.parametrize("allowed", [True, False])
def test_it_calls_tools_and_goes_on_as_somebody_decides(tmp_path: Path, allowed: bool) -> None:
    repo = make_repo(tmp_path / "repo", {"replies.yaml": SCRIPT})
    environ = {"PILOTHOUSE_BACKEND": "agent", "PILOTHOUSE_AGENT": "scripted", "PILOTHOUSE_AGENT_PERMISSIONS": "allow"}
    with desk(tmp_path, **environ, PATH=os.environ["PATH"]) as at:
        at.run_here("repo", "add", repo.path)
        with closing(Talk(at, repo.path)) as chat:
            with chat.turn("Draft greetings and run it") as stream:
                question = stream.until(is_a("approval_required"))
                assert (question["toolName"], chat.plans()) == ("run_workflow", [])
                chat.answer(question, "accepted" if allowed else "rejected", "" if allowed else "not today")
            plans = chat.plans()

    if allowed:
        assert [tool for tool, _ in told(stream, "tool_result")] == [
            "create_workflow",
            "run_workflow",
            "get_plan_status",
        ]
        assert content(stream).endswith("Its name is greetings.")
        assert [plan["name"] for plan in plans] == ["greetings"]
        assert "replies.yaml" in Repo(repo.path).files("HEAD")
    else:
        assert told(stream, "tool_error") == [("run_workflow", "rejected")]
        assert "not today" in content(stream)
        assert plans == []
