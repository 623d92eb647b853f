"""The AG-UI endpoint as the protocol's own client meets it: the public npm package, over TCP and with an API key."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.flow import PATIENCE_S
from tests.support.needs import need_agui_client
from tests.support.terminal import Desk, desk

from pilothouse.client.clients import Client
from pilothouse.errors import Denied

SCRIPT = Path(__file__).parents[1] / "support" / "agui_client.mjs"
REPLIES = """
rules:
  - when: {contains: list}
    steps:
      - think: "They want a list."
      - say: "I look. "
      - call: {tool: list_workflows}
      - say: {text: "There are none, as it seems.", every: 5}
      - use: {model: m, input: 10, output: 5, cached: 2}
  - when: {contains: twice}
    steps:
      - call: [{tool: list_workflows, id: one}, {tool: list_workflows, id: two}]
      - say: "Both are empty."
  - when: {contains: delegate}
    steps:
      - subagent: {agent: research, steps: [{think: "hm"}, {say: "found it"}], result: "it"}
      - say: "It was found."
  - when: {contains: fail}
    steps:
      - say: "Half an ans"
      - fail: {message: "the model is gone", code: model_gone}
  - when: {contains: colour}
    steps:
      - say: "I ask the page. "
      - call: {tool: pick_colour, arguments: {from: [red, blue]}}
      - say: "A good one."
otherwise:
  - say: "Hello there."
