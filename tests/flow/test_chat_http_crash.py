"""A client of a conversation comes back after ``kill -9`` of the real server, in the middle of the text, of a tool, of
an approval: no gap, no repetition, and nothing is done twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.flow.test_serve_http import Server
from tests.support.flow import Repo, make_repo
from tests.support.terminal import Desk, desk, until

from pilothouse.client.sse import Decoder

CHAT, STREAM = "/api/copilot/chat", "/api/copilot/chat/stream"
SCRIPT = """
rules:
  - when: {contains: tell}
    steps: [{say: "Once upon"}, {wait: 3600000}, {say: " a time."}]
  - when: {contains: run}
    steps:
      - {say: "Running. "}
      - call: {tool: run_shell, arguments: {command: "echo ran >> LEDGER; until [ -f GATE ]; do sleep 0.02; done"}}
      - {say: "It ran."}
  - when: {contains: write}
    steps:
      - {say: "May I? "}
      - {call: {tool: write_file, arguments: {path: hello.txt, content: hello}}}
      - {say: "Written."}
otherwise: [{say: "Hello."}]
"""

Shown = dict[str, Any]


class Reader:
    """An open stream; ``shown`` is everything it has said."""

    def __init__(self, response: httpx.Response) -> None:
        self._decoder, self._chunks = Decoder(), response.iter_raw()
        self.shown: list[Shown] = []

    def until(self, kind: str) -> None:
        while kind not in {each["type"] for each in self.shown}:
            self._feed(next(self._chunks))

    def to_the_end(self) -> None:
        for chunk in self._chunks:
            self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        for message in self._decoder.feed(chunk):
            each = json.loads(message.data)
            assert message.id == str(each["eventId"])
            self.shown.append(each)


@contextmanager
def reading(client: httpx.Client, method: str, path: str, body: Any = None, **headers: str) -> Iterator[Reader]:
    with client.stream(method, path, json=body, headers=headers) as response:
        assert response.status_code == 200, response.read().decode()
        yield Reader(response)


class Crash:
    """A server that was killed while a turn was shown, and its successor."""

    def __init__(self, at: Desk, repo: Repo) -> None:
        self.at = at
        self.ledger, self.gate = at.path / "ledger", at.path / "gate"
        Path(at.env["PILOTHOUSE_SCRIPT"]).write_text(
            SCRIPT.replace("LEDGER", str(self.ledger)).replace("GATE", str(self.gate))
        )
        at.run("repo", "add", repo.path)
        self.key = at.ask("keys", "create", "--name", "test", "--user", "ann", "--scope", "admin")["key"]
        self.repo = repo
        self.server = self._serve()

    def _serve(self) -> Server:
        return Server(self.at.start("serve", "--port", "0", "--no-open"))

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with self.server.stranger() as client:
            client.headers["x-api-key"] = self.key
            yield client

    def while_shown(self, message: str, kind: str, logged: str, met: Callable[[], bool] = lambda: True) -> list[Shown]:
        """Say something and kill the server once the stream has shown such an event, another is in the log, and ``met``
        is so. Answers what was seen; another server serves then."""
        with self.client() as client, reading(client, "POST", CHAT, self._body(message)) as reader:
            reader.until(kind)
            log = f"/api/runs/{reader.shown[0]['streamId']}/events"
            until(lambda: logged in client.get(log).text)
            until(met)
            self.server.command.signal(signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                reader.to_the_end()
        self.server.command.wait()
        self.server = self._serve()
        return reader.shown

    def _body(self, message: str) -> dict[str, Any]:
        return {"message": message, "workspace": str(self.repo.path)}

    def rest(self, client: httpx.Client, seen: list[Shown], meanwhile: Callable[[Reader], None]) -> list[Shown]:
        """Come back, do something meanwhile, and read to the end: altogether it is what the log says."""
        path = f"{STREAM}?streamId={seen[0]['streamId']}"
        with reading(client, "GET", path, **{"last-event-id": str(seen[-1]["eventId"])}) as reader:
            meanwhile(reader)
            reader.to_the_end()
        whole = seen + reader.shown
        with reading(client, "GET", path) as again:
            again.to_the_end()
        assert whole == again.shown[: len(whole)]
        assert {each["type"] for each in again.shown[len(whole) :]} <= {"title_updated"}  # which was made meanwhile
        numbers = [each["eventId"] for each in whole]
        assert numbers == sorted(set(numbers))
        return whole


def end_of(whole: list[Shown]) -> Shown:
    """The one end of the turn's leg; only a title may come later."""
    [end] = [each for each in whole if each["type"] in {"done", "error"}]
    assert {each["type"] for each in whole if each["eventId"] > end["eventId"]} <= {"title_updated"}
    return end


