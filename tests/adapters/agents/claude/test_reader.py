"""What is made of lines of Claude Code: transcripts of real runs, and whatever else a process may print."""

from __future__ import annotations

import json
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

from pilothouse.adapters.agents.claude.driver import Claude
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    Noted,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage

CLAUDE = Claude()
CASES = cases_of("claude")


def line(type_: str, **fields: Any) -> bytes:
    return json.dumps({"type": type_, "session_id": CONVERSATION, **fields}).encode()


def streamed(type_: str, **fields: Any) -> bytes:
    return line("stream_event", event={"type": type_, **fields}, parent_tool_use_id=None)


def answer(*blocks: dict[str, Any], id: str = "a1", parent: str | None = None, **fields: Any) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": id, "role": "assistant", "model": "m1", "content": list(blocks), "usage": usage}
    return line("assistant", message=message, parent_tool_use_id=parent, **fields)


def result_of(call: str, content: Any, *, is_error: bool = False, **fields: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
    return line("user", message={"role": "user", "content": [block]}, **fields)


def use(call: str, tool: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": given}


def final(**fields: Any) -> bytes:
    return line("result", **{"subtype": "success", "is_error": False, "result": "Done.", **fields})


def told(*lines: bytes, exit: Exit | None = None, errors: str = "") -> Told:
    return read(CLAUDE, lines, exit or exited(), errors)


def test_a_run_is_told_from_its_conversation_to_its_end() -> None:
    run = replay(CLAUDE, "success")

    assert run.finished
    assert run.ended.ok
    assert not run.ended.error
    assert run.of(SessionStarted) == [SessionStarted(session_id=CONVERSATION, model="fake-1")]
    assert run.said == "hello.txt is written."
    assert "".join(one.text for one in run.of(Reasoning)) == "The file is missing, so I write it."
    assert [(tool.tool, tool.title) for tool in run.of(ToolStarted)] == [
        ("Write", "hello.txt"),
        ("Bash", "wc -l hello.txt"),
    ]
    assert [(tool.tool, tool.status) for tool in run.of(ToolEnded)] == [
        ("Write", ToolStatus.SUCCEEDED),
        ("Bash", ToolStatus.SUCCEEDED),
    ]
    assert run.of(ToolEnded)[1].output == "1 hello.txt"
    assert run.of(FileEdited) == [FileEdited(path="hello.txt", change="created", lines_added=1)]


def test_its_sums_are_told_once_and_its_invented_cost_never() -> None:
    run = replay(CLAUDE, "success")

    assert run.used.by_model["fake-1"] == Usage(
        input_tokens=3900, output_tokens=120, cached_tokens=2400, turns=3, tool_calls=2, lines_added=1
    )
    assert run.used.total.api_ms > 0
    assert run.used.total.cost == 0


def test_a_resumed_conversation_is_told_without_its_past() -> None:
    run = replay(CLAUDE, "resume", session_id=CONVERSATION)

    assert run.ended.ok
    assert [one.session_id for one in run.of(SessionStarted)] == [CONVERSATION]
    assert (run.used.total.input_tokens, run.used.total.output_tokens) == (3100, 60)


def test_a_streamed_answer_is_told_as_it_comes_and_counted_when_it_is_whole() -> None:
    run = told(
        line("system", subtype="init", model="m1"),
        streamed(
            "message_start", message={"id": "a1", "model": "m1", "usage": {"input_tokens": 10, "output_tokens": 1}}
        ),
        streamed("content_block_delta", delta={"type": "thinking_delta", "thinking": "Hm."}),
        streamed("content_block_delta", delta={"type": "text_delta", "text": "Half "}),
        streamed("content_block_delta", delta={"type": "text_delta", "text": "and half."}),
        answer({"type": "thinking", "thinking": "Hm."}),
        answer({"type": "text", "text": "Half and half."}),
        streamed("content_block_start", content_block={"type": "tool_use", "id": "t", "name": "Bash"}),
        answer(use("t", "Bash", command="true")),
        streamed("message_delta", usage={"output_tokens": 30, "cache_read_input_tokens": 5}),
        final(
            modelUsage={"m1": {"inputTokens": 10, "outputTokens": 30, "cacheReadInputTokens": 5}}, duration_api_ms=7.6
        ),
    )

    assert run.of(Text) == [Text(text="Half "), Text(text="and half.")]
    assert run.of(Reasoning) == [Reasoning(text="Hm.")]
    assert run.of(Used) == [
        Used(usage=Usage(input_tokens=15, output_tokens=30, cached_tokens=5, turns=1, tool_calls=1), model="m1"),
        Used(usage=Usage(api_ms=8)),
    ]


def test_blocks_of_one_answer_are_counted_once_where_nothing_is_streamed() -> None:
    run = told(
        answer({"type": "text", "text": "a"}), answer(use("t", "Bash")), answer({"type": "text", "text": "b"}, id="a2")
    )

    assert run.used.total == Usage(input_tokens=20, output_tokens=2, turns=2, tool_calls=1)


def test_what_is_known_of_an_answer_that_was_cut_off_is_told_at_the_end() -> None:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 90, "output_tokens": 1}
    run = told(
        streamed("message_start", message={"id": "a1", "model": "m1", "usage": usage}),
        streamed("content_block_delta", delta={"type": "text_delta", "text": "Half"}),
        exit=canceled(),
    )

    assert not run.ended.ok
    assert run.ended.news == (
        Used(usage=Usage(input_tokens=100, output_tokens=1, cache_write_tokens=90, turns=1), model="m1"),
    )


def test_models_that_its_sums_call_otherwise_are_not_counted_twice() -> None:
    run = told(
        answer({"type": "text", "text": "a"}), final(modelUsage={"m1-2026": {"inputTokens": 12, "outputTokens": 5}})
    )

    assert (run.used.total.input_tokens, run.used.total.output_tokens) == (12, 5)


def test_agents_below_it_do_not_speak_for_it_but_count() -> None:
    run = told(
        answer({"type": "text", "text": "mine"}, id="b1", parent="t"),
        answer(use("u", "Bash"), id="b1", parent="t"),
        final(modelUsage={"m1": {"inputTokens": 10, "outputTokens": 9}}),
    )

    assert run.said == ""
    assert run.used.total == Usage(input_tokens=10, output_tokens=9, turns=1, tool_calls=1)


def test_a_tool_that_was_not_permitted_is_denied_whatever_the_exit_code() -> None:
    run = replay(CLAUDE, "denied")

    assert run.ended.ok
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.DENIED]
    assert run.of(FileEdited) == []
    assert run.of(Noted) == []


