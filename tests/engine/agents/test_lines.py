"""Lines of an output that is read in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.engine.agents.lines import Gap, Line, Lines


def read(*pieces: tuple[int, bytes], limit: int = 100) -> list[Line | Gap]:
    lines = Lines(limit)
    for start, data in pieces:
        lines.feed(start, data)
    lines.finish()
    return list(lines.take())


def test_a_line_ends_where_its_end_does() -> None:
    assert read((0, b"one\ntwo\n")) == [Line(b"one", 4), Line(b"two", 8)]


def test_a_line_may_come_in_pieces() -> None:
    assert read((0, b"o"), (1, b"n"), (2, b"e\nt"), (5, b"wo\n")) == [Line(b"one", 4), Line(b"two", 8)]


def test_what_is_not_whole_waits_until_the_output_has_ended() -> None:
    lines = Lines()
    lines.feed(0, b"one\ntw")
    assert list(lines.take()) == [Line(b"one", 4)]
    lines.finish()
    assert list(lines.take()) == [Line(b"tw", 6)]


def test_an_end_of_another_system_is_no_part_of_the_line_and_empty_lines_are_none() -> None:
    assert read((0, b"one\r\n\n\r\ntwo")) == [Line(b"one", 5), Line(b"two", 11)]


def test_what_was_not_kept_is_a_gap_up_to_the_next_whole_line() -> None:
    assert read((0, b"one\nbegun"), (100, b"rest\ntwo\n")) == [
        Line(b"one", 4),
        Gap("not kept", 100, 105),
        Line(b"two", 109),
    ]


def test_a_gap_may_last_over_several_pieces_and_to_the_end() -> None:
    assert read((50, b"middle"), (56, b"of a line")) == [Gap("not kept", 65, 65)]


def test_a_line_that_is_too_long_is_left_out_and_the_next_one_is_read() -> None:
    assert read((0, b"x" * 60), (60, b"x" * 60), (120, b"x\nnext\n")) == [
        Gap("one line that is too long", 121, 122),
        Line(b"next", 127),
    ]


def test_whoever_stops_taking_finds_the_rest_later() -> None:
    lines = Lines()
    lines.feed(0, b"one\ntwo\n")
    assert next(iter(lines.take())) == Line(b"one", 4)
    assert list(lines.take()) == [Line(b"two", 8)]


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\r", b"")), st.lists(st.integers(1, 9), max_size=40))
def test_how_it_is_cut_makes_no_difference(data: bytes, sizes: list[int]) -> None:
    pieces, position = [], 0
    for size in sizes:
        pieces.append((position, data[position : position + size]))
        position = min(len(data), position + size)
    pieces.append((position, data[position:]))
    found = read(*pieces)
    assert found == read((0, data))
    assert [line.data for line in found if isinstance(line, Line)] == [line for line in data.split(b"\n") if line]
