"""What is made of lines of OpenCode: transcripts of real runs, and whatever else a process may print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.agents.replay import Told, canceled, cases_of, exited, fields_of, read, replay

from pilothouse.adapters.agents.opencode.driver import OpenCode
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    Noted,
    Permissions,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
)
from pilothouse.core.run.usage import Usage

OPENCODE = OpenCode()


def event(type_: str, **part: Any) -> bytes:
    return json.dumps({"type": type_, "sessionID": "ses_1", "part": part}).encode()


def tool(name: str, given: Any = None, **state: Any) -> bytes:
    return event("tool_use", tool=name, callID="c1", state={"status": "completed", "input": given, **state})


def error(message: str, **data: Any) -> bytes:
    failed = {"name": "APIError", "data": {"message": message, **data}}
    return json.dumps({"type": "error", "sessionID": "ses_1", "error": failed}).encode()


def stopped(reason: str = "stop") -> bytes:
    return event("step_finish", reason=reason, tokens={"input": 5, "output": 3, "reasoning": 2, "cache": {"read": 1}})


def told(*lines: bytes, code: int = 0, **work: Any) -> Told:
    return read(OPENCODE, lines, exited(code), **work)


def test_a_run_is_told_from_its_conversation_to_its_end() -> None:
    run = replay(OPENCODE, "success", model="fake/fake-1")

    assert not run.finished, "it has no last event"
    assert run.ended.ok
    assert run.of(SessionStarted) == [SessionStarted(session_id="ses_e01822009ffeJKUl6FyiYxfvP1", model="fake-1")]
    assert run.said == "hello.txt is written."
    assert [(one.tool, one.title) for one in run.of(ToolStarted)] == [
        ("write", "hello.txt"),
        ("bash", "wc -l hello.txt"),
    ]
    assert [(one.status, one.output) for one in run.of(ToolEnded)] == [
        (ToolStatus.SUCCEEDED, "Wrote file successfully."),
        (ToolStatus.SUCCEEDED, "1 hello.txt\n"),
    ]
    assert run.of(FileEdited) == [FileEdited(path="hello.txt", change="created", lines_added=1)]
    assert run.used.by_model == {
        "fake-1": Usage(
            input_tokens=3900,
            output_tokens=120,
            cached_tokens=2400,
            reasoning_tokens=20,
            turns=3,
            tool_calls=2,
            lines_added=1,
        )
    }


@pytest.mark.parametrize(
    ("case", "transient", "error"),
    [
        ("canceled", False, "it ended without an answer that is its last"),
        ("dropped", True, "Cannot connect to API: The socket connection was closed unexpectedly."),
        ("rate-limited-for-good", True, "Rate limit reached, slow down."),
        ("refused", True, "Cannot connect to API: Unable to connect."),
        ("server-error", True, "The server had an error."),
        ("unauthorized", False, "Incorrect API key provided."),
    ],
)
def test_a_failure_is_told_with_its_reason_and_whether_it_passes(case: str, transient: bool, error: str) -> None:
    run = replay(OPENCODE, case)

    assert not run.ended.ok
    assert run.ended.transient is transient
    assert run.ended.error.startswith(error)


def test_its_own_retries_are_not_told_and_a_success_after_them_is_one() -> None:
    assert replay(OPENCODE, "rate-limited").ended.ok


def test_refused_a_tool_it_stops_and_that_is_no_success() -> None:
    run = replay(OPENCODE, "denied")

    assert [one.status for one in run.of(ToolEnded)] == [ToolStatus.DENIED]
    assert not run.ended.ok
    assert run.ended.error.endswith("! permission requested: edit (hello.txt); auto-rejecting")


def test_a_command_that_fails_has_failed_and_the_run_has_not() -> None:
    run = replay(OPENCODE, "tool-failed")

    assert run.ended.ok
    assert [(one.status, one.output) for one in run.of(ToolEnded)] == [(ToolStatus.FAILED, "oops\n")]


@pytest.mark.parametrize("reason", ["tool-calls", "unknown", "length", "content-filter", "error", ""])
def test_exit_code_0_without_a_last_answer_is_no_success(reason: str) -> None:
    assert not told(stopped(reason)).ended.ok


def test_an_answer_that_broke_off_may_be_whole_another_time() -> None:
    assert told(stopped("error")).ended.transient
    assert not told(stopped("length")).ended.transient


def test_a_last_answer_with_another_exit_code_or_a_signal_is_no_success() -> None:
    assert not told(stopped(), code=1).ended.ok
    assert not read(OPENCODE, [stopped()], exited(None, 15)).ended.ok
    assert not read(OPENCODE, [stopped()], canceled()).ended.ok


def test_a_failure_that_another_try_has_made_good_is_none() -> None:
    assert told(error("overloaded"), event("step_start"), stopped()).ended.ok


def test_a_failure_after_the_last_answer_is_one() -> None:
    assert not told(stopped(), error("disk full")).ended.ok


@pytest.mark.parametrize(
    ("failed", "transient", "wait"),
    [
        (error("slow down", statusCode=429, responseHeaders={"retry-after": "7"}), True, 7_000),
        (error("slow down", statusCode=429, responseHeaders={"retry-after-ms": "1500"}), True, 1_500),
        (error("slow down", statusCode=429, responseHeaders={"retry-after": "Sat, 21 Nov 2026"}), True, 0),
        (error("no", statusCode=403, isRetryable=False), False, 0),
        (error("no such host", isRetryable=True), True, 0),
        (error("You exceeded your current quota", statusCode=429, isRetryable=True), False, 0),
        (error('{"message":"boom","type":"server_error"}', statusCode=500), True, 0),
    ],
)
def test_what_a_service_says_tells_whether_to_try_again(failed: bytes, transient: bool, wait: int) -> None:
    ended = told(failed, code=1).ended

    assert (ended.ok, ended.transient, ended.retry_after_ms) == (False, transient, wait)
    assert "{" not in ended.error


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            tool("edit", metadata={"filediff": {"file": "/work-tree/a", "additions": 3, "deletions": 1}}),
            [FileEdited(path="a", change="modified", lines_added=3, lines_removed=1)],
        ),
        (
            tool("write", {"content": "x\ny\n"}, metadata={"filepath": "/work-tree/b", "exists": True}),
            [FileEdited(path="b", change="modified")],
        ),
        (
            tool(
                "apply_patch",
                metadata={
                    "files": [
                        {"filePath": "/work-tree/c", "type": "add", "additions": 2, "deletions": 0},
                        {"filePath": "/work-tree/d", "type": "delete", "additions": 0, "deletions": 4},
                        "what?",
                    ]
                },
            ),
            [
                FileEdited(path="c", change="created", lines_added=2),
                FileEdited(path="d", change="deleted", lines_removed=4),
            ],
        ),
        (
            tool("write", metadata={"filepath": "/x", "diff": "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-1\n+2\n 3\n"}),
            [FileEdited(path="/x", change="modified", lines_added=1, lines_removed=1)],
        ),
        (tool("read", metadata={"filepath": "/work-tree/e"}), []),
        (tool("write", status="error", error="no", metadata={"filepath": "/work-tree/f"}), []),
    ],
)
def test_edits_are_told_with_their_lines_where_it_tells_them(line: bytes, expected: list[FileEdited]) -> None:
    assert told(line).of(FileEdited) == expected


UNOFFERED = "Model tried to call unavailable tool 'write'. Available tools: read."


@pytest.mark.parametrize(
    ("line", "permissions", "name", "status"),
    [
        (tool("write", status="error", error=UNOFFERED), Permissions.DENY, "write", ToolStatus.DENIED),
        (tool("write", status="error", error=UNOFFERED), Permissions.ALLOW, "write", ToolStatus.FAILED),
        (tool("invalid", {"tool": "nope"}, output=UNOFFERED), Permissions.ALLOW, "nope", ToolStatus.FAILED),
        (tool("bash", status="error", error="a rule which prevents you"), Permissions.ALLOW, "bash", ToolStatus.DENIED),
        (tool("grep", output="a rule which prevents you"), Permissions.ALLOW, "grep", ToolStatus.SUCCEEDED),
    ],
)
def test_what_was_not_permitted_was_denied(
    line: bytes, permissions: Permissions, name: str, status: ToolStatus
) -> None:
    assert [(one.tool, one.status) for one in told(line, permissions=permissions).of(ToolEnded)] == [(name, status)]


def test_thoughts_are_told_as_such() -> None:
    run = told(event("reasoning", text="hm"), event("text", text="Well."))

    assert (run.of(Reasoning), run.of(Text)) == ([Reasoning(text="hm")], [Text(text="Well.")])


def test_other_lines_are_noted_within_bounds_and_other_events_say_nothing() -> None:
    run = told(b"warn: something", b"\xff" * 10_000, b"", event("step_thought"))

    assert [len(note.text) < MAX_TEXT for note in run.of(Noted)] == [True, True]
    assert len(run.news) == 2


def test_long_texts_are_cut() -> None:
    run = told(tool("bash", "x" * 99_999, output="y" * 99_999))

    assert len(run.of(ToolStarted)[0].input) == MAX_TEXT
    assert len(run.of(ToolEnded)[0].output) == MAX_TEXT


def test_the_same_lines_give_the_same_news() -> None:
    for case in cases_of("opencode"):
        assert replay(OPENCODE, case).news == replay(OPENCODE, case).news


_TYPES, _NAMES = fields_of("opencode")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(_TYPES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_NAMES, "files"]), inner, max_size=5),
    max_leaves=12,
)
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=6)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_line_is_too_strange_to_be_read(lines: list[bytes]) -> None:
    run = told(*lines)

    assert not run.ended.ok
    assert all(isinstance(one, Noted) for one in run.news)


@given(st.sampled_from(_TYPES), _FIELDS, st.sampled_from(["edit", "apply_patch", "invalid"]), _JSON, _JSON)
def test_no_event_is_too_strange_to_be_read(
    type_: str, part: dict[str, Any], name: str, given_: Any, metadata: Any
) -> None:
    told(json.dumps({"type": type_, "part": part}).encode(), tool(name, given_, metadata=metadata))


def test_an_event_nested_without_end_is_noted() -> None:
    run = told(b'{"type":"tool_use","part":' + b'{"a":' * 100_000)

    assert [len(note.text) <= MAX_TEXT for note in run.of(Noted)] == [True]


OURS = ToolServer(name="pilothouse", command=("serve",))


def test_calls_of_the_server_it_was_given_are_passed_over_but_counted() -> None:
    run = replay(OPENCODE, "served", tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == ["write"]
    assert [tool.tool for tool in run.of(ToolEnded)] == ["write"]
    assert run.of(ToolEnded)[0].call_id == run.of(ToolStarted)[0].call_id
    assert run.said == "It was refused."
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize("tools", [None, ToolServer(name="pilot", command=("serve",))])
def test_calls_of_servers_of_the_users_own_are_told(tools: ToolServer | None) -> None:
    run = replay(OPENCODE, "served", tools=tools)

    assert {tool.tool for tool in run.of(ToolStarted)} == {"pilothouse_tools_echo", "pilothouse_tools_refuse", "write"}
    assert {tool.tool: tool.status for tool in run.of(ToolEnded)} == {
        "pilothouse_tools_echo": ToolStatus.SUCCEEDED,
        "pilothouse_tools_refuse": ToolStatus.FAILED,
        "write": ToolStatus.SUCCEEDED,
    }
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize(
    "line",
    [
        tool("pilothouse_tools_gone", {}, status="error", error="Model tried to call unavailable tool 'invalid'."),
        tool("invalid", {"tool": "pilothouse_tools_gone", "error": "no"}, output="no"),
    ],
)
def test_a_call_that_its_server_never_heard_of_is_told(line: bytes) -> None:
    run = told(line, stopped(), tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == ["pilothouse_tools_gone"]
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.FAILED]


@pytest.mark.parametrize("name", ["pilothouse_echo", "pilothouse_toolsecho", "x_pilothouse_tools_echo", "bash"])
def test_a_tool_whose_name_only_resembles_is_told(name: str) -> None:
    assert [tool.tool for tool in told(tool(name), stopped(), tools=OURS).of(ToolEnded)] == [name]