@pytest.fixture
def crash(tmp_path: Path) -> Iterator[Crash]:
    script = str(tmp_path / "replies.yaml")
    Path(script).write_text(SCRIPT)
    with desk(tmp_path, PILOTHOUSE_BACKEND="script", PILOTHOUSE_SCRIPT=script) as at:
        yield Crash(at, make_repo(tmp_path / "repo"))


def nothing(_: Reader) -> None:
    """Only read."""


def test_in_the_middle_of_the_text_the_turn_ends_with_the_truth_and_what_was_said(crash: Crash) -> None:
    seen = crash.while_shown("tell me a tale", "content", "TEXT_DELTA")
    with crash.client() as client:
        whole = crash.rest(client, seen, nothing)
        end = end_of(whole)
        assert (end["type"], end["data"]["code"], end["data"]["recoverable"]) == ("error", "interrupted", True)
        chat = client.get(CHAT, params={"chatId": seen[0]["chatId"]}).json()["chat"]
        assert [message["content"] for message in chat["messages"]] == ["tell me a tale", "Once upon"]
        assert chat["activeStreamId"] is None
        again = client.post(CHAT, json={"message": "hi", "chatId": chat["id"], "stream": False}).json()
        assert (again["success"], again["content"]) == (True, "Hello.")


def test_in_the_middle_of_a_tool_the_tool_is_not_run_again_and_the_turn_goes_on(crash: Crash) -> None:
    with crash.client() as client:
        allow = client.post("/api/copilot/auto-allowed-tools", json={"tool": "run_shell"})
        assert allow.status_code == 200, allow.text
    seen = crash.while_shown("run it", "tool_executing", "BACKEND_ENDED", crash.ledger.exists)
    with crash.client() as client:
        crash.gate.touch()
        whole = crash.rest(client, seen, nothing)
        assert end_of(whole)["type"] == "done"
        [end] = [each for each in whole if each["type"] in {"tool_result", "tool_error"}]
        assert (end["toolName"], end["data"].get("reason")) == ("run_shell", "lost")
        assert "not run again" in end["error"]
    assert crash.ledger.read_text() == "ran\n"


def test_in_the_middle_of_an_approval_it_still_waits_and_is_done_once_when_it_is_allowed(crash: Crash) -> None:
    written = crash.repo.path / "hello.txt"
    seen = crash.while_shown("write it", "approval_required", "BACKEND_ENDED")
    [question] = [each for each in seen if each["type"] == "approval_required"]  # a title may have come after it
    assert not written.exists()
    with crash.client() as client:

        def allow(_: Reader) -> None:
            body = {"toolCallId": question["toolCallId"], "status": "accepted", "streamId": seen[0]["streamId"]}
            first = client.post("/api/copilot/confirm", json=body)
            assert first.status_code == 200, first.text
            assert client.post("/api/copilot/confirm", json=body).status_code == 409

        whole = crash.rest(client, seen, allow)
        assert end_of(whole)["type"] == "done"
        assert [each["type"] for each in whole].count("tool_executing") == 1
        assert "".join(each["data"] for each in whole if each["type"] == "content") == "May I? Written."
    assert written.read_text() == "hello"
