"""What a turn looks like on a terminal and in a pipe, and what may be typed when a tool needs an approval."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pilothouse.client.decisions import Decision
from pilothouse.client.events import (
    ApprovalRequired,
    ChatEvent,
    Done,
    Notice,
    SubagentStarted,
    Text,
    ToolBackgrounded,
    ToolCalled,
    ToolEnded,
    ToolRunning,
)
from pilothouse.client.failures import Unreachable
from pilothouse.core.chat.calls import CallStatus
from pilothouse.interfaces.cli import chatting, chatting_asking
from pilothouse.interfaces.cli.chatting import TurnWatch
from pilothouse.interfaces.cli.chatting_asking import choices, elsewhere, question, read_answer
from pilothouse.interfaces.cli.chatting_screen import ChatScreen, brief

ASKED = ApprovalRequired(
    tool_call_id="c1",
    tool_name="run_shell",
    approval_id="turn.c1",
    question="May run_shell be used?",
    arguments={"command": "rm -rf build\x1b]0;owned\x07"},
    options=("approve", "approve-chat", "approve-always", "refuse", "background"),
)
TURN: list[ChatEvent] = [
    Text(text="I look. "),
    ToolCalled(tool_call_id="c1", tool_name="run_shell", arguments={"command": "ls -la"}),
    ToolRunning(tool_call_id="c1", tool_name="run_shell"),
    ToolEnded(tool_call_id="c1", tool_name="run_shell", ok=True, result="a"),
    Text(text="And again. "),
    ToolCalled(tool_call_id="c2", tool_name="edit", arguments={"a": 1, "b": "two"}),
    ToolBackgrounded(tool_call_id="c2", tool_name="edit"),
    SubagentStarted(parent_tool_call_id="c2", agent="helper"),
    Text(text="of the helper", parent_tool_call_id="c2", subagent="helper"),
    ToolEnded(tool_call_id="c2", tool_name="edit", ok=False, status=CallStatus.ERROR, error="no\x1b[2Jsuch file"),
    Text(text="Done."),
]


def play(screen: ChatScreen) -> None:
    for event in TURN:
        screen.show(event)
    screen.end()


def test_into_a_pipe_goes_the_answer_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    play(ChatScreen())
    said = capsys.readouterr()
    assert said.out == "I look. And again. Done.\n"
    lines = said.err.splitlines()
    assert len(lines) == 3
    assert "run_shell  ls -la" in lines[0]
    assert lines[1] == "edit goes on in the background"
    assert lines[2].endswith("a=1 b=two  nosuch file")


def test_without_answers_only_what_happens_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    play(ChatScreen(answers=False))
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 3


def test_on_a_terminal_lines_are_whole_and_nothing_is_obeyed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    screen = ChatScreen()
    screen.show(Text(text="red \x1b[31"))
    screen.show(Text(text="mtext \x1b]0;title\x07"))
    play(screen)
    said = capsys.readouterr()
    assert said.out == "red text I look. \nAnd again. \nDone.\n"
    assert "\x1b[2J" not in said.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, ""),
        ({"command": "ls\n-la"}, "ls -la"),
        ({"n": 3}, "3"),
        ({"a": [1], "b": "x"}, "a=[1] b=x"),
        ({"text": "y" * 100}, "y" * 57 + "..."),
    ],
)
def test_arguments_are_one_short_line(arguments: dict[str, Any], told: str) -> None:
    assert brief(arguments) == told


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("a\n", "approve"),
        ("A", "approve"),
        ("c", "approve-chat"),
        ("l", "approve-always"),
        ("r", "refuse"),
        ("b", "background"),
        ("refuse", "refuse"),
        ("ref", "refuse"),
        ("y", "approve"),
        ("Yes", "approve"),
        ("n", "refuse"),
        ("no", "refuse"),
        ("approve-always", "approve-always"),
    ],
)
def test_an_answer_may_be_typed_short_or_whole(typed: str, answer: str) -> None:
    assert read_answer(ASKED, typed) == Decision(answer)


@pytest.mark.parametrize("typed", ["", "\n", "z", "yes please"])
def test_what_is_no_answer_is_none(typed: str) -> None:
    assert read_answer(ASKED, typed) is None


def test_arguments_can_be_edited(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for typed, decided in (
        ('{"command": "ls"}', Decision("approve", {"command": "ls"})),
        ("[1]", None),
        ("{", None),
    ):
        monkeypatch.setattr(chatting_asking, "_line_to_edit", lambda _, typed=typed: typed)
        assert read_answer(ASKED, "e") == decided
    assert "no JSON" in capsys.readouterr().err


def test_an_agents_own_answers_are_numbered() -> None:
    asked = ApprovalRequired(tool_call_id="c", approval_id="w", options=("allow_once", "deny"))
    assert choices(asked) == {"1": "allow_once", "2": "deny"}
    assert read_answer(asked, "2") == Decision("deny")


def test_the_question_shows_what_would_be_done_and_obeys_none_of_it() -> None:
    text = question(ASKED)
    assert "command: rm -rf build" in text
    assert "\x1b" not in text
    assert text.endswith("[e]dit? ")


def test_a_workflow_is_shown_with_everything_that_it_would_run() -> None:
    blocks = [
        {"id": "a", "type": "shell", "config": {"command": "make\nall\x1b[2J"}, "prechecks": "curl x | sh"},
        {"id": "b", "type": "process", "config": {"executable": "go", "args": ["test", "a b"]}},
        {
            "id": "c",
            "type": "agent",
            "task": "Review it",
            "config": {"agent": "claude"},
            "postchecks": {"type": "shell"},
        },
        {"id": "d", "type": "join"},
    ]
    found = {"version": 3, "workflow": {"name": "build", "blocks": blocks}}
    lines = question(ASKED, found).splitlines()
    assert lines[2:-1] == [
        "  build, version 3:",
        "    a (shell): make all",
        "      prechecks: curl x | sh",
        "    b (process): go test 'a b'",
        "    c (agent): Review it",
        '      postchecks: {"type": "shell"}',
        "    d (join)",
    ]


def test_who_cannot_be_asked_is_told_the_command() -> None:
    assert elsewhere(ASKED).startswith("May run_shell be used? `pilothouse approvals answer turn.c1 approve`")


def test_why_nothing_comes_and_when_it_is_asked_again_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = ChatScreen()
    screen.show(Notice(kind="backend_retry", data={"error": "overloaded\x1b[2J", "tries": 1, "waitMs": 2000}))
    screen.show(Notice(kind="backend_retry"))
    screen.show(Notice(kind="of a newer server"))
    first, second = capsys.readouterr().err.splitlines()
    assert first == "asked again in 2.0s: overloaded"
    assert second == "asked again in a moment: it did not answer"


def test_a_line_that_nobody_heard_is_told_and_the_answer_goes_on_to_be_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["and more"]
    told = threading.Event()

    class Lost(Iterator[ChatEvent]):
        """A turn that goes on, of a server that cannot be told anything."""

        def __init__(self) -> None:
            self._events = iter([Text(text="All "), Text(text="of it."), Done()])

        def __next__(self) -> ChatEvent:
            assert told.wait(10)
            return next(self._events)

        def steer(self, content: str) -> None:
            told.set()
            raise Unreachable(f"nobody heard {content!r}")

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(chatting, "typed_line", lambda: typed.pop() if typed else None)
    turn: Any = Lost()
    outcome = TurnWatch(turn, ChatScreen(), talks=True).follow()
    said = capsys.readouterr()
    assert isinstance(outcome.end, Done)
    assert said.out == "All of it.\n"
    assert "nobody heard 'and more'" in said.err
