"""What agents have written down of the tokens of a conversation."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pilothouse.adapters.agents.acp.meters import METERS, difference, read
from pilothouse.core.run.usage import Usage


def count(given: int, told: int) -> str:
    total = {"input_tokens": given, "cached_input_tokens": 5, "output_tokens": told, "reasoning_output_tokens": 3}
    return json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": total}}})


def rollout(home: Path, conversation: str, *lines: str) -> None:
    place = home / "sessions" / "2026" / "01" / "02"
    place.mkdir(parents=True)
    (place / f"rollout-2026-01-02T03-04-05-{conversation}.jsonl").write_text("\n".join(lines))


def database(data: Path, *row: object) -> None:
    (data / "opencode").mkdir(parents=True)
    names = ("input", "output", "reasoning", "cache_read", "cache_write")
    with closing(sqlite3.connect(data / "opencode" / "opencode.db")) as made, made:
        made.execute(f"CREATE TABLE session (id TEXT, {', '.join(f'tokens_{name} INTEGER' for name in names)})")
        made.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)


def test_the_last_count_of_codex_is_of_all_of_the_conversation(tmp_path: Path) -> None:
    nothing = '{"type":"event_msg","payload":{"type":"token_count","info":null}}'
    rollout(tmp_path, "c-1", count(10, 4), count(20, 8), "no line of its", nothing)

    assert read("codex", {"CODEX_HOME": str(tmp_path)}, "", "c-1") == Usage(
        input_tokens=20, output_tokens=8, cached_tokens=5, reasoning_tokens=3
    )
    assert read("codex", {"CODEX_HOME": str(tmp_path)}, "", "c-2") is None


def test_opencode_counts_cached_tokens_and_reasoning_beside_the_others(tmp_path: Path) -> None:
    database(tmp_path, "s-1", 100, 10, 3, 50, 7)

    assert read("opencode", {"XDG_DATA_HOME": str(tmp_path)}, "", "s-1") == Usage(
        input_tokens=157, output_tokens=13, cached_tokens=50, cache_write_tokens=7, reasoning_tokens=3
    )
    assert read("opencode", {"XDG_DATA_HOME": str(tmp_path)}, "", "s-2") is None


def test_records_that_are_not_as_they_were_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "opencode").mkdir()
    (tmp_path / "opencode" / "opencode.db").write_text("no database")
    rollout(tmp_path, "c-1", '{"payload": {"type": "token_count", "info": 1}}')

    assert read("opencode", {"XDG_DATA_HOME": str(tmp_path)}, "", "s-1") is None
    assert read("codex", {"CODEX_HOME": str(tmp_path)}, "", "c-1") is None


@pytest.mark.parametrize("name", METERS)
def test_without_any_records_nothing_is_told(name: str, tmp_path: Path) -> None:
    assert read(name, {"HOME": str(tmp_path)}, "", "x") is None
    assert list(tmp_path.iterdir()) == []


def test_what_was_used_in_between_is_never_less_than_nothing() -> None:
    before = Usage(input_tokens=10, output_tokens=5)

    assert difference(before, Usage(input_tokens=15, output_tokens=4)) == Usage(input_tokens=5)