@pytest.mark.parametrize(
    "words",
    [
        "Claude requested permissions to write to /x, but you haven't granted it yet.",
        "Permission to use Bash has been denied because Claude Code is running in don't ask mode.",
        "This command requires approval",
        "This Bash command contains multiple operations. The following parts require approval: a, b",
        "Output redirection to '/x' was blocked. For security, Claude Code may only write to files in …",
    ],
)
def test_it_has_many_words_for_denied(words: str) -> None:
    run = told(answer(use("t", "Bash")), result_of("t", words, is_error=True))

    assert [(tool.status, tool.output) for tool in run.of(ToolEnded)] == [(ToolStatus.DENIED, words)]


def test_a_denial_in_other_words_is_noted_at_the_end() -> None:
    denied = {"tool_name": "Write", "tool_use_id": "t", "tool_input": {}}

    run = told(result_of("t", "No.", is_error=True), final(permission_denials=[denied]))

    assert run.of(Noted) == [Noted(text="Write was not permitted", level="warning")]
    announced = told(
        line("system", subtype="permission_denied", tool_use_id="t", tool_name="Write"),
        result_of("t", "No.", is_error=True),
        final(permission_denials=[denied]),
    )
    assert [tool.status for tool in announced.of(ToolEnded)] == [ToolStatus.DENIED]
    assert announced.of(Noted) == []


def test_a_command_that_fails_is_a_tool_that_failed() -> None:
    run = replay(CLAUDE, "tool-failed")

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.FAILED]
    assert "oops" in run.of(ToolEnded)[0].output


