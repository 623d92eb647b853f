"""What is made of lines of Codex: transcripts of real runs, and whatever else a process may print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.agents.replay import Told, canceled, cases_of, exited, fields_of, read, replay

from pilothouse.adapters.agents.codex.driver import Codex
from pilothouse.adapters.agents.codex.usage import Begun
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    Noted,
    Permissions,
    Reasoning,
    SessionStarted,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
)
from pilothouse.core.run.usage import Usage

CODEX = Codex()
CASES = cases_of("codex")
THREAD = "01a1fe7d-c2a6-7690-89aa-038c9ffc8d7a"
STARTED = b'{"type":"thread.started","thread_id":"t1"}'
COMPLETED = b'{"type":"turn.completed","usage":{"input_tokens":7,"output_tokens":3}}'


def item(type_: str, when: str = "completed", **fields: Any) -> bytes:
    return json.dumps({"type": f"item.{when}", "item": {"id": "item_1", "type": type_, **fields}}).encode()


def told(*lines: bytes, **work: Any) -> Told:
    return read(CODEX, lines, exited(), **work)


def test_a_run_is_told_from_its_thread_to_its_end() -> None:
    run = replay(CODEX, "success", model="fake-1")

    assert run.finished
    assert run.ended.ok
    assert not run.ended.error
    assert run.of(SessionStarted) == [SessionStarted(session_id=THREAD, model="fake-1")]
    assert run.said == "hello.txt is written."
    assert [one.text for one in run.of(Reasoning)] == ["The file is missing, so I write it."]
    assert [(tool.tool, tool.title) for tool in run.of(ToolStarted)] == [
        ("shell", "printf %s 'hello from the model\n' > hello.txt"),
        ("shell", "wc -l hello.txt"),
    ]
    assert [(tool.call_id, tool.status, tool.output) for tool in run.of(ToolEnded)] == [
        ("item_2", ToolStatus.SUCCEEDED, ""),
        ("item_3", ToolStatus.SUCCEEDED, "1 hello.txt\n"),
    ]
    assert run.used.by_model == {
        "fake-1": Usage(input_tokens=3900, output_tokens=120, cached_tokens=2400, reasoning_tokens=20, tool_calls=2)
    }


def test_of_a_thread_that_goes_on_only_what_is_new_is_told(tmp_path: Path) -> None:
    """Its last event has the sum of the thread; where its file tells nothing, that counts."""
    thread = "01a1fe7d-c488-7df2-845e-92a64e6f684e"
    before = Begun(homes=("/h",), thread=thread, file="/h/none", used=Usage(input_tokens=3900, output_tokens=120))
    (tmp_path / "thread.json").write_bytes(msgspec.json.encode(before))

    run = replay(CODEX, "resume", session_id=thread, run=str(tmp_path))

    assert run.ended.ok
    assert (run.used.total.input_tokens, run.used.total.output_tokens) == (3100, 60)


@pytest.mark.parametrize(
    ("case", "transient", "error"),
    [
        ("dropped", True, "stream disconnected before completion"),
        ("rate-limited-for-good", True, "exceeded retry limit, last status: 429 Too Many Requests"),
        ("refused", False, "it ended without saying how its work went"),
        ("server-error", True, "currently experiencing high demand"),
        ("unauthorized", False, "unexpected status 401 Unauthorized: Incorrect API key provided."),
    ],
)
def test_a_failure_is_told_with_its_reason_and_whether_it_passes(case: str, transient: bool, error: str) -> None:
    run = replay(CODEX, case)

    assert not run.ended.ok
    assert run.ended.transient is transient
    assert error in run.ended.error


def test_its_own_retries_are_noted_and_a_success_after_them_is_one() -> None:
    run = replay(CODEX, "rate-limited")

    assert run.ended.ok
    assert [note.level for note in run.of(Noted) if "429" in note.text] == ["warning", "warning"]


def test_a_failure_is_told_once_as_an_error() -> None:
    assert len([note for note in replay(CODEX, "server-error").of(Noted) if note.level == "error"]) == 1


def test_a_command_that_fails_has_failed_and_the_run_has_not() -> None:
    run = replay(CODEX, "tool-failed")

    assert run.ended.ok
    assert [(tool.status, tool.output) for tool in run.of(ToolEnded)] == [(ToolStatus.FAILED, "oops\n")]


def test_ended_by_a_signal_it_has_no_success() -> None:
    run = read(CODEX, [STARTED], exited(None, 15), "rate limit")

    assert not run.finished
    assert not run.ended.ok
    assert not run.ended.transient
    assert "killed by signal 15" in run.ended.error


def test_exit_code_0_without_its_last_event_is_no_success() -> None:
    run = told(STARTED, item("agent_message", text="All done."))

    assert not run.ended.ok
    assert "without saying" in run.ended.error


def test_its_last_event_with_another_exit_code_is_no_success() -> None:
    assert not read(CODEX, [STARTED, COMPLETED], exited(1), "panicked").ended.ok


def test_one_that_lingers_after_its_last_event_and_is_ended_has_done_as_it_told() -> None:
    failed = b'{"type":"turn.failed","error":{"message":"last status: 503 Service Unavailable"}}'

    assert read(CODEX, [STARTED, COMPLETED], canceled()).ended.ok
    ended = read(CODEX, [STARTED, failed], canceled()).ended
    assert (ended.ok, ended.transient, ended.error) == (False, True, "last status: 503 Service Unavailable")


@pytest.mark.parametrize(
    ("message", "transient", "wait"),
    [
        ("Rate limit reached for gpt-5.5. Please try again in 1.5s.", True, 1500),
        ("You've hit your usage limit. Try again in 3 days.", False, 0),
        ("Your input exceeds the context window of this model.", False, 0),
        ("unexpected status 403 Forbidden: no", False, 0),
        ("unexpected status 502 Bad Gateway: no", True, 0),
        ('{"error": {"message": "no such parameter", "type": "invalid_request_error"}}', False, 0),
    ],
)
def test_what_a_service_says_tells_whether_to_try_again(message: str, transient: bool, wait: int) -> None:
    failed = json.dumps({"type": "turn.failed", "error": {"message": message}}).encode()

    ended = read(CODEX, [STARTED, failed], exited(1)).ended

    assert (ended.ok, ended.transient, ended.retry_after_ms) == (False, transient, wait)


def test_files_that_its_editor_changed_are_told_below_the_worktree() -> None:
    changes = [
        {"path": "/work-tree/a.py", "kind": "add"},
        {"path": "/work-tree/b/c.py", "kind": "update"},
        {"path": "/elsewhere/d.py", "kind": "delete"},
    ]
    run = told(STARTED, item("file_change", changes=changes, status="completed"), COMPLETED)

    assert run.of(FileEdited) == [
        FileEdited(path="a.py", change="created"),
        FileEdited(path="b/c.py", change="modified"),
        FileEdited(path="/elsewhere/d.py", change="deleted"),
    ]
    assert [tool.tool for tool in run.of(ToolStarted)] == ["apply_patch"]
    failed = told(STARTED, item("file_change", changes=changes, status="failed"))
    assert not failed.of(FileEdited)
    assert [tool.status for tool in failed.of(ToolEnded)] == [ToolStatus.FAILED]


def test_a_tool_that_is_told_when_it_begins_is_not_told_again_when_it_ends() -> None:
    call: dict[str, Any] = {"server": "docs", "tool": "find", "arguments": {"q": 1}}
    run = told(
        STARTED,
        item("mcp_tool_call", "started", status="in_progress", **call),
        item("mcp_tool_call", status="failed", error={"message": "no such page"}, **call),
    )

    assert [(tool.tool, tool.input) for tool in run.of(ToolStarted)] == [("docs.find", '{"q":1}')]
    assert [(tool.tool, tool.status, tool.output) for tool in run.of(ToolEnded)] == [
        ("docs.find", ToolStatus.FAILED, "no such page")
    ]
    assert run.used.total.tool_calls == 1


@pytest.mark.parametrize(
    ("fields", "permissions", "status"),
    [
        ({"status": "declined"}, Permissions.ALLOW, ToolStatus.DENIED),
        ({"status": "failed", "exit_code": 1, "aggregated_output": "a: Read-only file system"}, Permissions.DENY,
         ToolStatus.DENIED),
        ({"status": "failed", "exit_code": 1, "aggregated_output": "a: Read-only file system"}, Permissions.ALLOW,
         ToolStatus.FAILED),
        ({"status": "failed", "exit_code": 2, "aggregated_output": "no such file"}, Permissions.DENY,
         ToolStatus.FAILED),
    ],
)  # fmt: skip
def test_what_its_sandbox_refused_was_denied(
    fields: dict[str, Any], permissions: Permissions, status: ToolStatus
) -> None:
    run = told(STARTED, item("command_execution", command="x", **fields), permissions=permissions)

    assert [tool.status for tool in run.of(ToolEnded)] == [status]


def test_its_plan_is_noted_whenever_it_changes() -> None:
    steps = [{"text": "look", "completed": True}, {"text": "write", "completed": False}]

    assert [note.text for note in told(item("todo_list", "updated", items=steps)).of(Noted)] == ["[x] look\n[ ] write"]


def test_other_lines_are_noted_within_bounds_and_other_events_say_nothing() -> None:
    run = told(b"panicked at src/main.rs", b"\xff" * 10_000, b"", b'{"type":"thread.renamed","name":"x"}')

    assert [len(note.text) < MAX_TEXT for note in run.of(Noted)] == [True, True]


def test_long_texts_are_cut() -> None:
    run = told(item("command_execution", command="x" * 99_999, aggregated_output="y" * 99_999, exit_code=0))

    assert len(run.of(ToolStarted)[0].input) == MAX_TEXT
    assert len(run.of(ToolEnded)[0].output) == MAX_TEXT


def test_the_same_lines_give_the_same_news() -> None:
    for case in CASES:
        assert replay(CODEX, case).news == replay(CODEX, case).news


_TYPES, _NAMES = fields_of("codex")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(_TYPES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=12,
)
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=6)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_line_is_too_strange_to_be_read(lines: list[bytes]) -> None:
    run = told(*lines)

    assert not run.ended.ok
    assert all(isinstance(one, Noted) for one in run.news)


@given(st.sampled_from([*_TYPES, "item.updated"]), _FIELDS, st.sampled_from(["todo_list", "web_search"]), _FIELDS)
def test_no_event_is_too_strange_to_be_read(
    type_: str, more: dict[str, Any], kind: str, fields: dict[str, Any]
) -> None:
    item = {**fields, "id": "i", "type": kind}
    told(json.dumps({**more, "type": type_}).encode(), json.dumps({"type": type_, "item": item}).encode())


def test_an_event_nested_without_end_is_noted() -> None:
    run = told(b'{"type":"item.completed","item":' + b'{"a":' * 100_000)

    assert [len(note.text) <= MAX_TEXT for note in run.of(Noted)] == [True]


OURS = ToolServer(name="pilothouse", command=("serve",))


def test_calls_of_the_server_it_was_given_are_passed_over_but_counted() -> None:
    run = replay(CODEX, "served", tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == ["shell"]
    assert [tool.tool for tool in run.of(ToolEnded)] == ["shell"]
    assert run.of(ToolEnded)[0].call_id == run.of(ToolStarted)[0].call_id
    assert run.said == "It was refused."
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize("tools", [None, ToolServer(name="pilot", command=("serve",))])
def test_calls_of_servers_of_the_users_own_are_told(tools: ToolServer | None) -> None:
    run = replay(CODEX, "served", tools=tools)

    assert {tool.tool for tool in run.of(ToolStarted)} == {"pilothouse_tools.echo", "pilothouse_tools.refuse", "shell"}
    assert {tool.tool: tool.status for tool in run.of(ToolEnded)} == {
        "pilothouse_tools.echo": ToolStatus.SUCCEEDED,
        "pilothouse_tools.refuse": ToolStatus.FAILED,
        "shell": ToolStatus.SUCCEEDED,
    }
    assert run.used.total.tool_calls == 3
