"""The SDK's own client at a real server: by the program that editors start, and over HTTP with an API key."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent
from tests.flow.test_serve_http import serve
from tests.support.flow import PATIENCE_S
from tests.support.terminal import PILOTHOUSE, Desk, desk, until

pytestmark = pytest.mark.timeout(180)

MODES = ["auto", "legacy", "2026-07-28"]
"""How the client agrees on a revision: it asks, shakes hands (2025-11-25), or says it."""


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, PILOTHOUSE_HTTP_ALLOW="127.0.0.1") as made:
        yield made


def run(journey: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(journey, 4 * PATIENCE_S))


@asynccontextmanager
async def by_program(at: Desk, mode: str = "auto") -> AsyncIterator[Client]:
    """As an editor comes in."""
    program = StdioServerParameters(command=PILOTHOUSE[0], args=[*PILOTHOUSE[1:], "mcp"], env=at.env, cwd=at.path)
    async with Client(program, mode=mode, read_timeout_seconds=2 * PATIENCE_S) as client:
        yield client


@asynccontextmanager
async def by_http(url: str, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            yield client


def key_of(at: Desk, user: str, scope: str) -> str:
    key: str = at.ask("keys", "create", "--name", user, "--user", user, "--scope", scope)["key"]
    return key


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def uses_tools(client: Client, name: str) -> None:
    """What every client does: lists, calls, mends its mistakes, and calls many at once."""
    assert {"create_workflow", "list_workflows"} <= {tool.name for tool in (await client.list_tools()).tools}
    made = await client.call_tool("create_workflow", {"name": name})
    assert (made.is_error, made.structured_content["name"]) == (False, name)
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    found = await client.call_tool("list_workflows", {}, progress_callback=tell)
    assert [each["name"] for each in found.structured_content["workflows"]] == [name]
    assert told
    assert json.loads(text_of(found)) == found.structured_content
    wrong = await client.call_tool("get_workflow", {"name": name})
    assert wrong.is_error
    assert "workflowId" in text_of(wrong)
    with pytest.raises(MCPError, match="there is no tool"):
        await client.call_tool("nope", {})
    many = await asyncio.gather(*(client.call_tool("list_workflows", {}) for _ in range(20)))
    assert not [each for each in many if each.is_error]


@pytest.mark.parametrize("mode", MODES)
def test_an_editor_uses_the_tools_by_the_program_that_it_starts(mode: str, at: Desk) -> None:
    async def journey() -> None:
        async with by_program(at, mode) as client:
            await uses_tools(client, mode)
        assert [each["name"] for each in at.ask("plan", "list")["plans"]] == []

    run(journey())


@pytest.mark.parametrize("mode", MODES)
def test_a_program_uses_the_tools_over_http_with_a_key(mode: str, at: Desk) -> None:
    async def journey() -> None:
        server = serve(at)
        async with by_http(server.url, key_of(at, "ann", "run"), mode) as client:
            await uses_tools(client, mode)

    run(journey())


def test_a_key_that_may_only_read_is_refused_and_a_foreign_one_sees_nothing_of_others(at: Desk) -> None:
    async def journey() -> None:
        server = serve(at)
        async with (
            by_http(server.url, key_of(at, "ann", "run")) as ann,
            by_http(server.url, key_of(at, "bob", "run")) as bob,
        ):
            made = await ann.call_tool("create_workflow", {"name": "hers"})
            assert (await bob.call_tool("list_workflows", {})).structured_content["total"] == 0
            guessed = await bob.call_tool("get_workflow", {"workflowId": made.structured_content["workflowId"]})
            assert guessed.is_error
            assert "hers" not in text_of(guessed)
            asked = await bob.call_tool("http_request", {"url": server.url})
            assert asked.is_error
            assert "approve" in text_of(asked)
        for key in (key_of(at, "eve", "read"), "pk_none"):
            with pytest.raises(Exception) as caught:  # the client wraps it in groups, by its mode
                async with by_http(server.url, key) as client:
                    await client.list_tools()
            assert "tools" not in str(caught.value)

    run(journey())


@contextmanager
def elsewhere(go_on: threading.Event) -> Iterator[tuple[str, list[bytes]]]:
    """A service that answers once it is allowed to; what it was asked."""
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            go_on.wait(PATIENCE_S)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None: ...

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            go_on.set()
            server.shutdown()
            thread.join(PATIENCE_S)


async def happens(met: Callable[[], bool]) -> None:
    await asyncio.to_thread(until, met)


def test_an_owner_that_is_killed_in_the_middle_costs_one_answer_and_runs_nothing_twice(at: Desk) -> None:
    async def journey() -> None:
        go_on = threading.Event()
        with elsewhere(go_on) as (url, asked):
            async with by_program(at) as client:
                post = {"url": url, "method": "POST"}
                call = asyncio.create_task(client.call_tool("http_request", {**post, "body": "x"}))
                await happens(lambda: bool(asked))
                killed = at.owner().pid
                os.kill(killed, signal.SIGKILL)
                answered = await call
                assert answered.is_error
                assert "restarted" in text_of(answered)
                assert at.only_owner() != killed
                assert len(asked) == 1
                go_on.set()
                again = await client.call_tool("http_request", {**post, "body": "y"})
                assert not again.is_error, text_of(again)
                assert asked == [b"x", b"y"]

    run(journey())


def test_an_owner_that_is_gone_is_started_again_by_the_next_request(at: Desk) -> None:
    async def journey() -> None:
        async with by_program(at) as client:
            await client.call_tool("create_workflow", {"name": "kept"})
            killed = at.owner().pid
            os.kill(killed, signal.SIGKILL)
            results = await asyncio.gather(*(client.call_tool("list_workflows", {}) for _ in range(5)))
            assert [each.structured_content["total"] for each in results] == [1] * 5
            assert at.only_owner() != killed

    run(journey())


def test_serving_takes_over_from_an_owner_in_the_background_under_a_client(at: Desk) -> None:
    async def journey() -> None:
        async with by_program(at) as client:
            await client.call_tool("create_workflow", {"name": "kept"})
            before = at.owner().pid
            serve(at)
            assert (await client.call_tool("list_workflows", {})).structured_content["total"] == 1
            assert at.owner().pid != before

    run(journey())


def test_nothing_of_the_workspace_is_run_that_is_called_like_a_part_of_ours(at: Desk) -> None:
    async def journey() -> None:
        workspace, marker = at.path / "workspace", at.path / "was-run"
        workspace.mkdir()
        for name in ("json", "queue", "platformdirs", "mcp"):
            (workspace / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n", encoding="utf-8")
        # As the script of an installation is started, which does not look there either.
        program = StdioServerParameters(
            command=PILOTHOUSE[0], args=["-P", *PILOTHOUSE[1:], "mcp"], env=at.env, cwd=workspace
        )
        async with Client(program, read_timeout_seconds=2 * PATIENCE_S) as client:
            await client.list_tools()
        assert not marker.exists()

    run(journey())
