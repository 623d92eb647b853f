"""Real agents that answer the conversations of a real server use its tools: each call is the turn's, allowed by whoever
the turn asks, and what opens the way to the tools is found nowhere."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.flow.test_serve_http import Server, Stream, is_a, streaming
from tests.support.flow import Repo, make_repo
from tests.support.living import kept, living
from tests.support.models.asked import Asked
from tests.support.models.parts import Part, Turn, hold, run_shell, say, slow, use_tool
from tests.support.models.script import ASIDE
from tests.support.models.server import ModelServer
from tests.support.models.tools import SHELLS, served_by
from tests.support.real_agents import find_agents, for_owners, one_for_all, settings
from tests.support.terminal import Desk, desk, until

pytestmark = pytest.mark.timeout(300)

CHAT = "/api/copilot/chat"
AGENTS = ("claude", "copilot", "codex", "opencode", "gemini")
PRINTS_LATE = frozenset({"opencode"})
"""What it says is printed when the answer of its model has ended; it calls before that."""
TOKEN = re.compile(rb"pa_[0-9A-Za-z-]+_[0-9]+_[0-9a-f]{16,}")
"""What an agent shows when it calls a tool."""
DRAFT = {
    "name": "greetings",
    "blocks": [{"id": "hello", "type": "shell", "task": "Greet", "config": {"command": "echo hello > hello.txt"}}],
}


class Talk:
    """A conversation with an agent, by somebody with a key, which outlives servers."""

    def __init__(self, at: Desk, workspace: Path) -> None:
        self.at = at
        self._workspace = workspace
        self._key = ""
        self._chat = ""
        self._serve()
        self.shown: list[dict[str, Any]] = []
        """Every event of every turn."""

    def _serve(self) -> None:
        self._server = Server(self.at.start("serve", "--port", "0", "--no-open"))
        self._key = self._key or self.at.ask("keys", "create", "--name", "test", "--scope", "approve")["key"]
        self.client = self._server.stranger()
        self.client.headers["x-api-key"] = self._key

    def kill_the_server(self) -> None:
        """There is another one when this returns."""
        self._server.command.signal(signal.SIGKILL)
        self._server.command.wait()
        self.client.close()
        self._serve()

    @contextmanager
    def turn(self, message: str, **more: str) -> Iterator[Stream]:
        """Its events, up to the last."""
        with self.begun(message, **more) as stream:
            yield stream
            stream.until(ends)
        self.shown += stream.events

    @contextmanager
    def begun(self, message: str, **more: str) -> Iterator[Stream]:
        where = {"chatId": self._chat} if self._chat else {"workspace": str(self._workspace)}
        with self.client.stream("POST", CHAT, json={"message": message, **where, **more}) as response:
            stream = Stream(response)
            self._chat = stream.until(is_a("chat_id"))["chatId"]
            yield stream

    def answer(self, question: dict[str, Any], status: str, message: str = "") -> None:
        body = {"toolCallId": question["toolCallId"], "status": status, "message": message}
        answered = self.client.post("/api/copilot/confirm", json=body)
        assert answered.status_code == 200, answered.text

    def allow(self, question: dict[str, Any]) -> None:
        """Also what is no call of a tool of ours."""
        place = f"/api/approvals/{question['data']['approvalId']}"
        answered = self.client.post(place, json={"answer": "approve"})
        assert answered.status_code == 200, answered.text

    def close(self) -> None:
        self.client.close()

    def plans(self) -> list[dict[str, Any]]:
        plans: list[dict[str, Any]] = self.client.get("/api/plans").json()["plans"]
        return plans

    def files_with_a_token(self) -> set[str]:
        """Names of the files that hold one. Of the private files of agents, only those that we write: an agent may
        remember what it dug up."""
        private = self.at.data_dir / "agents"
        files = [path for path in self.at.path.rglob("*") if path.is_file() and not path.is_relative_to(private)]
        files += private.glob("*/agent/runs/**/*.*")
        remembered = {"conversation.jsonl"}  # by one that is handed its conversation anew
        return {path.name for path in files if TOKEN.search(path.read_bytes())} - remembered


@contextmanager
def talk(
    path: Path, agent: str, model: Callable[[Asked], Turn], permissions: str = "allow"
) -> Iterator[tuple[Talk, ModelServer]]:
    repo = make_repo(path / "repo", {"README.md": "hello\n"})
    with ModelServer(model) as models:
        agents = settings(one_for_all(models), {agent, f"{agent}-acp"})
        given = {"BACKEND": "agent", "AGENT": agent, "AGENT_PERMISSIONS": permissions}
        environ = {f"PILOTHOUSE_{name}": value for name, value in given.items()}
        with desk(path, **environ, **for_owners(agents), PATH=os.environ["PATH"]) as at:
            at.run_here("repo", "add", repo.path)
            chat = Talk(at, repo.path)
            with closing(chat):
                yield chat, models


def ends(event: dict[str, Any]) -> bool:
    return event["type"] in ("done", "error")


def told(stream: Stream, kind: str) -> list[tuple[str, Any]]:
    """(tool, status) of the events of a kind, in their order."""
    return [(event["toolName"], event["data"].get("status")) for event in stream.events if event["type"] == kind]


def offers_a_shell(asked: Asked) -> bool:
    """Some agents take from the model what it may not use."""
    return any(tool.name.lower() in SHELLS for tool in asked.tools)


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
            # No faster than a model: what is on its way within an agent while it calls already comes after the call.
            lambda: (slow(0.03), say("I draft it. "), use_tool("create_workflow", DRAFT)),
            lambda: use_tool("run_workflow"),
            lambda: (hold("the plan has ended"), use_tool("get_plan_status", {"planId": _of(last, "runId")})),
            lambda: run_shell("sh dig.sh"),
            lambda: say(f"It has {_of(asked.results[-2], 'status')}."),
            lambda: use_tool("run_workflow"),
            lambda: say("You want none."),
            lambda: use_tool("list_plans"),
            lambda: run_shell("touch touched") if offers_a_shell(asked) else use_tool("list_plans"),
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
        if agent not in PRINTS_LATE:
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


def runs_a_workflow(asked: Asked) -> Turn:
    if not asked.tools:
        return ASIDE
    turns = (
        use_tool("create_workflow", DRAFT),
        use_tool("run_workflow"),
        say("Done."),
    )
    return (turns[asked.turns],)


def test_a_call_that_waits_for_a_person_outlives_its_server_and_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    with talk(tmp_path, "claude", runs_a_workflow) as (chat, _):
        with chat.begun("Run it") as stream:
            question = stream.until(is_a("approval_required"))
        chat.kill_the_server()
        chat.answer(question, "accepted")
        since = f"{CHAT}/stream?streamId={question['streamId']}&after={question['eventId']}"
        with streaming(chat.client, since) as stream:
            assert stream.until(ends)["type"] == "done"
        assert told(stream, "tool_call") == []
        assert told(stream, "tool_result") == [("run_workflow", "success")]
        assert content(stream) == "Done."
        assert len(chat.plans()) == 1


@pytest.mark.parametrize("agent", ["copilot", "codex"])
def test_nothing_is_left_of_an_agent_that_is_stopped_while_it_waits_for_a_call(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    with talk(tmp_path, agent, runs_a_workflow) as (chat, _):
        with chat.turn("Run it") as stream:
            question = stream.until(is_a("approval_required"))
            at_work = kept(chat.at.data_dir, living())
            assert any("mcp.bridge" in process.command for process in at_work)
            stopped = chat.client.post(f"{CHAT}/abort", json={"streamId": question["streamId"]})
            assert stopped.json()["settled"], stopped.text
            assert not {one.key for one in living()} & {one.key for one in at_work}
        assert chat.plans() == []


@pytest.mark.parametrize("agent", ["claude", "copilot"])
def test_an_agent_asks_for_its_own_tools_and_the_turn_for_ours_and_nobody_twice(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)

    def model(asked: Asked) -> Turn:
        turns: tuple[Turn, ...] = (
            (use_tool("create_workflow", DRAFT),),
            (use_tool("run_workflow"),),
            (run_shell("touch touched"),),
            (use_tool("list_plans"),),
            (say("That was all."),),
        )
        return turns[asked.turns] if asked.tools else ASIDE

    with talk(tmp_path, agent, model, permissions="ask") as (chat, _):
        with chat.turn("Do it") as stream:
            ours = stream.until(is_a("approval_required"))
            chat.allow(ours)
            its_own = stream.until(lambda event: is_a("approval_required")(event) and event is not ours)
            assert not (tmp_path / "repo" / "touched").exists()
            chat.allow(its_own)
        assert len(chat.plans()) == 1

    assert ours["toolName"] == "run_workflow"
    assert "touch touched" in json.dumps(its_own)
    assert len([event for event in stream.events if event["type"] == "approval_required"]) == 2
    assert (tmp_path / "repo" / "touched").exists()
    called = [tool for tool, status in told(stream, "tool_result") if status == "success"]
    assert (called[:2], len(called), called[-1]) == (["create_workflow", "run_workflow"], 4, "list_plans")
    assert content(stream) == "That was all."


def _of(result: str, name: str) -> str:
    """A text of that name in what a tool answered, however the agent hands it on."""
    found = re.search(rf'"{name}":\s*"([^"]+)"', result)
    assert found is not None, result
    return found[1]