def test_an_edit_is_told_with_its_lines() -> None:
    patch = [{"lines": ["-one", "+two", "+three", " four"]}, {"lines": ["+five"]}]
    edited = {"filePath": "/work-tree/src/a.py", "structuredPatch": patch, "originalFile": "one\nfour\n"}

    run = told(answer(use("t", "Edit", file_path="/work-tree/src/a.py")), result_of("t", "ok", tool_use_result=edited))

    assert run.of(ToolStarted)[0].title == "src/a.py"
    assert run.of(FileEdited) == [FileEdited(path="src/a.py", change="modified", lines_added=3, lines_removed=1)]
    assert (run.used.total.lines_added, run.used.total.lines_removed) == (3, 1)


def test_a_file_that_was_only_read_is_not_edited() -> None:
    read_it = {"type": "text", "filePath": "/work-tree/a", "file": {"filePath": "/work-tree/a", "content": "x"}}

    assert told(answer(use("t", "Read")), result_of("t", "x", tool_use_result=read_it)).of(FileEdited) == []


def test_what_a_tool_answers_in_blocks_is_put_together() -> None:
    run = told(result_of("t", [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]))

    assert run.of(ToolEnded)[0].output == "one\ntwo"


def test_ended_by_a_signal_it_has_not_succeeded() -> None:
    run = replay(CLAUDE, "canceled")

    assert not run.finished
    assert not run.ended.ok
    assert not run.ended.transient
    assert run.ended.exit.code == 143


def test_one_that_lingers_after_its_final_event_and_is_ended_has_succeeded() -> None:
    assert told(final(), exit=canceled()).ended.ok
    assert not told(final(), exit=exited(1)).ended.ok


def test_one_that_lingers_after_it_told_of_its_failure_has_failed_as_it_told() -> None:
    error = answer({"type": "text", "text": "API Error: later"}, error="overloaded")

    lingered = told(error, final(is_error=True, result="API Error: later"), exit=canceled()).ended
    stopped = told(error, exit=canceled()).ended

    assert (lingered.ok, lingered.transient, lingered.error) == (False, True, "API Error: later")
    assert (stopped.ok, stopped.transient, stopped.error) == (False, False, "it was ended")


def test_exit_code_0_without_a_final_event_is_no_success() -> None:
    run = told(answer({"type": "text", "text": "All done."}))

    assert not run.finished
    assert not run.ended.ok
    assert "without saying" in run.ended.error


@pytest.mark.parametrize("case", ["rate-limited-for-good", "server-error", "refused"])
def test_failures_of_the_service_pass(case: str) -> None:
    run = replay(CLAUDE, case)

    assert not run.ended.ok
    assert run.ended.transient
    assert run.ended.error
    assert "API Error" not in run.said
    assert any(note.level == "warning" for note in run.of(Noted))
    assert any(note.level == "error" for note in run.of(Noted))


def test_a_wrong_key_does_not_pass() -> None:
    run = replay(CLAUDE, "unauthorized")

    assert not run.ended.ok
    assert not run.ended.transient


@pytest.mark.parametrize(
    ("kind", "status", "text", "passes"),
    [
        ("unknown", 400, "API Error: 400 bad thing", False),
        ("unknown", None, "API Error: Overloaded", True),
        ("unknown", 529, "API Error: later", True),
        ("billing_error", 429, "API Error: your credit is too low", False),
        ("authentication_failed", None, "Not logged in · Please run /login", False),
        ("server_error", None, "API Error: Unable to connect to API (ConnectionRefused)", True),
    ],
)
def test_what_passes_is_told_by_kind_status_and_text(kind: str, status: int | None, text: str, passes: bool) -> None:
    lines = (
        answer({"type": "text", "text": text}, error=kind),
        final(is_error=True, api_error_status=status, result=text),
    )

    run = told(*lines, exit=exited(1))

    assert run.ended.transient is passes
    assert run.ended.error == text
    assert run.of(Noted) == [Noted(text=text, level="error")]
    assert run.said == ""


def test_the_limit_of_an_account_passes_when_it_is_reset() -> None:
    limit = {"status": "rejected", "resetsAt": 1_000_060, "rateLimitType": "five_hour"}
    exit = Exit(reason=ExitReason.EXITED, code=1, ended_at=1_000_000_000)

    run = told(line("rate_limit_event", rate_limit_info=limit), final(is_error=True, result="limit"), exit=exit)

    assert run.ended.transient
    assert run.ended.retry_after_ms == 60_000
    assert "five_hour" in run.of(Noted)[0].text


