"""Real agents that answer the conversations of a real server use its tools: each call is the turn's, allowed by whoever
the turn asks, and what opens the way to the tools is found nowhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.flow.test_serve_http import Server, Stream, is_a
from tests.support.flow import Repo, make_repo
from tests.support.models.asked import Asked
from tests.support.models.parts import Part, Turn, hold, run_shell, say, use_tool
from tests.support.models.script import ASIDE
from tests.support.models.server import ModelServer
from tests.support.models.tools import served_by
from tests.support.real_agents import find_agents, for_owners, one_for_all, settings
from tests.support.terminal import Desk, desk, until

pytestmark = pytest.mark.timeout(300)

AGENTS = ("claude", "copilot", "codex")
TOKEN = re.compile(rb"pa_[0-9A-Za-z-]+_[0-9]+_[0-9a-f]{16,}")
"""What an agent shows when it calls a tool."""
BLOCKS = [{"id": "hello", "type": "shell", "task": "Greet", "config": {"command": "echo hello > hello.txt"}}]


class Talk:
    """A conversation with an agent."""

    def __init__(self, at: Desk, server: Server, client: httpx.Client, workspace: Path) -> None:
        self.at = at
        self._server = server
        self._client = client
        self._workspace = workspace
        self._chat = ""
        self.shown: list[dict[str, Any]] = []
        """Every event of every turn."""

    @contextmanager
    def turn(self, message: str, **more: str) -> Iterator[Stream]:
        where = {"chatId": self._chat} if self._chat else {"workspace": str(self._workspace)}
        body = {"message": message, **where, **more}
        with self._client.stream("POST", "/api/copilot/chat", json=body) as response:
            stream = Stream(response)
            self._chat = stream.until(is_a("chat_id"))["chatId"]
            yield stream
            stream.until(lambda event: event["type"] in ("done", "error"))
        self.shown += stream.events

    def answer(self, question: dict[str, Any], status: str, message: str = "") -> None:
        body = {"toolCallId": question["toolCallId"], "status": status, "message": message}
        answered = self._client.post("/api/copilot/confirm", json=body)
        assert answered.status_code == 200, answered.text

    def plans(self) -> list[dict[str, Any]]:
        plans: list[dict[str, Any]] = self._client.get("/api/plans").json()["plans"]
        return plans

    def files_with_a_token(self) -> set[str]:
        """Names of the files that hold one. Of the private files of agents, only those that we write: an agent may
        remember what it dug up."""
        private = self.at.data_dir / "agents"
        files = [path for path in self.at.path.rglob("*") if path.is_file() and not path.is_relative_to(private)]
        files += private.glob("*/agent/runs/**/*.*")
        return {path.name for path in files if TOKEN.search(path.read_bytes())}


@contextmanager
def talk(path: Path, agent: str, model: Callable[[Asked], Turn]) -> Iterator[tuple[Talk, ModelServer]]:
    repo = make_repo(path / "repo", {"README.md": "hello\n"})
    with ModelServer(model) as models:
        agents = settings(one_for_all(models), {agent})
        given = {"BACKEND": "agent", "AGENT": agent, "AGENT_PERMISSIONS": "allow"}
        environ = {f"PILOTHOUSE_{name}": value for name, value in given.items()}
        with desk(path, **environ, **for_owners(agents), PATH=os.environ["PATH"]) as at:
            at.run_here("repo", "add", repo.path)
            server = Server(at.start("serve", "--port", "0", "--no-open"))
            with server.browser() as client:
                client.headers["origin"] = server.url
                yield Talk(at, server, client, repo.path), models


def told(stream: Stream, kind: str) -> list[tuple[str, Any]]:
    """(tool, status) of the events of a kind, in their order."""
    return [(event["toolName"], event["data"].get("status")) for event in stream.events if event["type"] == kind]


def content(stream: Stream) -> str:
    return "".join(event["data"] for event in stream.events if event["type"] == "content").strip()


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_drafts_and_runs_a_workflow_is_refused_another_run_and_only_looks_where_it_may_do_nothing(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)

    def model(asked: Asked) -> Turn:
        if not asked.tools:
            return ASIDE
        last = asked.results[-1] if asked.results else ""
        turns: tuple[Callable[[], Part | Turn], ...] = (
            lambda: (say("I draft it. "), use_tool("create_workflow", {"name": "greetings", "blocks": BLOCKS})),
            lambda: use_tool("run_workflow"),
            lambda: (hold("the plan has ended"), use_tool("get_plan_status", {"planId": _of(last, "runId")})),
            lambda: run_shell("sh dig.sh"),
            lambda: say(f"It has {_of(asked.results[-2], 'status')}."),
            lambda: use_tool("run_workflow"),
            lambda: say("You want none."),
            lambda: use_tool("list_plans"),
            lambda: run_shell("touch touched"),
            lambda: say(f"There is {_of(asked.results[-2], 'name')}."),
        )
        turn = turns[asked.turns]()
        return turn if isinstance(turn, tuple) else (turn,)

    with talk(tmp_path, agent, model) as (chat, models):
        repo = tmp_path / "repo"
        (repo / "dig.sh").write_text(f"cat {chat.at.data_dir}/agents/*/agent/runs/*/tools.*\n")

        with chat.turn("Draft greetings and run it") as stream:
            question = stream.until(is_a("approval_required"))
            assert chat.plans() == []
            chat.answer(question, "accepted")
            until(lambda: [plan for plan in chat.plans() if plan["status"] == "succeeded"])
            assert chat.files_with_a_token() == {"tools.env"}
            models.let_go("the plan has ended")
        ours = [("create_workflow", "success"), ("run_workflow", "success"), ("get_plan_status", "success")]
        calls, results = told(stream, "tool_call"), told(stream, "tool_result")
        assert [call for call, _ in calls] == [call for call, _ in results]
        assert results[:3] == ours
        assert len(results) == 4, "and what it did itself"
        kinds = [event["type"] for event in stream.events]
        assert kinds.index("content") < kinds.index("tool_call"), "what it said before comes before"
        assert content(stream) == "I draft it. It has succeeded."
        (plan,) = chat.plans()
        assert "hello.txt" in Repo(repo).files(plan["targetBranch"])

        with chat.turn("Once more") as stream:
            chat.answer(stream.until(is_a("approval_required")), "rejected", "not today")
        assert told(stream, "tool_error") == [("run_workflow", "rejected")]
        assert content(stream) == "You want none."
        heard = models.questions[-1].asked
        assert heard is not None
        assert "not today" in heard.results[-1]
        assert len(chat.plans()) == 1

        with chat.turn("What is there?", command="research") as stream:
            pass
        assert told(stream, "tool_result")[0] == ("list_plans", "success")
        assert content(stream) == "There is greetings."
        assert not (repo / "touched").exists()
        heard = models.questions[-1].asked
        assert heard is not None
        offered = set(served_by("pilothouse", heard))
        assert "list_plans" in offered
        assert not {"run_workflow", "create_workflow", "http_request"} & offered

        dug_up = "\n".join(heard.results)
        assert TOKEN.search(dug_up.encode())
        assert "[redacted]" in json.dumps(chat.shown)
        assert not TOKEN.search(json.dumps(chat.shown).encode())
        assert chat.files_with_a_token() == {"tools.env"}


def _of(result: str, name: str) -> str:
    """A text of that name in what a tool answered, however the agent hands it on."""
    found = re.search(rf'"{name}":\s*"([^"]+)"', result)
    assert found is not None, result
    return found[1]
