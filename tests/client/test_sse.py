"""Decoding server-sent events, wherever the network cuts."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.client.sse import Decoder, Message

STREAM = (
    b": connected\n\n"
    b"id: 1\ndata: one\n\n"
    b"event: hello\r\nid:2\r\ndata: two\r\ndata:  lines\r\n\r\n"
    b": keepalive\r\r"
    b"data\r\r"
    b"data: \xe2\x80\xa8 is no end of a line\n\n"
    b"id: 9\ndata: never finished\n"
)
MESSAGES = [
    Message(b"one", "1"),
    Message(b"two\n lines", "2", "hello"),
    Message(b"", "2"),
    Message(b"\xe2\x80\xa8 is no end of a line", "2"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_it_does_not_matter_where_the_stream_is_cut(cuts: list[int]) -> None:
    decoder, found = Decoder(), []
    places = [0, *sorted(cuts), len(STREAM)]
    for begin, end in itertools.pairwise(places):
        found += decoder.feed(STREAM[begin:end])
    assert found == MESSAGES
