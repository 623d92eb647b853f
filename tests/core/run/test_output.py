"""Segments of an output, names of outputs, and secrets that never reach one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilothouse.core.run.output import (
    PLACEHOLDER,
    Redactor,
    Segment,
    dropped,
    last_lines,
    output_parts,
    pieces,
    segment_name,
    segment_start,
    tail_start,
)
from pilothouse.errors import BadInput

few_letters = st.binary(max_size=40).map(lambda data: bytes(97 + byte % 3 for byte in data))


def redact(secrets: list[bytes], chunks: list[bytes]) -> bytes:
    redactor = Redactor(secrets)
    return b"".join(map(redactor.feed, chunks)) + redactor.flush()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[begin:end] for begin, end in pairwise(places)]


def reference(secrets: list[bytes], data: bytes) -> bytes:
    """The same thing said slowly: cover every byte of every occurrence, one placeholder per overlapping group."""
    intervals = sorted(
        (place, place + len(secret))
        for secret in set(secrets)
        if secret
        for place in range(len(data))
        if data.startswith(secret, place)
    )
    out, position = b"", 0
    for begin, end in intervals:
        if begin >= position:
            out += data[position:begin] + PLACEHOLDER
        position = max(position, end)
    return out + data[position:]


@given(st.lists(few_letters, max_size=4), few_letters, st.lists(st.integers(0, 100), max_size=6))
@example([b"ab", b"bab"], b"abab", [2])
@example([b"aa"], b"aaaaaa", [1, 2, 3])
def test_redaction_does_not_depend_on_how_the_stream_is_cut(secrets: list[bytes], data: bytes, at: list[int]) -> None:
    assert redact(secrets, cut(data, at)) == reference(secrets, data)


def test_only_what_could_become_a_secret_is_held_back() -> None:
    redactor = Redactor(["hunter2"])
    assert redactor.feed(b"your name: ") == b"your name: "
    assert redactor.feed(b"high hun") == b"high "
    assert redactor.feed(b"g") == b"hung"
    assert redactor.feed(b"hunter") == b""
    assert redactor.feed(b"2!") == b"[redacted]!"
    assert redactor.flush() == b""


def test_what_was_held_back_comes_with_the_flush() -> None:
    redactor = Redactor(["hunter2"])
    assert redactor.feed(b"a hunter") == b"a "
    assert redactor.flush() == b"hunter"


def test_without_secrets_chunks_pass_untouched() -> None:
    chunk = b"x" * 1000
    assert Redactor([]).feed(chunk) is chunk
    assert Redactor(["", b""]).feed(chunk) is chunk


def test_an_endless_run_of_overlapping_secrets_does_not_pile_up() -> None:
    redactor = Redactor(["aa"])
    assert b"".join(redactor.feed(b"a" * 1000) for _ in range(100)) == PLACEHOLDER
    assert redactor.flush() == b""


def test_a_secret_that_repeats_itself_is_one_occurrence_where_it_overlaps() -> None:
    found = Redactor(["--------"])._occurrences(b"-" * 5000 + b"|" + b"-" * 8)
    assert found == [(0, 5000), (5001, 5009)]


def test_secrets_in_any_language_are_found_as_utf8() -> None:
    secret = "Schlüssel"
    encoded = secret.encode()
    assert redact([encoded], [encoded[:5], encoded[5:]]) == PLACEHOLDER
    assert Redactor([secret]).feed(encoded) == PLACEHOLDER


def test_segment_names_sort_by_offset_and_are_read_back() -> None:
    assert segment_name(0) == "000000000000.out"
    assert [segment_start(segment_name(start)) for start in (0, 4 << 20, 10**13)] == [0, 4 << 20, 10**13]
    assert [segment_start(name) for name in ("x", "0.out", "000000000000.txt", "exit")] == [None] * 4


@pytest.mark.parametrize(
    ("starts", "gone"),
    [([], []), ([0], []), ([0, 4, 8, 12], []), ([0, 4, 8, 12, 16], [8]), ([16, 0, 4, 12, 8, 20], [8, 12])],
)
def test_beyond_the_cap_the_middle_segments_are_dropped(starts: list[int], gone: list[int]) -> None:
    assert dropped(starts) == gone


def test_head_and_tail_kept_may_be_chosen() -> None:
    assert dropped([0, 1, 2, 3], head=0, tail=1) == [0, 1, 2]
    assert dropped([0, 1, 2, 3], head=1, tail=0) == [1, 2, 3]


KEPT = [Segment(0, 4), Segment(4, 4), Segment(20, 4), Segment(24, 2)]


@pytest.mark.parametrize(
    ("start", "limit", "expected"),
    [
        (0, 100, [(KEPT[0], 0, 4), (KEPT[1], 0, 4)]),
        (3, 2, [(KEPT[0], 3, 1), (KEPT[1], 0, 1)]),
        (8, 100, [(KEPT[2], 0, 4), (KEPT[3], 0, 2)]),
        (12, 1, [(KEPT[2], 0, 1)]),
        (25, 100, [(KEPT[3], 1, 1)]),
        (26, 100, []),
        (0, 0, []),
    ],
)
def test_a_read_goes_from_the_next_kept_offset_to_the_next_gap(
    start: int, limit: int, expected: list[tuple[Segment, int, int]]
) -> None:
    assert pieces(KEPT, start, limit) == expected


def test_a_tail_begins_behind_the_last_gap() -> None:
    assert tail_start(KEPT) == 20
    assert tail_start([]) == 0
    assert tail_start(KEPT[:2]) == 0


@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [(b"a\nb\nc\n", 2, "b\nc"), (b"a\nb", 1, "b"), (b"", 3, ""), (b"a\n", 0, ""), (b"\xff\n", 1, "\ufffd")],
)
def test_the_last_lines_are_text(data: bytes, lines: int, expected: str) -> None:
    assert last_lines(data, lines) == expected


def test_an_output_name_is_a_relative_path() -> None:
    assert output_parts("run/node/1/work") == ("run", "node", "1", "work")
    assert output_parts("a..b/...") == ("a..b", "...")


@pytest.mark.parametrize("name", ["", "/", "/a", "a/", "a//b", "..", "a/..", ".", "a\0", "a\\b", "000000000000.out"])
def test_a_name_that_could_leave_the_directory_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        output_parts(name)
