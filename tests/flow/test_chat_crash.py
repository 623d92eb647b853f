"""kill -9 of the server in the middle of a conversation: who reads on misses nothing and reads nothing twice, and
nothing runs twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.flow.test_serve_http import Server, Stream, is_a, streaming
from tests.support.terminal import Desk, desk

CHAT = "/api/copilot/chat"
LEG_ENDS = ("done", "error")
SCRIPT = """\
rules:
  - when: { contains: talk }
    steps:
      - say: { text: "WORDS", every: 20 }
  - when: { contains: run }
    steps:
      - say: "I will run it. "
      - call: { tool: run_workflow, id: c1, arguments: { workflowId: nope } }
      - say: "It says {{errors.run_workflow}}"
"""


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.replace("WORDS", " ".join(f"word{n}" for n in range(500))), encoding="utf-8")
    with desk(tmp_path, PILOTHOUSE_BACKEND="script", PILOTHOUSE_SCRIPT=str(script)) as made:
        yield made


def serve(at: Desk) -> Server:
    server = Server(at.start("serve", "--port", "0", "--no-open"))
    if not (key := at.path / "key").exists():
        key.write_text(at.ask("keys", "create", "--name", "test", "--scope", "approve")["key"])
    return server


@contextmanager
def asking(at: Desk, server: Server) -> Iterator[httpx.Client]:
    """Somebody with a key, which outlives servers."""
    with server.stranger() as client:
        client.headers["x-api-key"] = (at.path / "key").read_text()
        yield client


def kill(at: Desk, server: Server) -> None:
    server.command.signal(signal.SIGKILL)
    server.command.wait()


def ids(stream: Stream) -> list[int]:
    return [event["eventId"] for event in stream.events]


def content(events: list[dict[str, Any]]) -> str:
    return "".join(event["data"] for event in events if event["type"] == "content")


def began(at: Desk, server: Server, message: str, until: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Turn, chat, and what was read of the stream by the time that such an event came."""
    with asking(at, server) as client, client.stream("POST", CHAT, json={"message": message}) as response:
        stream = Stream(response)
        stream.until(is_a(until))
        events = stream.events
    return events[0]["streamId"], events[0]["chatId"], events


def went_on(
    at: Desk, server: Server, turn_id: str, after: int, until: Sequence[str] = LEG_ENDS
) -> list[dict[str, Any]]:
    with asking(at, server) as client, streaming(client, f"{CHAT}/stream?streamId={turn_id}&after={after}") as stream:
        stream.until(lambda event: event["type"] in until)
        return stream.events


def log_of(at: Desk, server: Server, turn_id: str) -> list[str]:
    with asking(at, server) as client:
        events = client.get(f"/api/runs/{turn_id}/events").json()["events"]
    return [event["type"] for event in events]


def test_half_an_answer_is_kept_and_read_on_without_gap_or_repetition(at: Desk) -> None:
    server = serve(at)
    turn_id, chat_id, before = began(at, server, "talk to me", "content")
    kill(at, server)
    server = serve(at)
    after = went_on(at, server, turn_id, before[-1]["eventId"])
    numbers = [event["eventId"] for event in (*before, *after)]
    assert numbers == sorted(set(numbers))
    (end,) = [event for event in after if event["type"] in LEG_ENDS]
    assert (end["type"], end["data"]["code"]) == ("error", "interrupted")
    with asking(at, server) as client:
        _, answer = client.get(f"/api/copilot/chats/{chat_id}/messages").json()["messages"]
        assert answer["content"] == content([*before, *after])
        assert answer["content"].startswith("word0 ")
        again = client.post(f"/api/runs/{turn_id}/retry")
        assert again.status_code == 200, again.text
    retried = went_on(at, server, turn_id, after[-1]["eventId"], ("content",))
    assert retried[0]["type"] == "start", "another leg of the same turn"


def test_a_question_is_still_there_and_its_answer_runs_the_tool_once(at: Desk) -> None:
    server = serve(at)
    turn_id, chat_id, before = began(at, server, "run it", "approval_required")
    while "BACKEND_ENDED" not in log_of(at, server, turn_id):
        pass
    kill(at, server)
    server = serve(at)
    with asking(at, server) as client:
        busy = client.post(CHAT, json={"message": "meanwhile", "chatId": chat_id})
        assert (busy.status_code, json.loads(busy.text)["activeStreamId"]) == (409, turn_id)
        confirmed = client.post("/api/copilot/confirm", json={"toolCallId": "c1", "status": "accepted"})
        assert confirmed.status_code == 200, confirmed.text
    after = went_on(at, server, turn_id, before[-1]["eventId"])
    assert [event["type"] for event in after if event["type"] in LEG_ENDS] == ["done"]
    assert content(after).startswith("It says ")
    log = log_of(at, server, turn_id)
    assert (log.count("TOOL_STARTED"), log.count("RUN_RECOVERED")) == (1, 1)
