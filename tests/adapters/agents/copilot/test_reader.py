"""What is made of lines of the Copilot CLI: transcripts of real runs, and whatever else a process may print."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.agents.replay import (
    CONVERSATION,
    TRANSCRIPTS,
    Told,
    canceled,
    cases_of,
    exited,
    fields_of,
    read,
    replay,
)

from pilothouse.adapters.agents.copilot.driver import Copilot
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    Noted,
    Reasoning,
    SessionStarted,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.usage import Usage

COPILOT = Copilot()
CASES = cases_of("copilot")


def event(type_: str, data: dict[str, Any] | None = None, **more: Any) -> bytes:
    return json.dumps({"type": type_, "data": data or {}, "timestamp": "2026-01-01T00:00:00.000Z", **more}).encode()


FINAL = json.dumps({"type": "result", "sessionId": CONVERSATION, "exitCode": 0}).encode()


def told(*lines: bytes, errors: str = "", **work: Any) -> Told:
    return read(COPILOT, lines, exited(), errors, **work)


def test_a_run_is_told_from_its_conversation_to_its_end() -> None:
    run = replay(COPILOT, "success")

    assert run.finished
    assert run.ended.ok
    assert not run.ended.error
    assert run.of(SessionStarted) == [SessionStarted(session_id=CONVERSATION, model="fake-1")]
    assert run.said == "hello.txt is written."
    assert "".join(one.text for one in run.of(Reasoning)) == "The file is missing, so I write it."
    assert [(tool.tool, tool.title) for tool in run.of(ToolStarted)] == [
        ("create", "create a new file at /work-tree/hello.txt."),
        ("bash", "scripted"),
    ]
    assert json.loads(run.of(ToolStarted)[1].input)["command"] == "wc -l hello.txt"
    assert [(tool.tool, tool.status) for tool in run.of(ToolEnded)] == [
        ("create", ToolStatus.SUCCEEDED),
        ("bash", ToolStatus.SUCCEEDED),
    ]
    assert run.of(ToolEnded)[1].output.startswith("1 hello.txt")
    assert run.of(FileEdited) == [FileEdited(path="hello.txt", change="created", lines_added=1)]


def test_its_report_is_told_at_the_end_and_nothing_of_it_twice(tmp_path: Path) -> None:
    shutil.copy(TRANSCRIPTS / "copilot" / "success.usage.json", tmp_path / "usage.json")

    run = replay(COPILOT, "success", run=str(tmp_path))

    assert run.used.by_model["fake-1"] == Usage(
        input_tokens=3900,
        output_tokens=120,
        cached_tokens=2400,
        reasoning_tokens=20,
        turns=3,
        tool_calls=2,
        lines_added=1,
    )
    assert run.used.total.api_ms > 0


def test_of_a_resumed_conversation_whose_past_is_not_known_the_sums_are_not_told(tmp_path: Path) -> None:
    shutil.copy(TRANSCRIPTS / "copilot" / "resume.usage.json", tmp_path / "usage.json")

    run = replay(COPILOT, "resume", run=str(tmp_path), session_id=CONVERSATION)

    assert run.ended.ok
    assert run.used.total.tokens == 0


def test_a_tool_that_was_not_permitted_is_denied_whatever_the_exit_code() -> None:
    run = replay(COPILOT, "denied")

    assert run.ended.ok
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.DENIED]
    assert run.of(FileEdited) == []


def test_a_command_that_fails_is_a_tool_that_failed() -> None:
    run = replay(COPILOT, "tool-failed")

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.FAILED]
    assert "oops" in run.of(ToolEnded)[0].output


def test_exit_code_0_after_a_signal_is_no_success() -> None:
    run = replay(COPILOT, "canceled")

    assert run.finished
    assert run.ended.exit.code == 0
    assert not run.ended.ok
    assert not run.ended.transient
    assert "signal" in run.ended.error


def test_one_that_lingers_after_its_final_event_and_is_ended_has_succeeded() -> None:
    lines = (TRANSCRIPTS / "copilot" / "success.jsonl").read_bytes().splitlines()
    late = event("abort", {"reason": "user_abort"})

    assert read(COPILOT, [*lines, late], canceled()).ended.ok
    assert not read(COPILOT, lines, exited(None, 11)).ended.ok


def test_one_that_lingers_after_it_told_of_its_failure_has_failed_as_it_told() -> None:
    error = event("session.error", {"errorType": "query", "message": "503 later", "statusCode": 503})
    final = json.dumps({"type": "result", "exitCode": 1}).encode()

    lingered = read(COPILOT, [error, final], canceled()).ended
    stopped = read(COPILOT, [error], canceled()).ended

    assert (lingered.ok, lingered.transient, lingered.error) == (False, True, "503 later")
    assert (stopped.ok, stopped.transient, stopped.error) == (False, False, "it was ended")


def test_exit_code_0_without_a_final_event_is_no_success() -> None:
    run = told(event("user.message"))

    assert not run.finished
    assert not run.ended.ok
    assert "without saying" in run.ended.error


@pytest.mark.parametrize("case", ["rate-limited-for-good", "server-error", "dropped", "refused"])
def test_failures_of_the_service_pass(case: str) -> None:
    run = replay(COPILOT, case)

    assert not run.ended.ok
    assert run.ended.transient
    assert run.ended.error
    assert any(note.level == "warning" for note in run.of(Noted))
    assert any(note.level == "error" for note in run.of(Noted))


def test_a_wrong_key_does_not_pass() -> None:
    run = replay(COPILOT, "unauthorized")

    assert not run.ended.ok
    assert not run.ended.transient
    assert "Authentication failed" in run.ended.error


@pytest.mark.parametrize(
    ("data", "passes"),
    [
        ({"errorType": "quota", "message": "no requests are left", "statusCode": 429}, False),
        ({"errorType": "query", "message": "400 bad request", "statusCode": 400}, False),
        ({"errorType": "query", "message": "503 try again in 20 seconds", "statusCode": 503}, True),
        ({"errorType": "query", "message": "socket hang up"}, True),
        ({"errorType": "query", "message": "the model said nothing"}, False),
    ],
)
def test_what_passes_is_told_by_kind_status_and_text(data: dict[str, Any], passes: bool) -> None:
    final = json.dumps({"type": "result", "exitCode": 1}).encode()
    run = read(COPILOT, [event("session.error", data), final], exited(1))

    assert run.ended.transient is passes
    assert run.ended.retry_after_ms == (20_000 if "20 seconds" in data["message"] else 0)


def test_an_older_one_that_only_complains_on_standard_error_passes_by_its_words() -> None:
    assert read(COPILOT, [], exited(1), "Error: connect ECONNRESET 140.82.112.5:443").ended.transient
    assert not read(COPILOT, [], exited(1), "error: unknown option '--output-format'").ended.transient


def test_a_rate_limit_that_it_got_over_is_noted() -> None:
    run = replay(COPILOT, "rate-limited")

    assert run.ended.ok
    assert [note.level for note in run.of(Noted)] == ["warning", "warning"]
    assert "429" in run.of(Noted)[0].text


def test_text_that_was_not_streamed_is_told_from_the_whole_message() -> None:
    data = {"messageId": "m", "content": "All at once.", "model": "m1", "toolRequests": []}

    run = told(event("assistant.reasoning", {"reasoningId": "r", "content": "Hm."}), event("assistant.message", data))

    assert run.said == "All at once."
    assert run.of(Reasoning) == [Reasoning(text="Hm.")]
    assert run.of(Used) == [Used(usage=Usage(turns=1), model="m1")]


def test_agents_below_it_do_not_speak_for_it_but_their_turns_and_tools_count() -> None:
    run = told(
        event("subagent.started", {"agentDisplayName": "helper"}, agentId="a"),
        event("assistant.message_delta", {"messageId": "m", "deltaContent": "mine"}, agentId="a"),
        event("assistant.message", {"messageId": "m", "content": "mine", "model": "m1"}, agentId="a"),
        event("tool.execution_start", {"toolCallId": "t", "toolName": "bash"}, agentId="a"),
        event("session.error", {"message": "it failed", "errorType": "query"}, agentId="a"),
        FINAL,
    )

    assert run.ended.ok
    assert run.said == ""
    assert run.used.total == Usage(turns=1, tool_calls=1)
    assert run.of(Noted)[0].text == "the agent 'helper' below it has started"


def test_several_files_of_one_edit_have_their_own_lines() -> None:
    diff = (
        "diff --git a/work-tree/a b/work-tree/a\n--- a/work-tree/a\n+++ b/work-tree/a\n"
        "@@ -1,2 +1,3 @@\n-x\n+y\n+z\n w\n"
        "diff --git a/work-tree/b b/work-tree/b\n--- a/work-tree/b\n+++ b/dev/null\n"
        "@@ -1,1 +0,0 @@\n-gone\n"
    )
    edits = [{"path": "/work-tree/a", "kind": "edit"}, {"path": "/work-tree/b", "kind": "delete"}]
    data = {"toolCallId": "t", "success": True, "fileEdits": edits, "result": {"content": "", "detailedContent": diff}}

    run = told(event("tool.execution_complete", data))

    assert run.of(FileEdited) == [
        FileEdited(path="a", change="modified", lines_added=2, lines_removed=1),
        FileEdited(path="b", change="deleted", lines_removed=1),
    ]
    assert run.used.total == Usage(lines_added=2, lines_removed=2)


def test_long_inputs_and_outputs_are_shortened() -> None:
    run = told(
        event("tool.execution_start", {"toolCallId": "t", "toolName": "create", "arguments": {"text": "x" * 100_000}}),
        event("tool.execution_complete", {"toolCallId": "t", "success": True, "result": {"content": "y" * 100_000}}),
    )

    assert len(run.of(ToolStarted)[0].input) == MAX_TEXT
    assert len(run.of(ToolEnded)[0].output) == MAX_TEXT


def test_the_statistics_of_an_older_one_are_read_when_there_is_nothing_better() -> None:
    errors = "Total usage est: 1 Premium requests\nUsage by model:\nm1  20.2k input, 117 output, 19.8k cache read\n"

    assert told(errors=errors).used.by_model["m1"].input_tokens == 20_200
    assert (
        told(b"Changes   +12 -5", "Tokens    ↑ 589.7k • ↓ 21.0k • 543.0k (cached)".encode()).used.total.tokens
        == 610_700
    )


@pytest.mark.parametrize("case", CASES)
def test_reading_the_same_lines_again_tells_the_same(case: str) -> None:
    assert replay(COPILOT, case) == replay(COPILOT, case)


@pytest.mark.parametrize("case", CASES)
def test_the_conversation_of_every_run_is_known(case: str) -> None:
    assert [one.session_id for one in replay(COPILOT, case).of(SessionStarted)] == [CONVERSATION]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_TYPES, _NAMES = fields_of("copilot")
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=6)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_line_is_too_strange_to_be_read(lines: list[bytes]) -> None:
    run = told(*lines)

    assert not run.ended.ok
    assert all(isinstance(one, Noted) for one in run.news)


@given(st.sampled_from([*_TYPES, "session.error", "subagent.failed", "abort"]), _FIELDS, _FIELDS)
def test_no_event_is_too_strange_to_be_read(type_: str, data: dict[str, Any], more: dict[str, Any]) -> None:
    told(json.dumps({**more, "type": type_, "data": data}).encode(), json.dumps({"type": type_, "data": [1]}).encode())


def test_an_event_nested_without_end_is_noted() -> None:
    run = told(b'{"type":"tool.execution_start","data":' + b'{"a":' * 100_000)

    assert len(run.of(Noted)) == 1
    assert len(run.of(Noted)[0].text) <= 1_000


OURS = ToolServer(name="pilothouse", command=("serve",))


def test_calls_of_the_server_it_was_given_are_passed_over_but_counted() -> None:
    run = replay(COPILOT, "served", tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == ["create"]
    assert [tool.tool for tool in run.of(ToolEnded)] == ["create"]
    assert run.of(ToolEnded)[0].call_id == run.of(ToolStarted)[0].call_id
    assert run.said == "It was refused."
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize("tools", [None, ToolServer(name="pilot", command=("serve",))])
def test_calls_of_servers_of_the_users_own_are_told(tools: ToolServer | None) -> None:
    run = replay(COPILOT, "served", tools=tools)

    assert {tool.tool for tool in run.of(ToolStarted)} == {"pilothouse-echo", "pilothouse-refuse", "create"}
    assert {tool.tool: tool.status for tool in run.of(ToolEnded)} == {
        "pilothouse-echo": ToolStatus.SUCCEEDED,
        "pilothouse-refuse": ToolStatus.FAILED,
        "create": ToolStatus.SUCCEEDED,
    }
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize(("tools", "noted"), [(OURS, 1), (None, 0)])
def test_a_server_of_tools_that_did_not_start_is_noted(tools: ToolServer | None, noted: int) -> None:
    line = (
        '{"type":"session.mcp_servers_loaded","data":{"servers":[{"name":"users","sta'
        'tus":"failed"},{"name":"pilothouse","status":"failed","error":"it exited"}]}}'
    )
    run = read(COPILOT, [line.encode()], exited(), tools=tools)

    assert [note.level for note in run.of(Noted)] == ["warning"] * noted
