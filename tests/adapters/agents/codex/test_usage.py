"""What is read from the file in which Codex keeps a thread: what a run used, and nothing of the runs before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.agents.replay import some_work

from pilothouse.adapters.agents.codex.events import Tokens
from pilothouse.adapters.agents.codex.usage import Begun, begin, begun, spent
from pilothouse.core.run.usage import Usage

THREAD = "01a1fe7d-c2a6-7690-89aa-038c9ffc8d7a"


def record(tokens: int) -> dict[str, Any]:
    return {"type": "token_usage_record", "payload": {"usage": {"input_tokens": tokens, "output_tokens": 1}}}


def model(name: str) -> dict[str, Any]:
    return {"type": "turn_context", "payload": {"model": name}}


def total(tokens: int) -> dict[str, Any]:
    info = {"total_token_usage": {"input_tokens": tokens, "output_tokens": 2}}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


class Rollout:
    def __init__(self, home: Path, thread: str = THREAD) -> None:
        self.home = str(home)
        self.path = home / "sessions" / "2026" / "11" / "21" / f"rollout-2026-11-21T14-19-43-{thread}.jsonl"
        self.path.parent.mkdir(parents=True)

    def add(self, *records: Any) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in records)


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path / "home")


def start(rollout: Rollout, run: Path, **changes: Any) -> Begun:
    run.mkdir(exist_ok=True)
    return begin(some_work(run=str(run), **changes), (rollout.home,))


def used(run: Path, told: Tokens | None = None) -> dict[str, Usage]:
    return {one.model: one.usage for one in spent(str(run), THREAD, "asked-for", told)}


def test_of_a_thread_that_goes_on_only_what_came_since_counts(rollout: Rollout, tmp_path: Path) -> None:
    rollout.add(model("m1"), record(100), total(100))
    run = tmp_path / "run"
    assert start(rollout, run, session_id=THREAD).thread == THREAD
    rollout.add(record(10), model("m2"), record(20), record(30), total(160))

    expected = {
        "asked-for": Usage(input_tokens=10, output_tokens=1, turns=1),
        "m2": Usage(input_tokens=50, output_tokens=2, turns=2),
    }
    assert used(run, Tokens(input_tokens=160, output_tokens=4)) == expected
    assert used(run) == expected, "also when it was killed"


def test_of_a_new_thread_all_of_it_counts(rollout: Rollout, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert not start(rollout, run).thread
    rollout.add(model("m1"), record(10))

    assert used(run) == {"m1": Usage(input_tokens=10, output_tokens=1, turns=1)}


def test_where_there_are_no_records_the_sum_it_told_counts_without_what_was_before(
    rollout: Rollout, tmp_path: Path
) -> None:
    rollout.add(total(100))
    run = tmp_path / "run"
    start(rollout, run, session_id=THREAD)
    rollout.add(total(130))

    assert used(run, Tokens(input_tokens=130, output_tokens=7)) == {
        "asked-for": Usage(input_tokens=30, output_tokens=5)
    }
    assert used(run) == {}


def test_a_run_begins_once_and_a_thread_that_is_gone_is_not_gone_on_with(rollout: Rollout, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start(rollout, run, session_id=THREAD)
    rollout.add(record(1))

    assert first == Begun(homes=(rollout.home,))
    assert start(rollout, run, session_id=THREAD) == first
    (run / "thread.json").write_text("{")
    assert begun(str(run)) is None
    assert begun("") is None


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_no_file_is_too_strange_to_be_read(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    place = tmp_path_factory.mktemp("thread", numbered=True)
    rollout = Rollout(place / "home")
    marks = (b'"token_usage_record"', b'"turn_context"', b'"token_count"')
    rollout.path.write_bytes(b"\n".join(line + mark for line in lines for mark in marks))

    start(rollout, place / "run", session_id=THREAD)

    assert used(place / "run") == {}
