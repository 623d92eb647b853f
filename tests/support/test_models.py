"""The loopback model server: the same script means the same over every wire, and nothing it was asked is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.support.model_clients import CLIENTS, Client, connect
from tests.support.models.asked import Asked, Tool
from tests.support.models.parts import (
    FOREVER,
    Call,
    Part,
    RunShell,
    UseTool,
    WriteFile,
    call,
    drop,
    fail,
    hang,
    hold,
    run_shell,
    say,
    slow,
    think,
    usage,
    use_tool,
)
from tests.support.models.script import Script
from tests.support.models.server import ModelServer, refusing
from tests.support.models.tools import concrete, served_by
from tests.support.models.wire import tokens

OVER_EVERY_WIRE = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)

WORK = (
    [think("I think\nso."), run_shell("make  all"), usage(input=1200, output=60, cached=200, reasoning=20)],
    [say("All  is\nwell.\n"), usage(input=1300, output=30)],
)


@OVER_EVERY_WIRE
def test_a_turn_reaches_the_client_part_by_part(client: Client) -> None:
    with ModelServer(WORK) as server:
        first, last = client.ask(server.url), client.ask(server.url, rounds=1)
    assert first.thought == "I think\nso."
    assert first.calls == [("bash", {"command": "make  all"})]
    assert last.text == "All  is\nwell.\n"
    assert first.ended and last.ended


@OVER_EVERY_WIRE
def test_an_answer_that_is_not_streamed_is_the_same(client: Client) -> None:
    with ModelServer(WORK) as server:
        for rounds in (0, 1):
            assert client.ask_whole(server.url, rounds=rounds) == client.ask(server.url, rounds=rounds)


@OVER_EVERY_WIRE
def test_tokens_are_told_the_way_the_wire_counts_them(client: Client) -> None:
    with ModelServer(WORK) as server:
        heard = client.ask(server.url)
    assert heard.tokens == ((1000, 200, 60) if client.name == "anthropic" else (1200, 200, 60))


@OVER_EVERY_WIRE
def test_the_conversation_decides_which_turn_comes_next(client: Client) -> None:
    with ModelServer([say("one"), say("two"), say("three")]) as server:
        heard = [client.ask(server.url, rounds=rounds).text for rounds in (2, 0, 1, 0)]
        beyond = client.ask(server.url, rounds=7).text
    assert heard == ["three", "one", "two", "one"]
    assert beyond == "There is nothing left to do."


@OVER_EVERY_WIRE
def test_a_failure_is_met_as_often_as_the_script_says_and_then_the_turn_comes(client: Client) -> None:
    with ModelServer([fail(429, "slow down", retry_after=2, times=2), fail(503), say("at last")]) as server:
        seen = []
        for _ in range(3):
            with pytest.raises(httpx.HTTPStatusError) as caught:
                client.ask(server.url)
            seen.append(caught.value.response)
        assert client.ask(server.url).text == "at last"
    assert [one.status_code for one in seen] == [429, 429, 503]
    assert seen[0].headers["retry-after"] == "2"
    assert "retry-after" not in seen[2].headers


@OVER_EVERY_WIRE
def test_a_failure_in_the_middle_of_an_answer_comes_as_the_wire_tells_it(client: Client) -> None:
    with ModelServer([[say("so far"), fail(529, "overloaded")]]) as server, connect() as http:
        body = client.question("hello", 0, True, True)
        response = http.post(server.url + client.path, json=body)
    assert response.status_code == 200
    assert "so" in response.text and "overloaded" in response.text.splitlines()[-2]


@OVER_EVERY_WIRE
@pytest.mark.parametrize("turn", [[drop()], [say("so far"), drop()]], ids=["at once", "in the middle"])
def test_a_dropped_connection_is_seen_as_broken(client: Client, turn: list[Part]) -> None:
    with ModelServer([turn, say("again")]) as server:
        with pytest.raises(httpx.TransportError):
            client.ask(server.url)
        assert client.ask(server.url).text == "again"


@OVER_EVERY_WIRE
def test_a_question_without_tools_is_answered_beside_the_script(client: Client) -> None:
    with ModelServer([fail(500), say("work")]) as server:
        assert client.ask(server.url, tools=False).text == "A short title"
        assert server.requests[0].aside
        assert server.questions == []
    with ModelServer(Script(say("chat"), tools_only=False)) as server:
        assert client.ask(server.url, tools=False).text == "chat"


@OVER_EVERY_WIRE
def test_what_was_asked_is_kept(client: Client) -> None:
    with ModelServer([say("one"), say("two")]) as server:
        client.ask(server.url, "count the sheep", rounds=1, key="my-own-key")
        (request,) = server.requests
    assert (request.wire, request.method, request.script) == (client.name, "POST", "default")
    assert request.model == "fake-1"
    assert request.headers["authorization"] == "Bearer my-own-key"
    assert request.body == client.question("count the sheep", 1, True, True)
    assert request.asked
    assert (request.asked.prompts, request.asked.turns) == (("count the sheep",), 1)
    assert "done" in request.asked.results[0]


@OVER_EVERY_WIRE
def test_each_client_finds_its_script_by_path_key_or_prompt(client: Client) -> None:
    with ModelServer({"alice": [say("I am Alice")], "bob": [say("I am Bob")], "default": [say("nobody")]}) as server:
        assert client.ask(server.url_of("bob"), "for alice").text == "I am Bob"
        assert client.ask(server.url, key="fake-key-0123-bob").text == "I am Bob"
        assert client.ask(server.url, "Do it (alice).").text == "I am Alice"
        assert client.ask(server.url, "malice").text == "nobody"
        assert [one.script for one in server.requests] == ["bob", "bob", "alice", "default"]


def test_a_question_for_no_script_fails_the_test() -> None:
    with (
        pytest.raises(LookupError, match="carol"),
        ModelServer({"alice": []}) as server,
        pytest.raises(httpx.TransportError),
    ):
        CLIENTS[0].ask(server.url_of("carol"))


def test_a_script_may_be_a_function_of_the_question() -> None:
    with ModelServer(lambda asked: [say(asked.prompts[-1].upper())]) as server:
        assert [client.ask(server.url, "echo").text for client in CLIENTS] == ["ECHO"] * 4


@OVER_EVERY_WIRE
def test_an_answer_waits_until_the_test_lets_it_go_on(client: Client) -> None:
    with ModelServer([[say("first"), hold("gate"), say(" then")]]) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(client.ask, server.url)
        server.wait_for(lambda requests: server.holding == 1)
        assert server.unanswered == 1
        server.let_go("gate")
        assert asked.result(timeout=30).text == "first then"
        assert server.holding == 0


@pytest.mark.parametrize("turn", [[hang()], [say("half"), hang()], [slow(600), say("a word every ten minutes")]])
def test_a_client_that_leaves_an_answer_unfinished_is_noticed(turn: list[Part]) -> None:
    client = CLIENTS[0]
    body = client.question("hello", 0, True, True)
    with ModelServer([turn]) as server:
        with connect() as http, pytest.raises(httpx.ReadTimeout):
            http.post(server.url + client.path, json=body, timeout=0.1)
        server.wait_for(lambda requests: server.unanswered == 0 and server.connections == 0)


def test_the_end_of_the_test_ends_answers_that_hang() -> None:
    with ThreadPoolExecutor() as pool:
        with ModelServer([hang()]) as server:
            asked = pool.submit(CLIENTS[0].ask, server.url)
            server.wait_for(lambda requests: len(requests) == 1)
        with pytest.raises(httpx.TransportError):
            asked.result(timeout=30)


def test_slow_tokens_all_arrive() -> None:
    with ModelServer([[slow(0.001), say("one two three"), run_shell("ls")]]) as server:
        heard = CLIENTS[0].ask(server.url)
    assert (heard.text, heard.calls) == ("one two three", [("bash", {"command": "ls"})])


def test_a_wait_that_is_not_met_says_what_was_asked() -> None:
    with ModelServer([say("hello")]) as server:
        CLIENTS[0].ask(server.url)
        with pytest.raises(AssertionError, match="POST /v1/chat/completions"):
            server.wait_for(lambda requests: len(requests) > 1, timeout=0.01)


def test_many_clients_at_once_each_get_their_own_conversation() -> None:
    scripts = {f"agent{number}": [say(f"I am {number}")] for number in range(40)}
    everybody = threading.Barrier(40)

    def ask(number: int) -> str:
        everybody.wait(30)
        return CLIENTS[number % 4].ask(server.url_of(f"agent{number}")).text

    with ModelServer(scripts) as server, ThreadPoolExecutor(40) as pool:
        assert list(pool.map(ask, range(40))) == [f"I am {number}" for number in range(40)]
        assert len(server.requests) == 40


def test_one_connection_serves_one_request_after_the_other() -> None:
    with ModelServer() as server, connect() as client:
        client.base_url = httpx.URL(server.url)
        assert client.head("/").status_code == 200
        assert client.get("/v1/models").json()["data"][0]["id"] == "fake-1"
        assert client.post("/v1/messages/count_tokens", json={}).json()["input_tokens"] == 100
        assert client.post("/v1/messages/count_tokens", content=iter([b"{", b"}"])).status_code == 200
        assert client.get("/nothing").status_code == 404
        assert server.connections == 1


def test_a_server_that_refuses_refuses() -> None:
    with refusing() as url, connect() as http, pytest.raises(httpx.ConnectError):
        http.get(url)


# --- the client's own tools ------------------------------------------------------------------------------------


def schema(*required: str, **properties: str) -> dict[str, object]:
    return {"properties": {name: {"type": kind} for name, kind in properties.items()}, "required": list(required)}


FILE = WriteFile("a/b.txt", "two words\n")
SHELL = RunShell("ls -l")


@pytest.mark.parametrize(
    ("part", "tool", "args"),
    [
        (FILE, Tool("Write", schema(file_path="string", content="string")), {"file_path": "/w/a/b.txt"}),
        (WriteFile("b.txt", ""), Tool("create", schema(path="string", file_text="string")), {"path": "/w/b.txt"}),
        (FILE, Tool("write", schema(filePath="string", content="string")), {"filePath": "/w/a/b.txt"}),
        (FILE, Tool("exec_command", schema(cmd="string")), {"cmd": "mkdir -p a && printf %s 'two words\n' > a/b.txt"}),
        (SHELL, Tool("shell", schema(command="array")), {"command": ["bash", "-lc", "ls -l"]}),
        (
            SHELL,
            Tool(
                "bash", schema("command", "description", "wait", command="string", description="string", wait="integer")
            ),
            {"command": "ls -l", "description": "scripted", "wait": 1},
        ),
    ],
    ids=["claude", "copilot", "opencode", "codex", "a list", "more arguments than we care for"],
)
def test_a_file_or_a_command_becomes_a_call_of_the_clients_own_tool(
    part: WriteFile | RunShell, tool: Tool, args: dict[str, object]
) -> None:
    asked = Asked("m", system="<env>\n  Working directory: /w\n</env>", tools=(Tool("grep"), tool))
    made = concrete(part, asked)
    assert made.tool == tool.name
    assert {name: made.args[name] for name in args} == args


def test_a_tool_that_makes_no_folders_writes_no_files_in_them() -> None:
    asked = Asked("m", tools=(Tool("create", schema(path="string")), Tool("bash", schema(command="string"))))
    assert concrete(FILE, asked) == Call("bash", {"command": "mkdir -p a && printf %s 'two words\n' > a/b.txt"})


def test_a_client_without_such_a_tool_fails_the_test() -> None:
    with pytest.raises(LookupError, match="grep"):
        concrete(SHELL, Asked("m", tools=(Tool("grep"),)))


@pytest.mark.parametrize(
    "offered",
    [
        Tool("mcp__ours__make"),
        Tool("mcp_ours_make"),
        Tool("ours-make"),
        Tool("ours_make"),
        Tool("make", namespace="mcp__ours"),
        Tool("make", namespace="mcp__ours_tools"),
    ],
    ids=lambda tool: tool.full_name,
)
def test_a_tool_of_a_server_is_called_by_whatever_name_the_client_gives_it(offered: Tool) -> None:
    others = (Tool("make"), Tool("theirs_make"), Tool("ours_remake"), Tool("not_ours_make"))
    asked = Asked("m", tools=(*others, offered))
    made = concrete(UseTool("ours", "make", {"a": 1}), asked)
    assert made == Call(offered.name, {"a": 1}, namespace=offered.namespace)
    assert served_by("ours", asked) == ["remake", "make"]


def test_tools_in_a_namespace_are_read_and_called_over_the_wire_that_has_them() -> None:
    client = next(client for client in CLIENTS if client.name == "responses")
    tools = [{"type": "namespace", "name": "mcp__ours", "tools": [{"type": "function", "name": "make"}]}]
    body = client.question("hello", 0, False, False) | {"tools": tools}
    with ModelServer([use_tool("make", {"a": 1}, server="ours")]) as server, connect() as http:
        (item,) = http.post(server.url + client.path, json=body).json()["output"]
    assert (item["namespace"], item["name"], item["arguments"]) == ("mcp__ours", "make", '{"a":1}')


def test_any_tool_may_be_called_by_its_own_name() -> None:
    with ModelServer([[call("grep", {"pattern": "x"}), call("ls")]]) as server:
        assert CLIENTS[0].ask(server.url).calls == [("grep", {"pattern": "x"}), ("ls", {})]
    assert Call("ls").args == {}


def test_tokens_joined_are_the_text() -> None:
    for text in ("", " ", "a", "a b", " a  b\n", "\n\na\tb \n"):
        assert "".join(tokens(text)) == text


def test_a_fault_that_lasts_outlives_what_clients_remember_of_it() -> None:
    with ModelServer([say("one"), fail(500, times=FOREVER)]) as server:
        for rounds in (1, 1, 2, 5):
            with pytest.raises(httpx.HTTPStatusError):
                CLIENTS[0].ask(server.url, rounds=rounds)
