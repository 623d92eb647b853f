"""A conversation that does real work, over every wire: a workflow is drafted by tools, allowed by a person, run as a
plan in worktrees, and merged."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.copilot_backend import CopilotBackend, Step
from tests.support.flow import PATIENCE_S, Repo, make_repo
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, call, say
from tests.support.models.server import ModelServer
from tests.support.needs import need
from tests.support.terminal import Desk, desk, until

from pilothouse.adapters.backends.memory import Reports
from pilothouse.client.sse import Decoder
from pilothouse.core.chat.backend import Completed, Paused, Said, ToolCalled

pytestmark = pytest.mark.timeout(180)

WORKFLOW = {
    "name": "greeting",
    "blocks": [{"id": "hello", "type": "shell", "task": "Say hello", "config": {"command": "echo hello > hello.txt"}}],
    "options": {"targetBranch": "greeting"},
}
EDIT = {
    "operations": [
        {
            "op": "add_block",
            "block": {
                "id": "both",
                "type": "shell",
                "task": "Say it twice",
                "config": {"command": "cat hello.txt hello.txt > both.txt"},
            },
            "after": ["hello"],
        }
    ]
}
REQUEST = "Make a workflow that says hello twice, and run it."


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path) as made:
        yield made


def model(asked: Asked) -> Turn:
    """A model that does what it is asked: one tool after the other, and then looks until the run is over."""
    if not asked.tools:
        return (say("A greeting"),)
    steps = (
        (say("I draft it. "), call("create_workflow", WORKFLOW)),
        (call("edit_workflow", EDIT),),
        (say("Now I run it. "), call("run_workflow")),
    )
    if len(asked.results) < len(steps):
        return steps[len(asked.results)]
    last = asked.results[-1]
    if "runId" not in last:
        return (say(f"It was not run: {last}"),)
    told = json.loads(last)
    if told["status"] in ("succeeded", "failed"):
        return (say(f"The run has {told['status']}."),)
    return (call("get_workflow_run", {"runId": told["runId"]}),)


@contextmanager
def a_model(wire: str) -> Iterator[Mapping[str, str]]:
    """The settings for a language model on the loopback."""
    with ModelServer(model) as server:
        yield {
            "PILOTHOUSE_BACKEND": "llm",
            "PILOTHOUSE_LLM_PROVIDER": wire,
            "PILOTHOUSE_LLM_BASE_URL": server.url if wire == "anthropic" else f"{server.url}/v1",
            "PILOTHOUSE_LLM_API_KEY": "loopback-key",
            "PILOTHOUSE_LLM_MODEL": "loopback",
        }


def _copilot_script(wire: str) -> tuple[list[Step], ...]:
    """The same on a backend's own wire: one stream that waits for reports, or one stream for each result."""
    create = ToolCalled(id="c1", name="create_workflow", arguments=WORKFLOW)
    edit = ToolCalled(id="c2", name="edit_workflow", arguments=EDIT)
    go = ToolCalled(id="c3", name="run_workflow", arguments={})
    done: list[Step] = [Said("The run is under way."), Completed()]
    if wire == "v0":
        start: list[Step] = [Said("I draft it. "), create, Reports(("c1",)), edit, Reports(("c2",))]
        return ([*start, Said("Now I run it. "), go, Reports(("c3",)), *done],)
    return (
        [Said("I draft it. "), create, Paused(checkpoint_id="k1", pending=("c1",))],
        [edit, Paused(checkpoint_id="k2", pending=("c2",))],
        [Said("Now I run it. "), go, Paused(checkpoint_id="k3", pending=("c3",))],
        done,
    )


@contextmanager
def a_copilot(wire: str) -> Iterator[Mapping[str, str]]:
    """The settings for a copilot backend on the loopback, which lives on a thread of its own."""
    backend = CopilotBackend(wire)
    backend.plays(*_copilot_script(wire))
    ready, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with backend.serving():
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield {
            "PILOTHOUSE_BACKEND": "remote",
            "PILOTHOUSE_BACKEND_URL": backend.url,
            "PILOTHOUSE_BACKEND_API_KEY": "loopback-key",
        }
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)
        loop.close()


BACKENDS = {
    "openai": lambda: a_model("openai"),
    "anthropic": lambda: a_model("anthropic"),
    "remote": lambda: a_copilot("v0"),
    "remote-strict": lambda: a_copilot("v1"),
}


