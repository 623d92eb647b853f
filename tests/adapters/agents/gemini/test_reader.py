"""What is made of lines of the Gemini CLI: transcripts of real runs, and whatever else a process may print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.agents.replay import Told, canceled, cases_of, exited, fields_of, read, replay

from pilothouse.adapters.agents.gemini.driver import Gemini
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    Noted,
    Permissions,
    SessionStarted,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
)
from pilothouse.core.run.usage import Usage

GEMINI = Gemini()


def event(type_: str, **fields: Any) -> bytes:
    return json.dumps({"type": type_, **fields}).encode()


def used(tool: str, error: dict[str, str] | None = None, **parameters: Any) -> list[bytes]:
    """A call of a tool and what came of it."""
    return [
        event("tool_use", tool_name=tool, tool_id="t1", parameters=parameters),
        event("tool_result", tool_id="t1", status="error" if error else "success", error=error, output="out"),
    ]


def failed(message: str, type_: str = "unknown") -> bytes:
    return event("result", status="error", error={"type": type_, "message": message}, stats={})


INIT = event("init", session_id="s1", model="m1")
DONE = event("result", status="success", stats={"models": {}})


def told(*lines: bytes, code: int = 0, errors: str = "", **work: Any) -> Told:
    return read(GEMINI, lines, exited(code), errors, **work)


def test_a_run_is_told_from_its_conversation_to_its_end() -> None:
    run = replay(GEMINI, "success")

    assert run.finished
    assert run.ended.ok
    assert run.of(SessionStarted) == [
        SessionStarted(session_id="4538e5d8-138f-4c48-8af3-33918fd4da26", model="gemini-2.5-flash")
    ]
    assert run.said == "hello.txt is written."
    assert [(one.tool, one.title) for one in run.of(ToolStarted)] == [
        ("write_file", "hello.txt"),
        ("run_shell_command", "wc -l hello.txt"),
    ]
    assert [(one.tool, one.status, one.output) for one in run.of(ToolEnded)] == [
        ("write_file", ToolStatus.SUCCEEDED, ""),
        ("run_shell_command", ToolStatus.SUCCEEDED, "1 hello.txt"),
    ]
    assert run.of(FileEdited) == [FileEdited(path="hello.txt")]
    assert run.used.by_model == {
        "gemini-2.5-flash": Usage(
            input_tokens=3900, output_tokens=120, cached_tokens=2400, reasoning_tokens=20, turns=3, tool_calls=2
        )
    }


@pytest.mark.parametrize(
    ("case", "transient", "error"),
    [
        ("canceled", False, "it ended without saying how its work went; it exited with 0"),
        ("dropped", True, "terminated"),
        ("rate-limited-for-good", True, "Rate limit reached, slow down."),
        ("refused", True, "exception TypeError: fetch failed sending request"),
        ("server-error", True, "The server had an error."),
        ("unauthorized", False, "Incorrect API key provided."),
    ],
)
def test_a_failure_is_told_with_its_reason_and_whether_it_passes(case: str, transient: bool, error: str) -> None:
    run = replay(GEMINI, case)

    assert not run.ended.ok
    assert (run.ended.transient, run.ended.error) == (transient, error)


def test_its_own_retries_are_not_told_and_a_success_after_them_is_one() -> None:
    assert replay(GEMINI, "rate-limited").ended.ok


def test_a_tool_that_is_not_offered_is_denied_to_one_that_may_not() -> None:
    assert [one.status for one in replay(GEMINI, "denied", permissions=Permissions.DENY).of(ToolEnded)] == [
        ToolStatus.DENIED
    ]
    assert [one.status for one in replay(GEMINI, "denied").of(ToolEnded)] == [ToolStatus.FAILED]


@pytest.mark.parametrize(
    ("type_", "message", "status"),
    [
        ("policy_violation", "no", ToolStatus.DENIED),
        ("path_not_in_workspace", "no", ToolStatus.DENIED),
        ("invalid_tool_params", "Path not in workspace: /etc", ToolStatus.DENIED),
        ("invalid_tool_params", "params must have path", ToolStatus.FAILED),
        ("edit_no_occurrence_found", "no", ToolStatus.FAILED),
    ],
)
def test_what_was_not_permitted_was_denied(type_: str, message: str, status: ToolStatus) -> None:
    run = told(INIT, *used("replace", {"type": type_, "message": message}, file_path="/work-tree/a"))

    assert [one.status for one in run.of(ToolEnded)] == [status]
    assert not run.of(FileEdited)


def test_answers_are_counted_by_what_lies_between_them() -> None:
    say = event("message", role="assistant", content="x", delta=True)
    call, result = used("read_file", path="a")
    run = told(
        INIT, event("message", role="user", content="go"), say, say, call, call, result, result, call, result, say
    )

    assert (run.used.total.turns, run.used.total.tool_calls) == (3, 3)
    assert run.said == "xxx"


def test_exit_code_0_without_its_last_event_is_no_success() -> None:
    assert not told(INIT, event("message", role="assistant", content="Done.")).ended.ok


def test_its_last_event_with_another_exit_code_is_no_success() -> None:
    assert not told(INIT, DONE, code=1).ended.ok


def test_one_that_lingers_after_its_last_event_and_is_ended_has_done_as_it_told() -> None:
    assert read(GEMINI, [INIT, DONE], canceled()).ended.ok
    ended = read(GEMINI, [INIT, failed("[API Error: fetch failed]")], canceled()).ended
    assert (ended.ok, ended.transient) == (False, True)


@pytest.mark.parametrize(
    ("message", "code", "transient", "wait"),
    [
        ("[API Error: You exceeded your current quota. Please retry in 34.5s.]", 173, True, 34_500),
        ("[API Error: You have exhausted your daily quota on this model.]\nPlease wait", 173, False, 0),
        ("[API Error: slow down]\nTo increase your limits, request a quota increase", 173, True, 0),
        ("[API Error: no such model]", 148, False, 0),
        ("[API Error: backend trouble]", 247, True, 0),
        ("Reached max session turns for this session.", 53, False, 0),
        ("Operation cancelled.", 130, False, 0),
    ],
)
def test_what_its_service_says_and_how_it_exits_tells_whether_to_try_again(
    message: str, code: int, transient: bool, wait: int
) -> None:
    ended = told(INIT, failed(message), code=code).ended

    assert (ended.ok, ended.transient, ended.retry_after_ms) == (False, transient, wait)
    assert "API Error" not in ended.error


def test_why_an_answer_was_no_good_is_told_before_its_last_event() -> None:
    run = told(INIT, event("error", severity="error", message="Blocked for safety"), event("result", status="error"))

    assert run.ended.error == "Blocked for safety"
    assert [(note.text, note.level) for note in run.of(Noted)] == [("Blocked for safety", "error")]
    assert told(event("error", severity="warning", message="Loop detected")).of(Noted)[0].level == "warning"


def test_its_chatter_is_no_reason() -> None:
    errors = "Warning: Basic terminal\nYOLO mode is enabled.\nRipgrep is not available.\n[STARTUP] x\nno such option"

    assert told(code=1, errors=errors).ended.error.endswith("it exited with 1: no such option")


def test_other_lines_are_noted_within_bounds_and_other_events_say_nothing() -> None:
    run = told(b"Loaded cached credentials.", b"\xff" * 10_000, b"", event("thought", content="x"))

    assert [len(note.text) < MAX_TEXT for note in run.of(Noted)] == [True, True]
    assert len(run.news) == 2


def test_long_texts_are_cut() -> None:
    run = told(
        event("tool_use", tool_name="t", tool_id="1", parameters="x" * 99_999),
        event("tool_result", output="y" * 99_999),
    )

    assert len(run.of(ToolStarted)[0].input) == MAX_TEXT
    assert len(run.of(ToolEnded)[0].output) == MAX_TEXT


def test_the_same_lines_give_the_same_news() -> None:
    for case in cases_of("gemini"):
        assert replay(GEMINI, case).news == replay(GEMINI, case).news


_TYPES, _NAMES = fields_of("gemini")
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


@given(st.sampled_from([*_TYPES, "error"]), _FIELDS, _JSON)
def test_no_event_is_too_strange_to_be_read(type_: str, fields: dict[str, Any], parameters: Any) -> None:
    told(
        json.dumps({**fields, "type": type_}).encode(),
        event("tool_use", tool_name="replace", tool_id="1", parameters=parameters),
    )


def test_an_event_nested_without_end_is_noted() -> None:
    run = told(b'{"type":"tool_use","parameters":' + b'{"a":' * 100_000)

    assert [len(note.text) <= MAX_TEXT for note in run.of(Noted)] == [True]


OURS = ToolServer(name="pilothouse", command=("serve",))


def test_calls_of_the_server_it_was_given_are_passed_over_but_counted() -> None:
    run = replay(GEMINI, "served", tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == ["write_file"]
    assert [tool.tool for tool in run.of(ToolEnded)] == ["write_file"]
    assert run.of(ToolEnded)[0].call_id == run.of(ToolStarted)[0].call_id
    assert run.said == "It was refused."
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize("tools", [None, ToolServer(name="pilot", command=("serve",))])
def test_calls_of_servers_of_the_users_own_are_told(tools: ToolServer | None) -> None:
    run = replay(GEMINI, "served", tools=tools)

    assert {tool.tool for tool in run.of(ToolStarted)} == {
        "mcp_pilothouse_tools_echo",
        "mcp_pilothouse_tools_refuse",
        "write_file",
    }
    assert {tool.tool: tool.status for tool in run.of(ToolEnded)} == {
        "mcp_pilothouse_tools_echo": ToolStatus.SUCCEEDED,
        "mcp_pilothouse_tools_refuse": ToolStatus.FAILED,
        "write_file": ToolStatus.SUCCEEDED,
    }
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize("kind", ["tool_not_registered", "policy_violation", "invalid_tool_params"])
def test_a_call_that_its_server_never_heard_of_is_told(kind: str) -> None:
    lines = used("mcp_pilothouse_tools_gone", {"type": kind, "message": "no"}, text="x")
    run = told(INIT, *lines, DONE, tools=OURS)

    assert [(tool.tool, tool.input) for tool in run.of(ToolStarted)] == [("mcp_pilothouse_tools_gone", '{"text":"x"}')]
    assert [tool.call_id for tool in run.of(ToolEnded)] == ["t1"]
    assert run.used.total.tool_calls == 1


@pytest.mark.parametrize("name", ["mcp_pilothouse_echo", "mcp_pilothouse_toolsecho", "pilothouse_tools_echo"])
def test_a_tool_whose_name_only_resembles_is_told(name: str) -> None:
    run = told(INIT, *used(name), DONE, tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == [tool.tool for tool in run.of(ToolEnded)] == [name]
