"""``pilothouse chat`` as people use it: text as it comes, tools, approvals, Ctrl-C, and a server that is killed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.terminal import PILOTHOUSE, Desk, Screen, desk, until

from pilothouse.client.clients import Client
from pilothouse.client.events import ApprovalRequired, Done, Failed, Text
from pilothouse.client.failures import Unreachable

REPLIES = """
rules:
  - when: {contains: list}
    steps:
      - say: "I look. "
      - call: {tool: list_workflows}
      - say: "There are none."
  - when: {contains: for ever}
    steps:
      - say: "Once upon a time. "
      - wait: 3600000
  - when: {contains: fail}
    steps:
      - say: "Half an ans"
      - fail: {message: "the model is gone", code: model_gone}
  - when: {contains: count}
    steps:
      - say: {text: "one two three four five six seven eight nine ten", every: 20}
otherwise:
  - say: "Hello there."
"""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One for all: a server takes longer to start than most of them."""
    path = tmp_path_factory.mktemp("desk")
    (path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    with desk(path, PILOTHOUSE_BACKEND="script", PILOTHOUSE_SCRIPT=str(path / "replies.yaml")) as made:
        yield made


@pytest.fixture
def client(at: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A program beside the terminals; a server that it starts is the desk's."""
    for name in ("PILOTHOUSE_BACKEND", "PILOTHOUSE_SCRIPT", "PILOTHOUSE_ORPHAN_GRACE", "PYTHONPATH"):
        monkeypatch.setenv(name, at.env[name])
    with Client(data_dir=at.data_dir) as made:
        yield made


def asking(client: Client) -> str:
    """A conversation in which listing workflows needs an approval."""
    chat_id = client.chat("hello").chat_id
    client.chats.update(chat_id, permits={"list_workflows": "ask"})
    return chat_id


def shell(at: Desk, line: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join(PILOTHOUSE)} {line}"
    return subprocess.run(["sh", "-c", command], env=at.env, cwd=at.path, text=True, capture_output=True, timeout=60)


def kill_owner(at: Desk) -> None:
    pid = at.only_owner()
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in at.owner_pids())


def test_the_answer_is_on_stdout_and_what_happens_beside_it_on_stderr(at: Desk) -> None:
    said = at.run("chat", "list", "the", "workflows")
    assert (said.code, said.out) == (0, "I look. There are none.\n")
    assert "list_workflows" in said.err
    assert len(said.err.splitlines()) == 1


def test_a_conversation_goes_on_and_stdin_is_a_message(at: Desk) -> None:
    assert at.run("chat", stdin=b"hello\n").out == "Hello there.\n"
    assert at.run("chat", "--chat", "last", "list").code == 0
    assert at.run("chat", "explain", "-", stdin=b"count to ten\n").out.startswith("one two three")
    unknown = at.run("chat", "--chat", "nosuch", "x")
    assert (unknown.code, unknown.err) == (
        2,
        "error: no conversation begins with 'nosuch'; see `pilothouse chats`\n",
    )


def test_conversations_are_found_again_read_and_deleted(at: Desk) -> None:
    assert at.run("chat", "hello to be read").code == 0
    [newest, *_] = at.ask("chats")["chats"]
    head, first, *_ = at.run("chats", "list").out.splitlines()
    assert head.split() == ["ID", "USED", "LIVE", "TITLE"]
    assert first.startswith(newest["id"][:13]) and first.endswith("hello to be read")
    text = at.run("chats", "show", "last").out
    assert "hello to be read" in text and text.endswith("Hello there.\n")
    assert at.ask("chats", "show", newest["id"][:13])["chat"]["id"] == newest["id"]
    assert at.run("chats", "delete", newest["id"][:13]).out == f"deleted: {newest['id']}\n"
    assert at.run("chats", "show", newest["id"]).code == 2
    assert "too short" in at.run("chats", "show", "01").err


def test_at_a_terminal_an_answer_says_how_to_go_on_from_there(at: Desk) -> None:
    said = at.sit_down("chat", "hello").wait()
    chat_id = at.ask("chats")["chats"][0]["id"]
    assert f"`pilothouse chat --chat {chat_id[:13]} MESSAGE` goes on from here" in said.out
    assert "goes on from here" not in at.sit_down("chat", "--chat", "last", "hello").wait().out


def test_json_is_the_one_value_of_the_headless_api(at: Desk) -> None:
    said = at.run("chat", "--json", "list the workflows")
    assert said.code == 0
    assert said.json["success"] is True
    assert said.json["content"] == "I look. There are none."
    assert [(call["name"], call["status"]) for call in said.json["toolCalls"]] == [("list_workflows", "success")]


def test_what_fails_says_why_and_keeps_what_came_before(at: Desk) -> None:
    said = at.run("chat", "fail, please")
    assert (said.code, said.out) == (1, "Half an ans\n")
    error, way_on = said.err.splitlines()
    assert error == "error: the model is gone"
    assert way_on.startswith("`pilothouse runs retry ") and way_on.endswith(" --follow` tries it again")
    told = at.run("chat", "--json", "fail, please")
    assert (told.code, told.json["success"], told.json["content"]) == (1, False, "Half an ans")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is of Linux")
def test_output_that_finds_no_room_is_told_in_words(at: Desk) -> None:
    found = shell(at, "chat hello >/dev/full")
    assert (found.returncode, found.stderr) == (
        1,
        "error: what is to be printed or kept finds no room: No space left on device\n",
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_one_that_nobody_is_at(at: Desk, closed: str) -> None:
    found = shell(at, f"chat hello {closed}")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout in ("Hello there.\n", "")


def test_what_is_refused_says_what_to_do_before_anything_happens(at: Desk) -> None:
    said = at.run("chat", "--command", "dance", "hello")
    assert said.code == 2
    assert "dance" in said.err and "agent" in said.err
    assert at.run("chat", stdin=b"  \n").code == 2


def test_ctrl_c_ends_the_turn_and_what_was_said_is_kept(at: Desk, client: Client) -> None:
    command = at.start("chat", "tell me for ever")
    command.says("Once upon a time.")
    command.press_ctrl_c()
    said = command.wait()
    assert said.code == 130
    assert "stopping" in said.err
    chat = client.chats.list()[0]
    assert chat.active_stream_id is None
    answer = client.chats.messages(chat.id)[-1]
    assert (answer.content, answer.status) == ("Once upon a time. ", "stopped")


def test_a_second_ctrl_c_leaves_at_once_and_says_how_to_come_back(at: Desk, client: Client) -> None:
    command = at.start("chat", "tell me for ever")
    command.says("Once upon a time.")
    turn_id = client.runs.list(kind="turn", limit=1)[0]["id"]
    owner = at.only_owner()
    os.kill(owner, signal.SIGSTOP)  # so that the stop takes as long as the test likes
    try:
        command.press_ctrl_c()
        command.says("Ctrl-C again leaves")
        command.press_ctrl_c()
        said = command.wait()
    finally:
        os.kill(owner, signal.SIGCONT)
    assert said.code == 130
    assert f"pilothouse runs stop {turn_id[:13]}" in said.err
    client.chats.abort(turn_id)


def test_an_approval_is_answered_at_the_terminal(at: Desk, client: Client) -> None:
    chat_id = asking(client)
    screen = at.sit_down("chat", "--chat", chat_id, "list the workflows")
    screen.shows("[a]pprove")
    screen.types("what?")
    until(lambda: screen.has_shown("[a]pprove", 2))
    screen.types("a")
    said = screen.wait()
    assert said.code == 0
    assert "There are none." in said.out
    assert client.approvals.list() == []


def test_a_refusal_and_edited_arguments_are_told_to_the_tool(at: Desk, client: Client) -> None:
    chat_id = asking(client)
    screen = at.sit_down("chat", "--chat", chat_id, "list the workflows")
    screen.shows("[r]efuse")
    screen.types("r")
    assert screen.wait().code == 0
    call = client.runs.list(kind="turn")[0]["id"]
    [ended] = [event for event in client.events(call) if event["type"] == "TOOL_ENDED"]
    assert (ended["status"], ended["reason"]) == ("rejected", "user_rejected")

    screen = at.sit_down("chat", "--chat", chat_id, "list the workflows")
    screen.shows("[e]dit")
    screen.types("e")
    screen.shows("arguments:")
    screen.types("")
    assert screen.wait().code == 0
    assert client.chats.messages(chat_id)[-1].content.endswith("There are none.")


def test_ctrl_c_leaves_the_arguments_as_they_are_and_the_question_comes_again(at: Desk, client: Client) -> None:
    screen = at.sit_down("chat", "--chat", asking(client), "list the workflows")
    screen.shows("[e]dit? ")
    screen.types("e")
    screen.shows("arguments:")
    screen.press_ctrl_c()
    screen.shows("nothing was changed")
    until(lambda: screen.has_shown("[e]dit? ", 2))
    screen.types("r")
    said = screen.wait()
    assert (said.code, "none of the answers" in said.out) == (0, False)


def test_without_a_terminal_it_says_how_to_answer_and_waits(at: Desk, client: Client) -> None:
    chat_id = asking(client)
    command = at.start("chat", "--chat", chat_id, "list the workflows")
    command.says("pilothouse approvals answer")
    [asked] = client.approvals.list()
    assert asked.id in command.err
    assert at.run("approvals", "answer", asked.id, "approve").code == 0
    said = command.wait()
    assert (said.code, said.out) == (0, "I look. There are none.\n")


def test_what_is_answered_elsewhere_is_asked_no_more(at: Desk, client: Client) -> None:
    chat_id = asking(client)
    screen = at.sit_down("chat", "--chat", chat_id, "list the workflows")
    screen.shows("[a]pprove")
    [asked] = client.approvals.list()
    client.approvals.answer(asked.id, "approve")
    said = screen.wait()
    assert said.code == 0
    assert "answered elsewhere" in said.out
    assert "There are none." in said.out


def test_a_server_that_is_killed_in_the_middle_costs_no_word_and_shows_none_twice(at: Desk) -> None:
    command = at.start("chat", "tell me for ever")
    command.says("Once upon a time.")
    kill_owner(at)
    said = command.wait()
    assert said.code == 1
    assert said.out == "Once upon a time. \n"
    assert "restarted" in said.err


def test_an_approval_outlives_a_server_that_is_killed(at: Desk, client: Client) -> None:
    chat_id = asking(client)
    command = at.start("chat", "--chat", chat_id, "list the workflows")
    command.says("pilothouse approvals answer")
    kill_owner(at)
    [asked] = client.approvals.list()
    client.approvals.answer(asked.id, "approve")
    said = command.wait()
    assert (said.code, said.out) == (0, "I look. There are none.\n")


def test_a_program_follows_a_turn_over_a_kill_with_no_gap_and_no_duplicate(at: Desk, client: Client) -> None:
    chat_id = asking(client)
    with client.stream("list the workflows", chat_id=chat_id) as turn:
        seen = []
        for event in turn:
            seen.append(event)
            if isinstance(event, ApprovalRequired):
                kill_owner(at)
                try:
                    assert turn.decide(event, "approve")
                except Unreachable:  # the connection was only just dying, and nobody can say who heard it
                    assert turn.decide(event, "approve")
    assert isinstance(seen[-1], Done)
    assert [event.seq for event in seen] == sorted({event.seq for event in seen})
    assert "".join(event.text for event in seen if isinstance(event, Text)) == "I look. There are none."
    with client.follow(turn.id) as again:
        assert list(again) == seen


def test_a_program_that_asks_while_the_server_is_killed_is_told_the_truth(at: Desk, client: Client) -> None:
    with client.stream("tell me for ever") as turn:
        seen = [next(turn), next(turn), next(turn)]
        kill_owner(at)
        seen += turn
        assert isinstance(seen[-1], Failed)
        assert (seen[-1].code, seen[-1].recoverable) == ("interrupted", True)
        result = turn.result()
    assert (result.success, result.content, result.code) == (False, "Once upon a time. ", "interrupted")


def test_a_conversation_at_the_terminal(at: Desk, client: Client) -> None:
    before = len(client.chats.list())
    screen = at.sit_down("chat")
    screen.shows("> ")
    screen.types("hello")
    screen.shows("Hello there.")
    screen.types("/model")
    screen.shows("* script")
    screen.types("tell me for ever")
    screen.shows("Once upon a time.")
    screen.types("/stop")
    shows_prompts(screen, 4)
    screen.types("/new")
    screen.types("hello again")
    until(lambda: len(client.chats.list()) == before + 2)
    shows_prompts(screen, 6)
    screen.press_ctrl_d()
    assert screen.wait().code == 0
    assert "tell me for ever" in (at.data_dir / "chat-history").read_text()


def shows_prompts(screen: Screen, number: int) -> None:
    until(lambda: screen.has_shown("> ", number))
