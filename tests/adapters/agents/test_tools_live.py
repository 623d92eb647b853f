"""Real agents that are given a server of tools: they use it unasked, keep its secret, and say nothing of its calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.adapters.agents.live import Place
from tests.support import stdio_tools
from tests.support.living import living, with_marker
from tests.support.models.parts import Part, call, hold, say, use_tool, write_file
from tests.support.models.server import ModelServer
from tests.support.models.tools import served_by

from pilothouse.adapters.agents.claude.driver import Claude
from pilothouse.adapters.agents.codex.driver import Codex
from pilothouse.adapters.agents.copilot.driver import Copilot
from pilothouse.adapters.agents.driver import AgentDriver, AgentWork
from pilothouse.adapters.agents.gemini.driver import Gemini
from pilothouse.adapters.agents.opencode.driver import OpenCode
from pilothouse.core.run.agents import (
    Permissions,
    SessionStarted,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)

pytestmark = pytest.mark.timeout(300)


USERS = ("users", "pilothouse")


def _json_servers(home: Path, name: str, kind: str) -> None:
    servers = {
        server: {"type": kind, "command": sys.executable, "args": _users(home, server), "tools": ["*"]}
        for server in USERS
    }
    (home / name).write_text(json.dumps({"mcpServers": servers}))


def _toml_servers(home: Path) -> None:
    servers = (
        f"[mcp_servers.{server}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(_users(home, server))}\n"
        for server in USERS
    )
    (home / "config.toml").write_text("".join(servers))


def _opencode_servers(home: Path) -> None:
    servers = {name: {"type": "local", "command": [sys.executable, *_users(home, name)]} for name in USERS}
    place = home / ".config" / "opencode"
    place.mkdir(parents=True)
    (place / "opencode.json").write_text(json.dumps({"mcp": servers}))


def _users(home: Path, server: str) -> list[str]:
    return [stdio_tools.__file__, str(home / f"asked-of-{server}")]


class Agent(NamedTuple):
    driver: AgentDriver
    path: str
    """Behind the address of its model."""
    users: Callable[[Path], None] | None
    """Gives it, in its home, servers of the user's own: one more, and one of the same name as ours. None where those
    are in another home than the one it has here."""
    writes: Part = write_file("hello.txt", "x")
    """Also where it takes from the model what it may not use."""


AGENTS: Mapping[str, Agent] = {
    "claude": Agent(Claude(), "", lambda home: _json_servers(home, ".claude.json", "stdio")),
    "copilot": Agent(Copilot(), "/v1", lambda home: _json_servers(home, "mcp-config.json", "local")),
    "codex": Agent(Codex(), "/v1", _toml_servers),
    "opencode": Agent(OpenCode(), "/v1", _opencode_servers, call("write", {"filePath": "hello.txt", "content": "x"})),
    "gemini": Agent(Gemini(), "", None, call("write_file", {"file_path": "hello.txt", "content": "x"})),
}


class Bench:
    def __init__(self, root: Path, name: str) -> None:
        self.agent = AGENTS[name]
        self.root = root
        self.place = Place(root, self.agent.driver, name)
        self.home = self.place.private / name

    def work(self, server: ModelServer, run: str = "one", command: tuple[str, ...] = (), **changes: Any) -> AgentWork:
        """``command``: before that of its server of tools."""
        command = (*command, sys.executable, stdio_tools.__file__, str(self.root / f"asked-{run}"))
        tools = ToolServer(name="pilothouse", command=command, env={stdio_tools.SECRET: secret_of(run)})
        return self.place.work(f"{server.url}{self.agent.path}", run, tools=tools, **changes)

    def asked(self, run: str = "one") -> list[tuple[str, str]]:
        """(tool, secret) of the calls that came to the server of a run."""
        requests = map(json.loads, (self.root / f"asked-{run}").read_text().splitlines())
        return [(one["params"]["name"], one["secret"]) for one in requests if one["method"] == "tools/call"]


def secret_of(run: str) -> str:
    return f"secret-of-{run}-0123456789"


@pytest.fixture(params=list(AGENTS))
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    return Bench(tmp_path, request.param)


def test_even_an_agent_that_may_do_nothing_uses_the_server_and_says_nothing_of_it(bench: Bench) -> None:
    turns = (
        use_tool("refuse", {"text": "first"}),
        use_tool("die", {"text": "then"}),
        bench.agent.writes,
        (say("That was "), hold("looked"), say("it.")),
    )
    with ModelServer(turns) as server, bench.place.run(bench.work(server, permissions=Permissions.DENY)) as run:
        server.wait_for(lambda _: server.holding > 0)
        processes = living()
        server.let_go("looked")
        ended = run.end()
        results = server.questions[-1].asked

    assert ended.ok
    assert results is not None
    assert "refused: first" in results.results[0]
    assert bench.asked()[:2] == [("refuse", secret_of("one")), ("die", secret_of("one"))]
    assert not (bench.place.worktree / "hello.txt").exists()
    told = [*(tool.tool for tool in run.of(ToolStarted)), *(tool.tool for tool in run.of(ToolEnded))]
    assert not any("refuse" in tool or "die" in tool for tool in told)
    assert {tool.status for tool in run.of(ToolEnded)} <= {ToolStatus.DENIED}
    assert sum(used.usage.tool_calls for used in run.of(Used)) == 2 + len(run.of(ToolStarted))
    secret = secret_of("one")
    assert not any(secret in process.command for process in processes)
    assert all("stdio_tools" in process.command for process in with_marker(secret, processes))
    assert not any(secret.encode() in line for line in bench.place.heard)
    holding = [path.name for path in bench.root.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert sorted(holding) == ["asked-one", "tools.env"]


def test_a_conversation_that_goes_on_has_the_server_of_its_new_run(bench: Bench) -> None:
    turns = (
        use_tool("refuse", {"text": "one"}),
        say("It was refused."),
        use_tool("echo", {"text": "two"}),
        say("That went well."),
    )
    with ModelServer(turns) as server:
        with bench.place.run(bench.work(server)) as first:
            assert first.end().ok
        before = bench.asked("one")
        bench.place.worktree = bench.place.new_worktree()
        again = bench.work(server, "two", session_id=first.wait(SessionStarted).session_id, prompt="Go on")
        with bench.place.run(again) as second:
            assert second.end().ok

    assert second.said == "That went well."
    assert before == bench.asked("one") == [("refuse", secret_of("one"))]
    assert bench.asked("two") == [("echo", secret_of("two"))]
    assert not second.of(ToolStarted)
    assert not second.of(ToolEnded)


def test_servers_of_the_users_own_stay_and_their_calls_are_told_but_none_is_mistaken_for_ours(bench: Bench) -> None:
    if bench.agent.users is None:
        return
    bench.home.mkdir(parents=True)
    bench.agent.users(bench.home)
    turns = (use_tool("echo", {"text": "ours"}), use_tool("echo", {"text": "theirs"}, server="users"), say("Done."))
    with ModelServer(turns) as server:
        with bench.place.run(bench.work(server)) as run:
            assert run.end().ok
        first, *_ = server.questions

    assert first.asked is not None
    assert sorted(served_by("pilothouse", first.asked)) == ["die", "echo", "refuse", "wait"]
    assert bench.asked() == [("echo", secret_of("one"))]
    assert (bench.home / "asked-of-users").exists()
    assert ["users" in tool.tool for tool in run.of(ToolStarted)] == [True]
    assert ["users" in tool.tool for tool in run.of(ToolEnded)] == [True]


def test_a_server_that_starts_slowly_is_waited_for(bench: Bench) -> None:
    """Some wait for a second and then work without its tools: there would be none to call."""
    slowly = ("/bin/sh", "-c", 'sleep 2; exec "$@"', "sh")
    with ModelServer((use_tool("echo", {"text": "at last"}), say("Done."))) as server:
        with bench.place.run(bench.work(server, command=slowly)) as run:
            assert run.end().ok
        first, *_ = server.questions

    assert first.asked is not None
    assert set(served_by("pilothouse", first.asked)) == {"echo", "refuse", "die", "wait"}
    assert bench.asked() == [("echo", secret_of("one"))]
