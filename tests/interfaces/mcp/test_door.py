"""MCP as programs speak it at the doors of a server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope
from tests.interfaces.http.doors import Sent, Served, events, eventually, inside, run, served
from tests.interfaces.http.keyed import key_of, keyed
from tests.interfaces.http.test_plans import refusal
from tests.interfaces.mcp.callers import FakeCaller
from tests.support.services import PATIENCE_S

from pilothouse.core.auth.principals import LOCAL, Answering, Kind, Principal, Scope
from pilothouse.engine.tools.callers import ToolCaller, ToolOutcome
from pilothouse.errors import BadInput, Refused, Unavailable
from pilothouse.interfaces.http.limits import MAX_BODY
from pilothouse.interfaces.mcp.door import McpDoor

BOTH = {"accept": "application/json, text/event-stream"}
STATELESS = "2026-07-28"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", STATELESS)
INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32602, -32603


class Door:
    """A speaker for tests: notes who asks, and hands all the same caller."""

    def __init__(self, caller: FakeCaller) -> None:
        self.caller = caller
        self.principals: list[Principal] = []
        self.speaker = McpDoor(self._of, "1.2.3")

    def _of(self, principal: Principal) -> ToolCaller:
        self.principals.append(principal)
        return self.caller


@asynccontextmanager
async def speaking(folder: Path, caller: FakeCaller) -> AsyncIterator[Served]:
    async with served(folder, mcp=Door(caller).speaker) as at:
        yield at


def request(method: str, revision: str, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A message and its headers, as a client of that revision sends them."""
    headers = {**BOTH, "mcp-protocol-version": revision}
    if revision == STATELESS:
        prefix = "io.modelcontextprotocol"
        meta = {f"{prefix}/protocolVersion": revision, f"{prefix}/clientCapabilities": {}}
        params["_meta"] = {**params.get("_meta", {}), **meta}
        headers["mcp-method"] = method
        if "name" in params:
            headers["mcp-name"] = params["name"]
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, headers


async def said(response: httpx.Response) -> list[dict[str, Any]]:
    """The messages in an answer, in a stream or alone."""
    if response.headers["content-type"].startswith("text/event-stream"):
        return [json.loads(sent.data) async for sent in events(response) if isinstance(sent, Sent)]
    return [json.loads(await response.aread())]


async def ask(
    client: httpx.AsyncClient,
    method: str,
    revision: str = "2025-11-25",
    call: dict[str, str] | None = None,
    **params: Any,
) -> dict[str, Any]:
    """The answer to one request, the last of what is said. ``call``: what its headers say of the call."""
    body, headers = request(method, revision, **params)
    headers |= {f"pilothouse-call-{name}": value for name, value in (call or {}).items()}
    async with client.stream("POST", "/mcp", json=body, headers=headers) as response:
        answer = (await said(response))[-1]
        assert response.status_code < 500, answer
        return answer


async def call(client: httpx.AsyncClient, name: str, revision: str = "2025-11-25", **more: str) -> dict[str, Any]:
    return await ask(client, "tools/call", revision, more, name=name)


def tasks() -> set[str]:
    """What runs in this loop, but for what the SDK's streams keep looking for an end by."""
    return {str(task.get_coro()) for task in asyncio.all_tasks() if "_shutdown_watcher" not in str(task.get_coro())}


@pytest.mark.parametrize("revision", REVISIONS)
def test_tools_are_listed_and_called_in_every_revision(revision: str, tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller()
        async with speaking(tmp_path, caller) as at:
            listed = await ask(at.client, "tools/list", revision)
            assert [each["name"] for each in listed["result"]["tools"]] == ["look", "touch"]
            answered = await ask(at.client, "tools/call", revision, name="look", arguments={"n": 3})
            assert answered["id"] == 7
            assert json.loads(answered["result"]["content"][0]["text"]) == {"given": {"n": 3}}
            if revision != "2025-03-26":  # which has none
                assert answered["result"]["structuredContent"] == {"given": {"n": 3}}
            assert [(name, given) for _, name, given in caller.called] == [("look", {"n": 3})]

    run(journey())


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_handshake_agrees_on_the_revision_of_the_client(revision: str, tmp_path: Path) -> None:
    async def journey() -> None:
        async with speaking(tmp_path, FakeCaller()) as at:
            about = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            agreed = (await ask(at.client, "initialize", revision, protocolVersion=revision, **about))["result"]
            assert agreed["protocolVersion"] == revision
            assert agreed["serverInfo"] == {"name": "pilothouse", "version": "1.2.3"}
            assert "tools" in agreed["capabilities"]
            told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await at.client.post("/mcp", json=told, headers=BOTH)).status_code == 202

    run(journey())


@pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])
@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (Refused("the turn is over"), INVALID_REQUEST, "refused"),
        (Unavailable("stopping"), INTERNAL_ERROR, "unavailable"),
    ],
)
def test_what_a_model_cannot_mend_is_an_error_of_the_protocol(
    error: Exception, code: int, word: str, revision: str, tmp_path: Path
) -> None:
    async def journey() -> None:
        caller = FakeCaller(look=error)
        async with speaking(tmp_path, caller) as at:
            assert (await call(at.client, "look", revision))["error"] == {
                "code": code,
                "message": str(error),
                "data": {"code": word},
            }
            caller.refusal = error
            assert (await ask(at.client, "tools/list", revision))["error"]["code"] == code

    run(journey())


@pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])
def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(revision: str, tmp_path: Path) -> None:
    async def journey() -> None:
        async with speaking(tmp_path, FakeCaller()) as at:
            error = (await call(at.client, "nope", revision))["error"]
            assert (error["code"], error["message"]) == (INVALID_PARAMS, "there is no tool nope")

    run(journey())


def test_what_a_model_can_mend_is_a_result(tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller(look=BadInput("is no number", field="n"), touch=ToolOutcome(ok=False, error="it is stuck"))
        async with speaking(tmp_path, caller) as at:
            for name, why in (("look", "n: is no number"), ("touch", "it is stuck")):
                result = (await call(at.client, name))["result"]
                assert (result["isError"], result["content"][0]["text"]) == (True, why)

    run(journey())


def test_a_bug_is_told_as_one_and_nothing_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def journey() -> None:
        async with speaking(tmp_path, FakeCaller(look=ZeroDivisionError("secret"))) as at:
            error = (await call(at.client, "look"))["error"]
            assert error["code"] == INTERNAL_ERROR
            assert "secret" not in error["message"]

    run(journey())
    assert "secret" in caplog.text


@pytest.mark.parametrize("revision", ["2025-06-18", STATELESS])
def test_what_a_call_waits_for_is_told_to_whoever_wants_to_know(revision: str, tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller(look=None)
        caller.go_on.set()
        async with speaking(tmp_path, caller) as at:
            body, headers = request("tools/call", revision, name="look", _meta={"progressToken": "t"})
            async with at.client.stream("POST", "/mcp", json=body, headers=headers) as response:
                *told, answer = await said(response)
            assert [each["params"]["message"] for each in told] == ["waits for an approval", "runs"]
            assert {each["params"]["progressToken"] for each in told} == {"t"}
            assert [each["params"]["progress"] for each in told] == [1, 2]
            assert answer["result"]["structuredContent"] == {"result": "done"}
            body, headers = request("tools/call", revision, name="look")
            async with at.client.stream("POST", "/mcp", json=body, headers=headers) as response:
                assert len(await said(response)) == 1

    run(journey())


@pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])
def test_who_hangs_up_leaves_nothing_behind(revision: str, tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller(look=None)
        async with speaking(tmp_path, caller) as at:
            await call(at.client, "touch")  # so that everything is imported, and there is a connection
            before = tasks()
            body, headers = request("tools/call", revision, name="look", _meta={"progressToken": 1})
            async with at.client.stream("POST", "/mcp", json=body, headers=headers) as response:
                stream = events(response)
                await anext(stream)
            await eventually(lambda: len(caller.left) == 1)
            await eventually(lambda: len(tasks()) <= len(before))

    run(journey())


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["silent", "told"])
@pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])
def test_a_server_that_stops_ends_calls_that_wait_and_says_to_ask_again(
    revision: str, meta: dict[str, Any], tmp_path: Path
) -> None:
    async def journey() -> None:
        caller = FakeCaller(look=None)
        async with speaking(tmp_path, caller) as at:
            body, headers = request("tools/call", revision, name="look", _meta=meta)
            asking = asyncio.create_task(at.client.post("/mcp", json=body, headers=headers))
            await eventually(lambda: bool(caller.called))
            at.stop.set()
            answer = (await said(await asking))[-1]
            assert (answer["id"], answer["error"]["data"]) == (7, {"code": "unavailable"})
            await asyncio.wait_for(at.task, PATIENCE_S)
            assert len(caller.left) == 1

    run(journey())


def test_what_does_not_end_when_the_server_stops_is_cut_off(tmp_path: Path) -> None:
    async def journey() -> None:
        began = asyncio.Event()

        async def stuck(principal: Principal, call_id: str, ending: asyncio.Event, *, again: bool) -> ASGIApp:
            async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
                began.set()
                await asyncio.get_running_loop().create_future()

            return app

        async with served(tmp_path, mcp=stuck) as at:
            asking = asyncio.create_task(at.client.post("/mcp", json={}, headers=BOTH))
            await began.wait()
            at.stop.set()
            answered = await asking
            refusal(answered, 503, "unavailable")
            assert answered.headers["retry-after"] == "1"

    run(journey())


@pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])
def test_a_call_ends_when_the_key_is_revoked_that_made_it(revision: str, tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller(look=None)
        async with speaking(tmp_path, caller) as at, at.browser() as bob:
            bob.headers["x-api-key"] = await key_of(at, "bob", Scope.RUN)
            body, headers = request("tools/call", revision, name="look")
            asking = asyncio.create_task(bob.post("/mcp", json=body, headers=headers))
            await eventually(lambda: bool(caller.called))
            (key,) = await at.services.keys.list("bob")
            await at.services.keys.revoke(key.id)
            caller.go_on.set()
            answered = await asking
            if revision == STATELESS:
                refusal(answered, 403, "denied")
            else:  # a stream, which had begun
                assert answered.text == ""
            refusal(await bob.post("/mcp", json=body, headers=headers), 401, "invalid_key")

    run(journey())


def test_a_call_has_the_name_that_its_caller_gave_it_or_a_fresh_one(tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller()
        async with speaking(tmp_path, caller) as at:
            await call(at.client, "look", id="mine")
            for _ in range(2):
                await call(at.client, "look")
            names = [called[0] for called in caller.called]
            assert names[0] == "mine"
            assert len(set(names)) == 3
            for name in ("", "x" * 129, "a b"):
                answered = await at.client.post("/mcp", json={}, headers={**BOTH, "pilothouse-call-id": name})
                assert answered.status_code in {400, 422}

    run(journey())


def test_what_a_server_before_this_one_may_have_done_is_done_again_only_where_that_is_harmless(tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller()
        async with speaking(tmp_path, caller) as at:
            lost = (await call(at.client, "touch", again="1"))["result"]
            assert lost["isError"]
            assert "restarted" in lost["content"][0]["text"]
            assert not caller.called
            assert not (await call(at.client, "look", again="1"))["result"]["isError"]

    run(journey())


def test_an_agents_calls_are_in_its_turn_whoever_was_asked_before() -> None:
    async def journey() -> None:
        caller, sent = FakeCaller(), list[Any]()
        door = McpDoor(lambda principal: caller, "1")
        agent = Principal("ann", Kind.AGENT, frozenset(), answering=Answering("turn", 1))
        body, headers = request("tools/call", STATELESS, name="touch")
        given = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

        async def receive() -> Any:
            try:
                return next(given)
            except StopIteration:
                return await asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            sent.append(message)

        app = await door(agent, "c", asyncio.Event(), again=True)
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        encoded.append((b"content-type", b"application/json"))
        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": encoded}, receive, send)
        assert caller.called == [("c", "touch", {})]

    run(journey())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'"x"', 400),
        (b"[" * 100_000, 400),
        (b'{"jsonrpc": "2.0"}', 400),
        (b"x" * (MAX_BODY + 1), 413),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, status: int) -> None:
    async def journey() -> None:
        async with inside(mcp=Door(FakeCaller()).speaker) as at:
            for revision in ({}, {"mcp-protocol-version": STATELESS}):
                headers = {**BOTH, "content-type": "application/json", **revision}
                assert (await at.client.post("/mcp", content=body, headers=headers)).status_code == status

    run(journey())


def test_there_is_nothing_to_be_fetched_or_deleted() -> None:
    async def journey() -> None:
        async with inside(mcp=Door(FakeCaller()).speaker) as at:
            for method in ("GET", "DELETE"):
                answered = await at.client.request(method, "/mcp", headers=BOTH)
                refusal(answered, 405, "method_not_allowed")
                assert answered.headers["allow"] == "POST"

    run(journey())


def test_foreign_pages_and_strangers_are_turned_away_at_the_tcp_door(tmp_path: Path) -> None:
    async def journey() -> None:
        caller = FakeCaller()
        async with speaking(tmp_path, caller) as at, at.browser() as stranger:
            body, headers = request("tools/call", "2025-11-25", name="look")
            for foreign in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
                answered = await stranger.post("/mcp", json=body, headers={**headers, **foreign})
                refusal(answered, 403, "denied")
            refusal(await stranger.post("/mcp", json=body, headers=headers), 401, "no_credential")
            assert not caller.called

    run(journey())


def test_who_asks_is_handed_on_and_a_key_that_may_only_read_is_refused() -> None:
    async def journey() -> None:
        door = Door(FakeCaller())
        async with inside(mcp=door.speaker) as at:
            body, headers = request("tools/list", STATELESS)
            async with await keyed(at, "bob", Scope.READ) as reader:
                refusal(await reader.post("/mcp", json=body, headers=headers), 403, "needs_scope")
            assert not door.principals
            async with await keyed(at, "bob", Scope.RUN) as bob:
                assert (await bob.post("/mcp", json=body, headers=headers)).status_code == 200
            await at.client.post("/mcp", json=body, headers=headers)
            assert [each.name for each in door.principals] == ["bob", LOCAL]

    run(journey())


def test_without_the_sdk_the_reason_is_told_and_no_import_is_tried_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> None:
        monkeypatch.delitem(sys.modules, "pilothouse.interfaces.mcp.serving", raising=False)
        monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
        async with inside() as at:
            body, headers = request("tools/list", STATELESS)
            answered = await at.client.post("/mcp", json=body, headers=headers)
            assert "pip install 'pilothouse[mcp]'" in str(refusal(answered, 503, "not_installed")["detail"])

    run(journey())
