"""An agent waits in a call of a tool while its server is killed, stopped, or told to end the turn: real processes, from
the agent over the bridge to the server."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.flow.test_chat_http_crash import CHAT, STREAM, end_of, reading
from tests.flow.test_serve_http import Server
from tests.support.flow import make_repo
from tests.support.living import living
from tests.support.terminal import Desk, desk, until

WORKFLOW = {"name": "greetings", "blocks": [{"id": "b", "type": "shell", "task": "t", "config": {"command": "true"}}]}
ROOT = Path(__file__).parents[2]


class Machine:
    """A server whose conversations a calling agent answers."""

    def __init__(self, at: Desk, workspace: Path) -> None:
        self.at = at
        self.workspace = workspace
        at.run_here("repo", "add", workspace)
        self.key = at.ask("keys", "create", "--name", "test", "--user", "ann", "--scope", "admin")["key"]
        self.server = self._serve()

    def _serve(self) -> Server:
        return Server(self.at.start("serve", "--port", "0", "--no-open"))

    def kill(self) -> None:
        self.server.command.signal(signal.SIGKILL)
        self.server.command.wait()

    def serve_again(self) -> None:
        self.server = self._serve()

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with self.server.stranger() as client:
            client.headers["x-api-key"] = self.key
            yield client

    def bridges(self) -> list[int]:
        return [one.pid for one in living() if "interfaces.mcp.bridge" in one.command and self._ours(one.environ)]

    def _ours(self, environ: bytes) -> bool:
        return str(self.at.data_dir).encode() in environ


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    part = tmp_path / "part.json"
    steps = [
        ["say", "I draft it. "],
        ["call", "create_workflow", WORKFLOW],
        ["say", " I run it. "],
        ["call", "run_workflow", {}],
        ["say", " So."],
    ]
    part.write_text(json.dumps({"steps": steps, "initialize": {"agentCapabilities": {}}}))
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support import calling_agent as a; "
    command = [sys.executable, "-c", start + "import asyncio; asyncio.run(a.main())", str(part)]
    agents = json.dumps({"calling": {"command": command, "acp": True}})
    given = {"BACKEND": "agent", "AGENT": "calling", "AGENT_PERMISSIONS": "allow", "AGENTS": agents}
    with desk(tmp_path, **{f"PILOTHOUSE_{name}": value for name, value in given.items()}) as at:
        yield Machine(at, make_repo(tmp_path / "repo").path)


def question_of(client: httpx.Client) -> str | None:
    waits = client.get("/api/approvals").json()["approvals"]
    return waits[0]["id"] if waits else None


def test_a_killed_server_is_waited_for_and_nothing_is_done_twice(machine: Machine) -> None:
    with machine.client() as client:
        allow = client.post("/api/copilot/auto-allowed-tools", json={"tool": "create_workflow"})
        assert allow.status_code == 200
        body = {"message": "Go", "workspace": str(machine.workspace)}
        with reading(client, "POST", CHAT, body) as reader:
            reader.until("approval_required")
            seen = reader.shown
            machine.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                reader.to_the_end()
    machine.serve_again()
    with machine.client() as client:
        turn_id = seen[0]["streamId"]
        wait_id = until(lambda: question_of(client))
        assert client.post(f"/api/approvals/{wait_id}", json={"answer": "approve"}).status_code == 200
        with reading(client, "GET", f"{STREAM}?streamId={turn_id}") as reader:
            reader.to_the_end()
        assert end_of(reader.shown)["type"] == "done", reader.shown[-5:]
        calls = [(one["toolName"], one["type"]) for one in reader.shown if one["type"] in ("tool_call", "tool_result")]
        assert calls == [
            ("create_workflow", "tool_call"),
            ("create_workflow", "tool_result"),
            ("run_workflow", "tool_call"),
            ("run_workflow", "tool_result"),
        ]
        order = [one["type"] for one in reader.shown if one["type"] in ("content", "tool_call")]
        assert order[:2] == ["content", "tool_call"]
        text = "".join(one["data"] for one in reader.shown if one["type"] == "content")
        assert text.startswith("I draft it. {")
        assert " I run it. {" in text, "it was told the run, not an error"
        assert text.endswith(" So.")
        assert len(client.get("/api/plans").json()["plans"]) == 1
    until(lambda: not machine.bridges())


def test_a_stop_leaves_neither_agent_nor_bridge(machine: Machine) -> None:
    with machine.client() as client:
        body = {"message": "Go", "workspace": str(machine.workspace)}
        with reading(client, "POST", CHAT, body) as reader:
            reader.until("approval_required")
            bridges = machine.bridges()
            assert len(bridges) == 1
            turn_id = reader.shown[0]["streamId"]
            token = f"pa_{turn_id}".encode()
            holding = [one.pid for one in living() if token in one.environ or token in one.command.encode()]
            assert holding == bridges, "what lets it in is the bridge's alone"
            assert client.post("/api/copilot/chat/abort", json={"streamId": turn_id}).status_code == 200
            reader.to_the_end()
        assert end_of(reader.shown)["type"] in {"done", "error"}
        assert [one["toolName"] for one in reader.shown if one["type"] == "tool_error"] == ["run_workflow"]
        assert not client.get("/api/plans").json()["plans"]
    until(lambda: not machine.bridges())
