"""The line protocol, and what to make of how a process ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.adapters.agents.endings import MAX_TOLD, agrees, reason
from pilothouse.adapters.agents.lines import Finished, LineReader, encode
from pilothouse.core.run.agents import (
    MAX_TEXT,
    AgentEnded,
    Asked,
    FileEdited,
    News,
    Noted,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage

DONE = Exit(reason=ExitReason.EXITED, code=0)
FAILED = Exit(reason=ExitReason.EXITED, code=1)
KILLED = Exit(reason=ExitReason.EXITED, signal=9)
CANCELED = Exit(reason=ExitReason.CANCELED, signal=15)
TIMEOUT = Exit(reason=ExitReason.TIMEOUT, signal=9)

ALL: tuple[News, ...] = (
    SessionStarted(session_id="s", model="m"),
    Text(text="a\nb"),
    Reasoning(text="ü"),
    ToolStarted(call_id="1", tool="t", title="x", input="{}"),
    ToolEnded(call_id="1", tool="t", status=ToolStatus.DENIED, output="o"),
    FileEdited(path="a", change="deleted", lines_removed=3),
    Used(usage=Usage(input_tokens=1, cost=0.5), model="m"),
    Asked(request_id="1", tool="t", can_remember=True),
    Noted(text="n", level="warning"),
)


def read(*lines: bytes) -> list[News]:
    reader = LineReader()
    return [item for line in lines for item in reader.line(line)]


def ended(told: Finished | None, exit: Exit, errors: str = "") -> AgentEnded:
    reader = LineReader()
    if told:
        list(reader.line(encode(told)))
    return reader.end(exit, errors)


def test_everything_an_agent_tells_is_read_as_it_was_told() -> None:
    lines = encode(*ALL).splitlines()
    assert len(lines) == len(ALL)
    assert read(*lines) == list(ALL)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (b"warning: something", "warning: something"),
        (b'{"type": "text"}', '{"type": "text"}'),
        (b'{"type": "unheard"}', '{"type": "unheard"}'),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"type": "text", "text": "\xff"}', '{"type": "text", "text": "\ufffd"}'),
        (b"[" * 100_000, "[" * MAX_TEXT),
    ],
)
def test_a_line_that_is_not_of_the_protocol_is_a_note(line: bytes, note: str) -> None:
    assert read(line) == [Noted(text=note)]


def test_an_empty_line_is_nothing() -> None:
    assert read(b"", b"   ", b"\t") == []


@given(st.lists(st.binary(max_size=60), max_size=6), st.sampled_from([DONE, FAILED, KILLED, CANCELED, TIMEOUT]))
def test_a_reader_takes_whatever_comes(lines: list[bytes], exit: Exit) -> None:
    reader = LineReader()
    for line in lines:
        list(reader.line(line))
    assert not reader.end(exit, "").ok


@pytest.mark.parametrize(
    ("told", "exit", "ok"),
    [
        (Finished(), DONE, True),
        (Finished(), CANCELED, True),
        (Finished(), TIMEOUT, True),
        (Finished(), FAILED, False),
        (Finished(), KILLED, False),
        (Finished(), Exit(reason=ExitReason.LOST), False),
        (Finished(ok=False, error="no"), DONE, False),
        (None, DONE, False),
        (None, CANCELED, False),
    ],
)
def test_success_is_a_final_word_that_says_so_and_an_exit_that_agrees(
    told: Finished | None, exit: Exit, ok: bool
) -> None:
    assert ended(told, exit).ok is ok


def test_the_first_final_word_counts() -> None:
    reader = LineReader()
    list(reader.line(encode(Finished(ok=False, error="first"))))
    list(reader.line(encode(Finished())))
    assert reader.end(DONE, "").error == "first"


def test_a_failure_that_may_pass_says_when() -> None:
    found = ended(Finished(ok=False, error="limited", transient=True, retry_after_ms=7), FAILED)
    assert (found.transient, found.retry_after_ms, found.error) == (True, 7, "limited")


@pytest.mark.parametrize(
    ("exit", "text"),
    [
        (FAILED, "it exited with 1: no such model"),
        (KILLED, "it was killed by signal 9: no such model"),
        (CANCELED, "it was ended"),
        (TIMEOUT, "it ran into its time limit"),
        (Exit(reason=ExitReason.NOT_STARTED, error="no such file"), "no such file"),
        (Exit(reason=ExitReason.LOST), "how it ended is not known"),
    ],
)
def test_an_ending_has_a_reason_in_one_sentence(exit: Exit, text: str) -> None:
    assert reason(exit, "\nno such model\n") == text


def test_of_long_errors_the_end_is_quoted() -> None:
    told = reason(FAILED, "x" * 10 * MAX_TOLD + "the reason")
    assert told.endswith("the reason")
    assert len(told) < 2 * MAX_TOLD


def test_only_success_and_an_end_that_we_made_agree_with_success() -> None:
    assert [agrees(exit) for exit in (DONE, CANCELED, TIMEOUT, FAILED, KILLED)] == [True, True, True, False, False]
