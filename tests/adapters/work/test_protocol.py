"""Lines between a warden and its clients."""

from __future__ import annotations

import pytest

from pilothouse.adapters.work.protocol import Lines, ProtocolError, encode


def test_messages_arrive_however_the_stream_is_cut() -> None:
    stream = encode({"op": "a", "text": "ü\n"}) + encode({"op": "b"})
    for size in range(1, len(stream) + 1):
        lines = Lines()
        found = [m for at in range(0, len(stream), size) for m in lines.feed(stream[at : at + size])]
        assert found == [{"op": "a", "text": "ü\n"}, {"op": "b"}]


def test_undecodable_bytes_of_an_environment_survive() -> None:
    text = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert Lines().feed(encode({"v": text})) == [{"v": text}]


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b"\n", b"\xff\n"])
def test_what_is_not_one_object_per_line_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        Lines().feed(line)


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    lines = Lines(limit=100)
    with pytest.raises(ProtocolError):
        for _ in range(20):
            lines.feed(b"x" * 10)
