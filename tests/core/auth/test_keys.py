"""Keys can be told from everything that is none, without asking anybody."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.auth.keys import PATTERN, RANDOM_BYTES, digest, make_key, read_key
from pilothouse.core.auth.refusals import InvalidKey

RANDOM = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(RANDOM)
def test_a_key_is_read_as_it_was_made(random: bytes) -> None:
    key = make_key(random)
    assert read_key(key.text) == key
    assert key.text.startswith(f"pk_{key.id}_")
    assert set(key.text) <= {*string.ascii_letters, *string.digits, "_"}  # a double click takes all of it
    assert len(key.text) == 64


@given(RANDOM, st.integers(0, 63), st.sampled_from(string.ascii_letters + string.digits))
def test_a_key_with_one_wrong_character_is_known_to_be_mistyped(random: bytes, at: int, wrong: str) -> None:
    text = make_key(random).text
    mistyped = text[:at] + wrong + text[at + 1 :]
    if mistyped != text:
        with pytest.raises(InvalidKey, match="mistyped"):
            read_key(mistyped)


@pytest.mark.parametrize("odd", ["", "pk_", "pk__", "sk_abc", "x" * 10_000, "pk_\u0661\u0662", "\udc80"])
def test_what_is_no_key_is_refused_whatever_it_is(odd: str) -> None:
    with pytest.raises(InvalidKey):
        read_key(odd)


def test_a_key_with_something_around_it_is_none() -> None:
    text = make_key(bytes(RANDOM_BYTES)).text
    for odd in (f" {text}", f"{text}\n", f"{text}x", text[:-1]):
        with pytest.raises(InvalidKey):
            read_key(odd)


def test_keys_of_different_randomness_differ_in_id_and_digest() -> None:
    keys = [make_key(bytes([n]) * RANDOM_BYTES) for n in (0, 1, 255)]
    assert len({key.id for key in keys}) == len({digest(key) for key in keys}) == 3


def test_the_digest_does_not_hold_the_key() -> None:
    key = make_key(bytes(range(RANDOM_BYTES)))
    assert len(digest(key)) == 64
    assert digest(key) not in key.text
    assert key.text not in digest(key)


def test_a_scanner_finds_a_key_in_a_text() -> None:
    key = make_key(bytes(range(RANDOM_BYTES)))
    found = PATTERN.search(f"KEY={key.text} # oops")
    assert found is not None
    assert read_key(found[0]) == key


def test_too_little_randomness_makes_no_key() -> None:
    with pytest.raises(ValueError, match="40 bytes"):
        make_key(b"1234")