def test_as_many_turns_as_it_may_make_are_a_limit_and_no_failure_that_passes() -> None:
    run = told(
        final(subtype="error_max_turns", is_error=True, result="", errors=["Reached maximum number of turns (2)"]),
        exit=exited(1),
    )

    assert run.ended.error == "Reached maximum number of turns (2)"
    assert not run.ended.transient


def test_a_rate_limit_that_it_got_over_is_noted() -> None:
    run = replay(CLAUDE, "rate-limited")

    assert run.ended.ok
    assert all(note.level == "warning" and "429" in note.text for note in run.of(Noted))
    assert run.of(Noted)


def test_long_inputs_and_outputs_are_shortened() -> None:
    run = told(answer(use("t", "Write", content="x" * 100_000)), result_of("t", "y" * 100_000))

    assert len(run.of(ToolStarted)[0].input) == MAX_TEXT
    assert len(run.of(ToolEnded)[0].output) == MAX_TEXT


@pytest.mark.parametrize("case", CASES)
def test_reading_the_same_lines_again_tells_the_same(case: str) -> None:
    assert replay(CLAUDE, case) == replay(CLAUDE, case)


@pytest.mark.parametrize("case", CASES)
def test_the_conversation_of_every_run_is_known(case: str) -> None:
    assert [one.session_id for one in replay(CLAUDE, case).of(SessionStarted)] == [CONVERSATION]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_TYPES, _NAMES = fields_of("claude")
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=6)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_line_is_too_strange_to_be_read(lines: list[bytes]) -> None:
    run = told(*lines)

    assert not run.ended.ok
    assert all(isinstance(one, Noted) for one in run.news)


@given(st.sampled_from([*_TYPES, "stream_event", "rate_limit_event"]), _FIELDS, _FIELDS)
def test_no_event_is_too_strange_to_be_read(type_: str, fields: dict[str, Any], inner: dict[str, Any]) -> None:
    told(json.dumps({**fields, "type": type_, "message": inner, "event": inner}).encode())
    told(json.dumps({**fields, "type": type_, "message": {"content": [inner]}}).encode())


def test_lines_that_are_no_events_stand_beside_them() -> None:
    lines = (TRANSCRIPTS / "claude" / "success.jsonl").read_bytes().splitlines()

    run = read(CLAUDE, [b"Warning: no stdin", *lines, b"\xff\x00"], exited())

    assert run.ended.ok
    assert [note.text for note in run.of(Noted)] == ["Warning: no stdin", "\ufffd"]


OURS = ToolServer(name="pilothouse", command=("serve",))


def test_calls_of_the_server_it_was_given_are_passed_over_but_counted() -> None:
    run = replay(CLAUDE, "served", tools=OURS)

    assert [tool.tool for tool in run.of(ToolStarted)] == ["Write"]
    assert [tool.tool for tool in run.of(ToolEnded)] == ["Write"]
    assert run.of(ToolEnded)[0].call_id == run.of(ToolStarted)[0].call_id
    assert run.said == "It was refused."
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize("tools", [None, ToolServer(name="pilot", command=("serve",))])
def test_calls_of_servers_of_the_users_own_are_told(tools: ToolServer | None) -> None:
    run = replay(CLAUDE, "served", tools=tools)

    assert {tool.tool for tool in run.of(ToolStarted)} == {"mcp__pilothouse__echo", "mcp__pilothouse__refuse", "Write"}
    assert {tool.tool: tool.status for tool in run.of(ToolEnded)} == {
        "mcp__pilothouse__echo": ToolStatus.SUCCEEDED,
        "mcp__pilothouse__refuse": ToolStatus.FAILED,
        "Write": ToolStatus.SUCCEEDED,
    }
    assert run.used.total.tool_calls == 3


@pytest.mark.parametrize(("tools", "noted"), [(OURS, 1), (ToolServer(name="gone", command=("serve",)), 1), (None, 0)])
def test_a_server_of_tools_that_did_not_start_is_noted(tools: ToolServer | None, noted: int) -> None:
    line = (
        '{"type":"system","subtype":"init","session_id":"s1","mcp_servers":[{"na'
        'me":"users","status":"failed"},{"name":"pilothouse","status":"failed"}]}'
    )
    run = read(CLAUDE, [line.encode()], exited(), tools=tools)

    assert [note.level for note in run.of(Noted)] == ["warning"] * noted
