"""What fails in passing is asked again before everybody's eyes, and what failed can be tried again as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, fail, say
from tests.support.models.server import ModelServer
from tests.support.terminal import Desk, desk


@pytest.fixture
def model() -> Iterator[ModelServer]:
    faults = {"busy": [fail(503, "overloaded", 1.0)], "locked": [fail(401, "no such key")] * 2}

    def play(asked: Asked) -> Turn:
        said = asked.text.rpartition("Please be ")[2].split()[:1]
        left = faults.get(said[0], []) if said and "Write a title" not in asked.text else []
        return (left.pop(0),) if left else (say("Here I am."),)

    with ModelServer(play) as server:
        yield server


@pytest.fixture
def at(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    url = f"{model.url}/v1"
    with desk(tmp_path_factory.mktemp("desk"), PILOTHOUSE_LLM_BASE_URL=url, PILOTHOUSE_LLM_MODEL="m") as made:
        yield made


def test_a_model_that_is_overloaded_is_asked_again_and_that_is_said(at: Desk) -> None:
    said = at.run("chat", "Please be busy")
    assert (said.code, said.out) == (0, "Here I am.\n")
    assert said.err.startswith("asked again in 1.0s: ") and said.err.endswith("overloaded\n")


def test_an_answer_that_failed_is_tried_again_as_it_says_until_something_else_was_said(at: Desk) -> None:
    said = at.run("chat", "Please be locked")
    assert (said.code, said.out) == (1, "")
    way_on = re.search(r"`pilothouse (runs retry \S+ --follow)` tries it again", said.err)
    assert way_on is not None
    again = at.run(*way_on[1].split())
    assert (again.code, again.out, way_on[0] in again.err) == (1, "", True)
    again = at.run(*way_on[1].split())
    assert (again.code, again.out) == (0, "Here I am.\n")
    assert at.run(*way_on[1].split()).code == 2  # it has been answered


def test_what_was_said_since_is_why_an_answer_cannot_be_tried_again_and_what_to_do_is_told(at: Desk) -> None:
    assert at.run("chat", "Please be locked").code == 1
    turn_id = at.ask("runs", "list", "--kind", "turn")["runs"][0]["id"]
    assert at.run("chat", "--chat", "last", "hello").code == 1
    refused = at.run("runs", "retry", turn_id)
    assert refused.code == 2
    assert "something was said since" in refused.err and "pilothouse chat --chat " in refused.err


def test_a_conversation_at_the_terminal_tries_again_with_a_word(at: Desk) -> None:
    screen = at.sit_down("chat")
    screen.shows("> ")
    screen.types("/retry")
    screen.shows("there is nothing to try again")
    screen.types("Please be locked")
    screen.shows("/retry tries it again")
    screen.types("/retry")
    screen.shows("401")
    screen.types("/retry")
    screen.shows("Here I am.")
    screen.types("/quit")
    assert screen.wait().code == 0
