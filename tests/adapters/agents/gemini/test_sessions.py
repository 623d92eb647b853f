"""What is read from the files of the Gemini CLI's conversations, and what is handed back to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.agents.replay import CONVERSATION, some_work

from pilothouse.adapters.agents.gemini.sessions import Begun, begin, begun, once, spent
from pilothouse.core.run.usage import Usage

SESSION = "33333333-2222-4333-8444-555555555555"


def user(name: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "type": "user", "content": list(parts)}


def model(name: str, *calls: dict[str, Any], tokens: int = 10) -> dict[str, Any]:
    used = {"input": tokens, "output": 3, "cached": 2, "thoughts": 1, "total": tokens + 4}
    return {"id": name, "type": "gemini", "content": "", "model": "m1", "tokens": used, "toolCalls": list(calls)}


ANSWER = {"functionResponse": {"id": "c1", "name": "t", "response": {"output": "x"}}}
CALL = {"id": "c1", "name": "t", "args": {}, "result": [ANSWER]}
TALK = [user("u1", {"text": "Go"}), model("m1", CALL), user("u2", ANSWER), model("m2")]


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, *records: Any, session: str = SESSION, project: str = "w", stamp: str = "2026-11-21T15-02") -> Path:
        file = self.path / ".gemini" / "tmp" / project / "chats" / f"session-{stamp}-{session[:8]}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        head = {"sessionId": session, "projectHash": "p", "startTime": "s", "lastUpdated": "l", "kind": "main"}
        file.write_text("".join(json.dumps(record) + "\n" for record in (head, *records)))
        return file


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def start(home: Home, run: Path, **changes: Any) -> Begun:
    run.mkdir(exist_ok=True)
    return begin(some_work(run=str(run), **changes), (str(home.path),))


def handed(note: Begun) -> list[Any]:
    return [json.loads(line) for line in Path(note.file).read_text().splitlines()]


def test_each_answer_of_a_tool_is_handed_over_once(home: Home, tmp_path: Path) -> None:
    home.keep(*TALK)

    head, *messages = handed(start(home, tmp_path / "run", session_id=SESSION))

    assert (head["sessionId"], head["projectHash"]) == (SESSION, "p")
    assert [message["id"] for message in messages] == ["u1", "m1", "m2"]


def test_a_call_without_an_answer_is_not_handed_over() -> None:
    (message,) = once([model("m1", CALL, {"id": "c2", "name": "t", "args": {}})])

    assert [call["id"] for call in message["toolCalls"]] == ["c1"]


def test_what_a_person_said_beside_answers_is_kept() -> None:
    both = user("u2", ANSWER, {"text": "and"})

    assert list(once([both])) == [both]


def test_later_lines_of_a_file_change_earlier_ones(home: Home, tmp_path: Path) -> None:
    home.keep(
        user("u1", {"text": "old"}),
        {"$set": {"messages": [user("u1", {"text": "new"})], "lastUpdated": "later"}},
        model("m1"),
        model("m1", CALL),
        model("m2"),
        {"$rewindTo": "m2"},
        "no record",
    )

    head, *messages = handed(start(home, tmp_path / "run", session_id=SESSION))

    assert head["lastUpdated"] == "later"
    assert "messages" not in head
    assert [(one["id"], len(one.get("toolCalls", []))) for one in messages] == [("u1", 0), ("m1", 1)]
    assert messages[0]["content"] == [{"text": "new"}]


def test_the_fullest_file_of_a_conversation_counts_and_another_ones_does_not(home: Home, tmp_path: Path) -> None:
    home.keep(*TALK, project="imported", stamp="1795273321812")
    home.keep(project="begun")
    home.keep(*TALK, model("m3"), session=f"{SESSION[:8]}-another", project="other")

    assert len(handed(start(home, tmp_path / "run", session_id=SESSION))) == 4


def test_a_conversation_without_an_answer_is_not_gone_on_with(home: Home, tmp_path: Path) -> None:
    home.keep(user("u1", {"text": "Go"}))

    note = start(home, tmp_path / "run", session_id=SESSION)

    assert (note.file, note.session) == ("", CONVERSATION)


def test_a_new_one_gets_an_id_that_is_free(home: Home, tmp_path: Path) -> None:
    assert start(home, tmp_path / "one").session == CONVERSATION
    home.keep(session=CONVERSATION)
    assert start(home, tmp_path / "two").session == ""
    home.keep(*TALK, session=CONVERSATION)
    assert len(handed(start(home, tmp_path / "three"))) == 4
    assert start(home, tmp_path / "one").session == CONVERSATION, "a run begins once"


def test_what_a_run_used_is_what_is_new_in_its_conversation(home: Home, tmp_path: Path) -> None:
    home.keep(*TALK)
    run = tmp_path / "run"
    note = start(home, run, session_id=SESSION)
    home.keep(*handed(note)[1:], model("m3", tokens=50), session="44444444-new", project="w2")

    tally = spent(str(run), "44444444-new")

    assert tally.by_model == {
        "m1": Usage(input_tokens=50, output_tokens=4, cached_tokens=2, reasoning_tokens=1),
    }
    assert not spent(str(run), "gone").by_model
    assert not spent("", SESSION).by_model


@pytest.mark.parametrize("session", ["../../x", "", "*", "a" * 200])
def test_what_can_be_no_id_is_looked_for_nowhere(home: Home, tmp_path: Path, session: str) -> None:
    assert not start(home, tmp_path / "run", session_id=session).file


def test_a_note_that_is_broken_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text("{")

    assert begun(str(tmp_path)) is None


_RECORDS = st.recursive(
    st.none() | st.integers() | st.sampled_from(["gemini", "user", "u1", SESSION]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "type", "content", "toolCalls", "result", "$set", "$rewindTo", "messages", "tokens"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(st.lists(_RECORDS, max_size=6), st.binary(max_size=50))
def test_no_file_is_too_strange_to_be_read(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], junk: bytes
) -> None:
    place = tmp_path_factory.mktemp("home", numbered=True)
    file = Home(place).keep(*records, model("last"))
    with file.open("ab") as more:
        more.write(junk)

    note = start(Home(place), place / "run", session_id=SESSION)
    spent(str(place / "run"), SESSION)

    assert note == begun(str(place / "run"))
