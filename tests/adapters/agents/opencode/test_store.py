"""What is read from OpenCode's database, and that nothing is wrong where it cannot be."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import some_work

from pilothouse.adapters.agents.opencode.store import begin, begun, model_of, spent_below
from pilothouse.core.run.usage import Usage

SESSION = "ses_1"


class Database:
    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._do("CREATE TABLE session (id text, parent_id text, directory text)")
        self._do("CREATE TABLE message (id text, session_id text, data text)")

    def _do(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(statement, values)
        connection.close()

    def session(self, name: str, parent: str | None = None) -> None:
        self._do("INSERT INTO session VALUES (?, ?, '/w')", name, parent)

    def answer(self, name: str, session: str, tokens: int, model: str = "m1", role: str = "assistant") -> None:
        data = {"role": role, "modelID": model, "tokens": {"input": tokens, "output": 2, "reasoning": 1}}
        self._do("INSERT INTO message VALUES (?, ?, ?)", name, session, json.dumps(data))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "opencode.db")


def test_what_agents_below_used_is_told_by_model_and_only_once(database: Database, tmp_path: Path) -> None:
    database.session(SESSION)
    database.session("ses_2", SESSION)
    database.session("ses_3", "ses_2")
    database.session("ses_other")
    database.answer("a", SESSION, 1_000)
    database.answer("b", "ses_2", 10)
    database.answer("c", "ses_other", 100)
    begin(some_work(run=str(tmp_path), session_id=SESSION), (database.path,))
    database.answer("d", "ses_2", 20)
    database.answer("e", "ses_3", 30, "m2")
    database.answer("f", "ses_3", 99, role="user")

    told = list(spent_below(str(tmp_path), SESSION))

    assert told == list(spent_below(str(tmp_path), SESSION))
    assert {one.model: one.usage for one in told} == {
        "m1": Usage(input_tokens=20, output_tokens=3, reasoning_tokens=1, turns=1),
        "m2": Usage(input_tokens=30, output_tokens=3, reasoning_tokens=1, turns=1),
    }


def test_of_a_new_conversation_everything_is_new(database: Database, tmp_path: Path) -> None:
    begin(some_work(run=str(tmp_path)), (database.path,))
    database.session(SESSION)
    database.session("ses_2", SESSION)
    database.answer("a", "ses_2", 10)

    assert [one.usage.input_tokens for one in spent_below(str(tmp_path), SESSION)] == [10]


def test_the_model_of_an_answer_is_known(database: Database, tmp_path: Path) -> None:
    begin(some_work(run=str(tmp_path)), (str(tmp_path / "none.db"), database.path))
    database.answer("a", SESSION, 1, "m7")

    assert model_of(str(tmp_path), "a") == "m7"
    assert model_of(str(tmp_path), "b") == ""


def test_a_run_begins_once(database: Database, tmp_path: Path) -> None:
    work = some_work(run=str(tmp_path), session_id=SESSION)
    first = begin(work, (database.path,))
    database.session(SESSION)

    assert begin(work, (database.path,)) == first
    assert not first.session


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_where_nothing_can_be_read_nothing_is_wrong(tmp_path: Path, content: bytes) -> None:
    broken = tmp_path / "opencode.db"
    broken.write_bytes(content)

    note = begin(some_work(run=str(tmp_path), session_id=SESSION), (str(broken), str(tmp_path / "none.db")))

    assert not note.session
    assert list(spent_below(str(tmp_path), SESSION)) == []
    assert model_of("", "a") == ""
    (tmp_path / "conversation.json").write_bytes(b"{")
    assert begun(str(tmp_path)) is None


def test_answers_that_are_kept_otherwise_are_left_out(database: Database, tmp_path: Path) -> None:
    database.session(SESSION)
    database.session("ses_2", SESSION)
    database._do("INSERT INTO message VALUES ('a', 'ses_2', ?)", '{"role": "assistant", "tokens": 7}')
    database.answer("b", "ses_2", 10)
    begin(some_work(run=str(tmp_path)), (database.path,))

    assert [one.usage.input_tokens for one in spent_below(str(tmp_path), SESSION)] == [10]
