"""A secret does not come through, however what is said is cut; everything else does, and nothing waits without need."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.chat.backend import (
    BackendEvent,
    ChatKnown,
    Completed,
    ConversationKnown,
    Failed,
    Noticed,
    NotUnderstood,
    Said,
    Spent,
    Thought,
    Titled,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
)
from pilothouse.core.chat.hiding import HIDDEN, Hiding, Secrets

KEY = 'sk-"loop"-3141'
SECRETS = Secrets([KEY])


def told(said: Sequence[BackendEvent], secrets: Secrets = SECRETS) -> list[BackendEvent]:
    hiding = Hiding(secrets)
    return [event for one in said for event in hiding.feed([one])] + hiding.end()


def text_of(said: Sequence[BackendEvent]) -> str:
    return "".join(one.delta if isinstance(one, ToolArguments) else getattr(one, "text", "") for one in said)


def cut(text: str, at: Sequence[int]) -> list[str]:
    edges = [0, *sorted({place % (len(text) + 1) for place in at}), len(text)]
    return [text[start:stop] for start, stop in itertools.pairwise(edges)]


PIECE = st.sampled_from([Said, Thought, lambda text: ToolArguments(id="c", delta=text)])
CUTS = st.lists(st.integers(0, 500), max_size=20)


@given(PIECE, st.text(max_size=30), st.text(max_size=30), CUTS)
def test_a_secret_in_pieces_is_hidden_in_every_kind_of_text(
    piece: Any, before: str, after: str, cuts: list[int]
) -> None:
    said = [piece(text) for text in cut(f"{before}{KEY}{after}", cuts)]
    assert text_of(told(said)) == f"{before}{HIDDEN}{after}"


BESIDE = st.sampled_from(
    [
        Spent(input_tokens=1),
        Noticed(kind="compaction"),
        ConversationKnown("c"),
        ChatKnown("c"),
        Titled("Greetings"),
        NotUnderstood(why="no JSON"),
    ]
)


@given(PIECE, CUTS, st.lists(BESIDE, min_size=1, max_size=3))
def test_a_secret_in_pieces_is_hidden_whatever_is_told_beside_them(
    piece: Any, cuts: list[int], beside: list[BackendEvent]
) -> None:
    said = [event for text in cut(f"a{KEY}b", cuts) for event in (piece(text), *beside)]
    heard = told(said)
    texts = [event for event in heard if isinstance(event, Said | Thought | ToolArguments)]
    assert text_of(texts) == f"a{HIDDEN}b"
    assert [event for event in heard if event not in texts] == [event for event in said if event in beside]


@given(PIECE, st.lists(st.text(alphabet='sk-"lop\ud800ö', max_size=8), max_size=20))
def test_what_is_no_secret_comes_through_letter_by_letter(piece: Any, texts: list[str]) -> None:
    said = [piece(text) for text in texts]
    whole = "".join(texts)
    assert text_of(told(said)) == whole.replace(KEY, HIDDEN)


def test_no_letter_waits_that_cannot_begin_a_secret_and_no_more_than_a_secret_waits() -> None:
    hiding = Hiding(SECRETS)
    assert hiding.feed([Said("Hello, wor")]) == [Said("Hello, wor")]
    assert hiding.feed([Said("ld. sk-")]) == [Said("ld. ")]
    assert hiding.feed([Said("ill")]) == [Said("sk-ill")]
    assert hiding.feed([Said("s")]) == []
    assert hiding.feed([Completed()]) == [Said("s"), Completed()]


def test_in_arguments_it_is_hidden_as_json_writes_it_and_their_order_stays() -> None:
    written = json.dumps({"a": KEY})
    said: list[BackendEvent] = [ToolArguments(id="c", delta=letter) for letter in written]
    heard = told([*said, ToolCalled(id="c", name="t", arguments={"a": KEY, "b": [KEY]})])
    assert json.loads(text_of(heard)) == {"a": HIDDEN}
    assert heard[-1] == ToolCalled(id="c", name="t", arguments={"a": HIDDEN, "b": [HIDDEN]})


def test_lanes_and_calls_that_come_side_by_side_are_texts_of_their_own() -> None:
    half, rest = KEY[:6], KEY[6:]
    said: list[BackendEvent] = [Said(half), Said(half, "a"), Said("x", "b"), Said(rest, "a"), Said(rest)]
    assert told(said) == [Said("x", "b"), Said(HIDDEN, "a"), Said(HIDDEN)]
    calls: list[BackendEvent] = [ToolArguments(id=id, delta=part) for part in (half, rest) for id in ("c", "d")]
    assert told(calls) == [ToolArguments(id="c", delta=HIDDEN), ToolArguments(id="d", delta=HIDDEN)]


def test_bounds_of_thoughts_stay_where_they_are() -> None:
    said: list[BackendEvent] = [
        Thought(begins=True),
        Thought("ask"),
        Thought("s", begins=True),
        Thought(ends=True),
        Said("k"),
    ]
    assert told(said) == [
        Thought(begins=True),
        Thought("a"),
        Thought("sk"),
        Thought(begins=True),
        Thought("s", ends=True),
        Said("k"),
    ]


def test_it_is_hidden_in_results_errors_and_what_could_not_be_understood() -> None:
    said: list[BackendEvent] = [
        ToolAnswered(id="c", success=False, result={KEY: [1, {"a": f"x{KEY}"}]}, error=KEY),
        Failed(message=KEY, shown=f"a {KEY}"),
        NotUnderstood(why=KEY, payload=KEY),
    ]
    assert KEY not in repr(told(said))
    assert repr(told(said)).count(HIDDEN) == 7


@pytest.mark.parametrize("depth", [100, 5_000])
def test_a_result_of_any_depth_neither_brings_it_nor_breaks_anything(depth: int) -> None:
    deep: Any = KEY
    for _ in range(depth):
        deep = [deep]
    (answered,) = told([ToolAnswered(id="c", success=True, result=deep)])
    assert isinstance(answered, ToolAnswered)
    assert depth > 1_000 or KEY not in repr(answered.result)


@pytest.mark.parametrize("secrets", [Secrets([]), Secrets([""]), Secrets(["short"])])
def test_without_a_secret_nothing_is_touched(secrets: Secrets) -> None:
    said: list[BackendEvent] = [Said("short"), Failed(message="short")]
    assert told(said, secrets) == said


def test_what_is_held_back_of_ever_more_calls_is_bounded() -> None:
    hiding = Hiding(SECRETS)
    heard = [event for n in range(2_000) for event in hiding.feed([ToolArguments(id=str(n), delta="sk")])]
    assert len(heard) > 1_500
    assert text_of([*heard, *hiding.end()]) == "sk" * 2_000
