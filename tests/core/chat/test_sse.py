"""Server-sent events, however the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.chat.sse import EventTooLong, SseDecoder


def decode(*chunks: bytes) -> list[bytes]:
    decoder = SseDecoder()
    return [payload for chunk in chunks for payload in decoder.feed(chunk)] + decoder.end()


def test_each_event_is_a_payload() -> None:
    assert decode(b'data: {"a":1}\n\ndata:{"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_three_ways(end: bytes) -> None:
    assert decode(end.join([b"data: a", b"", b"data: b", b"", b""])) == [b"a", b"b"]


def test_several_data_lines_are_one_payload() -> None:
    assert decode(b"data: a\ndata:\ndata\ndata:  b\n\n") == [b"a\n\n\n b"]


def test_comments_and_other_fields_are_passed_over() -> None:
    assert decode(b": keepalive\n\nevent: x\nid: 7\nretry: 10\ndata: a\nnonsense\n\n") == [b"a"]


def test_an_end_mark_is_no_event() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\ndata: [DONE]\n\n") == [b"a"]
    assert decoder.done


def test_a_last_event_without_its_blank_line_is_not_lost() -> None:
    assert decode(b"data: a\n\ndata: b") == [b"a", b"b"]
    assert decode(b"data: a\n\ndata: b\n") == [b"a", b"b"]


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert decode(b"\xef\xbb", b"\xbfdata: a\n\n") == [b"a"]
    assert decode(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]


@pytest.mark.parametrize("chunks", [[b"data: " + b"x" * 100], [b"data: " + b"x" * 30 + b"\n"] * 4])
def test_an_event_that_never_ends_does_not_take_all_memory(chunks: list[bytes]) -> None:
    decoder = SseDecoder(limit=64)
    with pytest.raises(EventTooLong):
        for chunk in chunks:
            decoder.feed(chunk)


LINES = st.lists(
    st.sampled_from(
        [b"data: a", b"data:b", b"data", b"data: [DONE]", b"", b"", b": c", b"id: 1", b"data: \xc3\xa9", b"x"]
    ),
    max_size=12,
)


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
def test_where_the_network_cuts_makes_no_difference(lines: list[bytes], end: bytes, data: st.DataObject) -> None:
    whole = b"".join(line + end for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    edges = [0, *cuts, len(whole)]
    assert decode(*(whole[a:b] for a, b in pairwise(edges))) == decode(whole)


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_no_bytes_break_it(chunks: list[bytes]) -> None:
    decode(*chunks)
