"""Tokens of agents: made of a secret, recognised by it, and by nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.auth.agent_tokens import PREFIX, SECRET_BYTES, make_token, read_token
from pilothouse.core.auth.keys import RANDOM_BYTES, make_key, read_key
from pilothouse.core.auth.principals import Answering
from pilothouse.core.auth.refusals import InvalidKey

SECRET = bytes(range(SECRET_BYTES))
TURN = Answering("01890a5d-ac96-774b-bcce-b302099a8057", 3)
TOKEN = make_token(SECRET, TURN)


@given(turn=st.from_regex(r"[0-9A-Za-z-]{1,64}", fullmatch=True), call=st.integers(1, 999_999_999))
def test_a_token_says_what_its_agent_was_started_for(turn: str, call: int) -> None:
    assert read_token(SECRET, make_token(SECRET, Answering(turn, call))) == Answering(turn, call)


def test_the_same_is_derived_each_time_and_nothing_else_is_kept() -> None:
    assert make_token(SECRET, TURN) == TOKEN
    assert TOKEN.startswith(PREFIX)


@pytest.mark.parametrize("position", range(len(TOKEN)))
def test_a_changed_character_makes_it_another_or_none(position: int) -> None:
    changed = TOKEN[:position] + ("1" if TOKEN[position] != "1" else "2") + TOKEN[position + 1 :]
    with pytest.raises(InvalidKey):
        read_token(SECRET, changed)


@pytest.mark.parametrize(
    "text", ["", PREFIX, TOKEN + " ", " " + TOKEN, TOKEN + "\n", TOKEN[:-1], TOKEN.upper(), "pa_x_0_" + "0" * 64, "é"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey):
        read_token(SECRET, text)


def test_another_server_knows_it_not() -> None:
    with pytest.raises(InvalidKey):
        read_token(bytes(SECRET_BYTES), TOKEN)
    with pytest.raises(ValueError, match="32 bytes"):
        make_token(b"short", TURN)


def test_neither_keys_nor_tokens_are_taken_for_the_other() -> None:
    key = make_key(bytes(RANDOM_BYTES)).text
    assert not key.startswith(PREFIX)
    with pytest.raises(InvalidKey):
        read_token(SECRET, key)
    with pytest.raises(InvalidKey):
        read_key(TOKEN)