"""


class Server:
    """A server over TCP with the public client beside it."""

    def __init__(self, at: Desk, node: str, root: Path) -> None:
        self._command = [node, str(SCRIPT), str(root)]
        command = at.start("serve", "--port", "0")
        command.says("/login?token=")
        self.url = command.out.strip().partition("/login")[0]
        self.client = Client(data_dir=at.data_dir)
        made = at.ask("keys", "create", "--name", "agui", "--scope", "approve")
        self.key = str(made["key"])

    def talk(
        self,
        *messages: str,
        thread: str | None = None,
        answer: Any = None,
        key: str | None = None,
        tools: list[dict[str, Any]] | None = None,
    ) -> Any:
        """What the client got: its events, the messages it made of them, and what it complained of."""
        asked = {
            "url": f"{self.url}/api/agui",
            "headers": {"X-API-Key": key or self.key},
            "messages": messages,
            **({"threadId": thread} if thread else {}),
            **({"answer": answer} if answer is not None else {}),
            **({"tools": tools} if tools else {}),
        }
        done = subprocess.run(
            self._command, input=json.dumps(asked), capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    node, root = need_agui_client()
    path = tmp_path_factory.mktemp("desk")
    (path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    with desk(path, PILOTHOUSE_BACKEND="script", PILOTHOUSE_SCRIPT=str(path / "replies.yaml")) as at:
        made = Server(at, node, root)
        with made.client:
            yield made


def kinds(told: Any) -> list[str]:
    return [event["type"] for event in told["events"]]


def of(told: Any, kind: str) -> list[Any]:
    return [event for event in told["events"] if event["type"] == kind]


def said(told: Any) -> str:
    return "".join(event["delta"] for event in of(told, "TEXT_MESSAGE_CONTENT"))


def test_a_turn_with_a_tool_is_a_run_that_the_protocols_client_accepts(server: Server) -> None:
    told = server.talk("list the workflows")
    assert told["errors"] == []
    assert kinds(told)[0] == "RUN_STARTED"
    assert said(told) == "I look. There are none, as it seems."
    assert "".join(event["delta"] for event in of(told, "REASONING_MESSAGE_CONTENT")) == "They want a list."
    [result] = of(told, "TOOL_CALL_RESULT")
    assert json.loads(result["content"])["workflows"] == []
    end = told["events"][-1]
    assert (end["type"], end["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    assert end["usage"] == [
        {"model": "m", "inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cachedInputTokens": 2}
    ]
    assert [message["role"] for message in told["messages"]][-3:] == ["assistant", "tool", "assistant"]


def test_a_thread_is_one_conversation_whose_messages_can_be_had_again(server: Server) -> None:
    told = server.talk("hello", "hello again", thread="thread-1")
    assert told["errors"] == []
    assert len({event["threadId"] for event in of(told, "RUN_STARTED")}) == 1
    again = server.talk(thread="thread-1")
    [snapshot] = of(again, "MESSAGES_SNAPSHOT")
    assert [(message["role"], message["content"]) for message in snapshot["messages"]] == [
        ("user", "hello"),
        ("assistant", "Hello there."),
        ("user", "hello again"),
        ("assistant", "Hello there."),
    ]
    assert again["errors"] == []


def asking(server: Server, thread: str) -> None:
    """Let listing workflows need an approval in a thread."""
    server.talk("hello", thread=thread)
    chat = server.client.chats.list()[0]
    server.client.chats.update(chat.id, permits={"list_workflows": "ask"})


def test_an_approval_interrupts_the_run_and_the_next_one_brings_the_answer(server: Server) -> None:
    asking(server, "thread-2")
    told = server.talk("list the workflows", thread="thread-2", answer={"answer": "approve"})
    assert told["errors"] == []
    first, second = of(told, "RUN_FINISHED")
    assert first["outcome"]["type"] == "interrupt"
    [interrupt] = first["outcome"]["interrupts"]
    [call] = of(told, "TOOL_CALL_START")
    assert interrupt["toolCallId"] == call["toolCallId"]
    assert "refuse" in interrupt["responseSchema"]["properties"]["answer"]["enum"]
    assert second["outcome"] == {"type": "success"}
    assert said(told) == "I look. There are none, as it seems."
    assert len(of(told, "TOOL_CALL_RESULT")) == 1
    assert server.client.approvals.list() == []


def test_several_approvals_interrupt_once_and_a_refusal_is_no_error(server: Server) -> None:
    asking(server, "thread-3")
    told = server.talk("twice, please", thread="thread-3", answer=False)
    assert told["errors"] == []
    first, second = of(told, "RUN_FINISHED")
    assert len(first["outcome"]["interrupts"]) == 2
    assert second["outcome"] == {"type": "success"}
    assert said(told) == "Both are empty."
    assert {json.loads(event["content"])["status"] for event in of(told, "TOOL_CALL_RESULT")} == {"rejected"}


def test_a_subagent_is_told_apart_and_closed(server: Server) -> None:
    told = server.talk("delegate it")
    assert told["errors"] == []
    [begun] = of(told, "SUBAGENT_STARTED")
    assert begun["name"] == "research"
    within = [event for event in of(told, "TEXT_MESSAGE_CONTENT") if event.get("subagentRunId")]
    assert "".join(event["delta"] for event in within) == "found it"
    assert len(of(told, "SUBAGENT_FINISHED")) == 1


def test_a_tool_of_the_client_ends_the_run_and_its_result_comes_with_the_next(server: Server) -> None:
    tool = {"name": "pick_colour", "description": "Let the user pick", "parameters": {"type": "object"}}
    told = server.talk("which colour?", tools=[tool])
    assert told["errors"] == []
    first, second = of(told, "RUN_FINISHED")
    [call] = of(told, "TOOL_CALL_START")
    assert call["toolCallName"] == "pick_colour"
    assert first["outcome"] == {"type": "success", "pendingToolCallIds": [call["toolCallId"]]}
    assert second["outcome"] == {"type": "success"}
    assert of(told, "TOOL_CALL_RESULT") == []
    assert server.client.chats.list()[0].active_stream_id is None
    assert [message["role"] for message in told["messages"]][-2:] == ["tool", "assistant"], told["messages"]


def test_a_turn_that_fails_is_a_run_that_does_and_keeps_what_came(server: Server) -> None:
    told = server.talk("fail, please")
    end = told["events"][-1]
    assert (end["type"], end["message"], end["code"]) == ("RUN_ERROR", "the model is gone", "model_gone")
    assert said(told) == "Half an ans"
    assert "TEXT_MESSAGE_END" in kinds(told)


def test_a_program_beside_it_talks_over_tcp_with_the_same_key(server: Server) -> None:
    with Client(server.url, api_key=server.key) as client:
        result = client.chat("list the workflows")
        assert (result.success, result.content) == (True, "I look. There are none, as it seems.")
        with client.stream("hello", chat_id=result.chat_id) as turn:
            assert turn.result().content == "Hello there."
    with Client(server.url, api_key="nonsense") as stranger, pytest.raises(Denied) as caught:
        stranger.chats.list()
    assert caught.value.code == "invalid_key"


def test_a_stranger_is_kept_out(server: Server) -> None:
    told = server.talk("hello", key="ph_0000000000000000_" + "0" * 43)
    assert told["events"] == []
    assert told["errors"] != []
