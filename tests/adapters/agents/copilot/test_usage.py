"""Usage from the files Copilot leaves: told live, told once, told of one run alone."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import CONVERSATION, some_work

from pilothouse.adapters.agents.copilot.usage import REPORT, Begun, Ledger, begin, begun
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import Tally, Usage

NEW = "99999999-2222-4333-8444-555555555555"
START = datetime.fromisoformat("2026-01-01T12:00:00+00:00")


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def record(seconds: float, tokens: int, **usage: Any) -> str:
    given = {"model": "m1", "inputTokens": tokens, "outputTokens": 1, "duration": 10.0, **usage}
    return json.dumps({"type": "session.usage_record", "timestamp": at(seconds), "data": {"usage": given}}) + "\n"


def sums(tokens: int, output: int, premium: float = 0, api_ms: float = 0) -> dict[str, Any]:
    model = {"requests": {"count": 1, "cost": premium}, "usage": {"inputTokens": tokens, "outputTokens": output}}
    return {
        "totalPremiumRequestCost": premium,
        "totalApiDurationMs": api_ms,
        "modelMetrics": {"m1": model},
    }


def shutdown(seconds: float, **snapshot: Any) -> str:
    data = {"accountingSnapshot": snapshot}
    return json.dumps({"type": "session.shutdown", "timestamp": at(seconds), "data": data}) + "\n"


class Run:
    """A run of the conversation whose file is ``file``."""

    def __init__(self, root: Path, name: str, *, session_id: str = "") -> None:
        self.home = root / "home"
        self.directory = root / name
        self.directory.mkdir()
        self.work: AgentWork = some_work(run=str(self.directory), session_id=session_id, new_session_id=NEW)
        self.note = begin(self.work, (self.home,))
        self.ledger = Ledger(self.work)

    @property
    def file(self) -> Path:
        file = Path(self.note.files[0])
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def wrote(self, *lines: str) -> None:
        with self.file.open("a") as file:
            file.writelines(lines)

    def reported(self, **report: Any) -> None:
        (self.directory / REPORT).write_text(json.dumps(report))


def total(told: list[Used]) -> Usage:
    tally = Tally()
    for item in told:
        tally.add(item.model, item.usage)
    return tally.total


def test_a_call_is_told_once_it_has_settled(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    run.wrote(record(0, 100), record(5, 200, cacheReadTokens=150, reasoningTokens=1))

    assert list(run.ledger.settled(at(1))) == []
    assert list(run.ledger.settled(at(2))) == [
        Used(usage=Usage(input_tokens=100, output_tokens=1, api_ms=10), model="m1")
    ]
    assert list(run.ledger.settled(at(6))) == []
    assert list(run.ledger.rest()) == [
        Used(
            usage=Usage(input_tokens=200, output_tokens=1, cached_tokens=150, reasoning_tokens=1, api_ms=10), model="m1"
        )
    ]
    assert list(run.ledger.rest()) == []


def test_whoever_reads_again_tells_the_same_at_the_same_event_although_the_file_has_grown(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    again = Ledger(run.work)
    stamps = [at(0.5), at(2.5), at(3.0), at(6.0)]
    told = []
    for stamp, line in zip(stamps, (record(0, 100), record(0.9, 200), record(2.6, 300), record(5.9, 400)), strict=True):
        run.wrote(line)
        told.append(list(run.ledger.settled(stamp)))

    assert [list(again.settled(stamp)) for stamp in stamps] == told
    assert total([*(item for items in told for item in items), *run.ledger.rest()]).input_tokens == 1000


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    whole = record(0, 100)
    run.wrote(whole[:40])
    assert list(run.ledger.settled(at(9))) == []

    run.wrote(whole[40:])

    assert total(list(run.ledger.settled(at(9)))).input_tokens == 100


def test_what_only_the_report_has_is_told_at_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    run.wrote(record(0, 100))
    run.reported(**sums(150, 3, premium=2, api_ms=25))

    assert total(list(run.ledger.rest())) == Usage(input_tokens=150, output_tokens=3, premium_requests=2, api_ms=25)


def test_a_resumed_conversation_is_told_without_its_past(tmp_path: Path) -> None:
    first = Run(tmp_path, "one")
    first.wrote(record(0, 100), shutdown(1, **sums(100, 1, premium=1, api_ms=10)))
    second = Run(tmp_path, "two", session_id=NEW)
    second.wrote(record(10, 200))
    second.reported(**sums(300, 2, premium=2, api_ms=20))

    assert second.note.conversation == NEW
    assert total(list(second.ledger.rest())) == Usage(input_tokens=200, output_tokens=1, premium_requests=1, api_ms=10)


def test_what_a_killed_run_used_is_not_told_by_the_next(tmp_path: Path) -> None:
    first = Run(tmp_path, "one")
    first.wrote(record(0, 100))
    assert total(list(first.ledger.rest())).input_tokens == 100

    second = Run(tmp_path, "two", session_id=NEW)
    second.wrote(record(10, 200))
    second.reported(**sums(300, 2, api_ms=20))

    assert total(list(second.ledger.rest())).input_tokens == 200


def test_without_records_the_sums_at_the_last_end_are_its_past(tmp_path: Path) -> None:
    first = Run(tmp_path, "one")
    first.wrote(shutdown(1, **sums(100, 1, premium=1, api_ms=10)))
    second = Run(tmp_path, "two", session_id=NEW)
    second.reported(**sums(300, 2, premium=3, api_ms=30))

    assert total(list(second.ledger.rest())) == Usage(input_tokens=200, output_tokens=1, premium_requests=2, api_ms=20)


def test_where_a_run_began_is_noted_once(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    run.wrote(record(0, 100))

    assert begin(run.work, (run.home,)) == run.note
    assert begun(run.work.run) == run.note == Begun(NEW, run.note.files, 0)


def test_a_conversation_whose_file_is_gone_is_not_gone_on_with(tmp_path: Path) -> None:
    assert Run(tmp_path, "one", session_id=CONVERSATION).note.conversation == NEW


@pytest.mark.parametrize("name", ["../../etc", "", "a/b", "-rf"])
def test_an_id_that_is_no_id_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    assert begin(some_work(session_id=name, new_session_id=""), (tmp_path,)) == Begun("")


def test_files_that_are_missing_or_broken_tell_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    run.wrote("no json\n", '{"type":"session.usage_record","data":{"usage":[]}}\n', "\n")
    (run.directory / REPORT).write_text("{")

    assert list(run.ledger.settled("no time")) == []
    assert list(run.ledger.rest()) == []
    assert list(Ledger(some_work(run=str(tmp_path / "nowhere"))).rest()) == []


def test_a_pipe_in_place_of_its_report_keeps_nobody_waiting(tmp_path: Path) -> None:
    run = Run(tmp_path, "one")
    os.mkfifo(run.directory / REPORT)
    assert list(run.ledger.rest()) == []