@contextmanager
def served(at: Desk, repo: Repo, settings: Mapping[str, str], scope: str = "approve") -> Iterator[httpx.Client]:
    """A program with a key, at a running server."""
    at.env.update(settings)
    at.ask("repo", "add", repo.path)
    key = at.ask("keys", "create", "--name", "program", "--user", "local", "--scope", scope)["key"]
    server = at.start("serve", "--port", "0", "--no-open")
    server.says("/login?token=")
    url = server.out.strip().partition("/login")[0]
    with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=PATIENCE_S) as client:
        yield client


def _plan_of(client: httpx.Client, chat_id: str) -> dict[str, Any]:
    """The plan that was run for a conversation, once it has ended."""

    def ended() -> dict[str, Any] | None:
        runs = client.get("/api/runs", params={"kind": "plan"}).json()["runs"]
        mine = [one for one in runs if one["sessionId"] == chat_id]
        assert len(mine) <= 1
        return mine[0] if mine and mine[0]["endedAt"] else None

    found = until(ended)
    assert found is not None
    return found


def _is_merged(client: httpx.Client, repo: Repo, chat_id: str) -> None:
    assert _plan_of(client, chat_id)["lifecycle"] == "SUCCEEDED"
    assert repo.show("greeting", "both.txt") == "hello\nhello\n"
    assert "both.txt" not in repo.files("main")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_workflow_is_drafted_allowed_by_a_person_and_run_as_a_plan(backend: str, at: Desk, repo: Repo) -> None:
    with BACKENDS[backend]() as settings, served(at, repo, settings) as client:
        asked: list[dict[str, Any]] = []
        events: list[dict[str, Any]] = []
        body = {"message": REQUEST, "workspace": str(repo.path)}
        with client.stream("POST", "/api/copilot/chat", json=body) as response:
            assert response.status_code == 200, response.read()
            decoder = Decoder()
            for chunk in response.iter_raw():
                for message in decoder.feed(chunk):
                    events.append(event := json.loads(message.data))
                    if event["type"] == "approval_required":
                        asked.append(event)
                        answer = {"toolCallId": event["toolCallId"], "status": "accepted"}
                        assert client.post("/api/copilot/confirm", json=answer).status_code == 200
        assert [one["toolName"] for one in asked] == ["run_workflow"]
        assert [one["type"] for one in events if one["type"] in ("done", "error")] == ["done"]
        text = "".join(one["data"] for one in events if one["type"] == "content")
        assert text.startswith("I draft it. Now I run it. The run ")
        chat_id = next(one["chatId"] for one in events if one["type"] == "chat_id")
        _is_merged(client, repo, chat_id)
        (workflow,) = client.get("/api/workflows").json()["workflows"]
        versions = client.get(f"/api/workflows/{workflow['id']}/versions").json()["versions"]
        assert [one["revision"]["kind"] for one in versions] == ["edited", "created"]
        assert {one["revision"]["chatId"] for one in versions} == {chat_id}
        numbers = [one["eventId"] for one in events]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("backend", ["openai", "remote"])
def test_curl_with_a_key_that_may_approve_gets_all_of_it_in_one_answer(backend: str, at: Desk, repo: Repo) -> None:
    with BACKENDS[backend]() as settings, served(at, repo, settings) as client:
        body = json.dumps({"message": REQUEST, "workspace": str(repo.path)})
        told = _curl(client, body)
        assert told["success"] is True, told
        assert told["content"].startswith("I draft it. Now I run it. The run ")
        calls = [(one["name"], one["status"]) for one in told["toolCalls"]]
        assert calls[:3] == [(name, "success") for name in ("create_workflow", "edit_workflow", "run_workflow")]
        assert all(one["durationMs"] >= 0 for one in told["toolCalls"])
        _is_merged(client, repo, told["chatId"])


def test_a_key_that_may_not_approve_has_the_run_refused_and_is_told_so(at: Desk, repo: Repo) -> None:
    with a_model("openai") as settings, served(at, repo, settings, scope="run") as client:
        told = _curl(client, json.dumps({"message": REQUEST, "workspace": str(repo.path)}))
        assert told["success"] is True
        assert [one["status"] for one in told["toolCalls"]] == ["success", "success", "skipped"]
        assert "needs approval" in told["toolCalls"][-1]["error"]
        assert told["content"].startswith("I draft it. Now I run it. It was not run: ")
        assert client.get("/api/runs", params={"kind": "plan"}).json()["runs"] == []


def _curl(client: httpx.Client, body: str) -> Any:
    argv = [need("curl"), "--silent", "--show-error", "--max-time", str(PATIENCE_S), "--data", body]
    argv += ["--header", "Content-Type: application/json", "--header", f"X-API-Key: {client.headers['X-API-Key']}"]
    done = subprocess.run(
        [*argv, f"{client.base_url}/api/v1/copilot/chat".replace("//api", "/api")],
        check=True,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    return json.loads(done.stdout)
