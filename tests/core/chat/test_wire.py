"""Whole streams: however a network splits them, and however fast they are read, the same is said."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.chat.backend import BackendEvent, Completed, NotUnderstood, Said
from pilothouse.core.chat.envelope import EnvelopeReader
from pilothouse.core.chat.sse import SseDecoder
from pilothouse.core.chat.untyped import UntypedReader
from pilothouse.core.chat.wire import WireReader

TEXT = st.text(alphabet='aé✓ \\"{}[],:\u2028', max_size=6)
UNTYPED = st.one_of(
    TEXT.map(lambda text: {"type": "content", "data": text}),
    TEXT.map(lambda text: {"type": "content", "data": {"content": text}}),
    TEXT.map(lambda text: {"type": "content", "data": text, "subagent": "research"}),
    TEXT.map(lambda text: {"type": "reasoning", "data": {"data": text}}),
    st.just({"type": "content", "data": 3}),
    st.just({"type": "subagent_start", "subagent": "research", "data": {"tool_call_id": "c1"}}),
    st.just({"type": "unheard_of"}),
)
ENVELOPED = st.one_of(
    TEXT.map(lambda text: {"v": 1, "type": "text", "payload": {"channel": "assistant", "text": text}}),
    TEXT.map(lambda text: {"v": 1, "type": "text", "payload": {"channel": "thinking", "text": text}}),
    TEXT.map(lambda text: {"v": 1, "type": "text", "scope": {"parentToolCallId": "c1"}, "payload": {"text": text}}),
    st.just({"v": 1, "type": "text", "payload": {"text": None}}),
    st.just({"v": 2, "type": "text", "payload": {"text": "later"}}),
)
RUBBISH = st.sampled_from([b"{broken", b'{"a":1} {"b":2}', b'{"type":', b'"content"}', b"[]", b"{}{}", b"\xff", b"3"])
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r"])
BETWEEN = st.sampled_from([b"", b"", b"", b": keepalive", b"id: 7", b"event: x"])
WIRES = (
    ("untyped", UNTYPED, b'{"type":"content","data":"first"}'),
    ("enveloped", ENVELOPED, b'{"v":1,"type":"text","payload":{"text":"first"}}'),
)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire[0])
@given(data=st.data())
def test_a_stream_says_the_same_however_it_is_split(
    wire: tuple[str, st.SearchStrategy[object], bytes], data: st.DataObject
) -> None:
    name, events, first = wire
    made = st.one_of(events.map(msgspec.json.encode), RUBBISH)
    payloads = [first, *data.draw(st.lists(made, max_size=12))]
    stream = b""
    for payload in payloads:
        end, between = data.draw(ENDS), data.draw(BETWEEN)
        stream += (between + end if between else b"") + b"data: " + payload + end + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = WireReader()
    said: list[BackendEvent] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        said += reader.feed(stream[start:stop])
    said += reader.end()
    alone = UntypedReader() if name == "untyped" else EnvelopeReader()
    assert joined(said) == joined([one for payload in payloads for one in alone.read(payload)])


def test_a_chunk_of_text_is_one_piece_and_what_stands_between_keeps_its_place() -> None:
    stream = b"".join(
        b'data: {"type":"content","data":"%d"}\n\n' % number if number % 5 else b'data: {"type":"stream_end"}\n\n'
        for number in range(1, 12)
    )
    reader = WireReader()
    said = reader.feed(stream)
    assert [one.text if isinstance(one, Said) else "-" for one in said] == ["1", "234", "-", "6789", "-", "11"]


def test_one_that_is_broken_costs_only_itself() -> None:
    reader = WireReader()
    good = b'data: {"type":"content","data":"x"}\n\n'
    said = reader.feed(3 * good + b"data: {oops\n\n" + 3 * good)
    assert "".join(one.text for one in said if isinstance(one, Said)) == 6 * "x"
    assert [one.payload for one in said if isinstance(one, NotUnderstood)] == ["{oops"]


def test_values_that_together_make_as_many_as_there_are_events_are_no_events() -> None:
    reader = WireReader()
    first = b'data: {"type":"content","data":"a"}\n\n'
    said = reader.feed(first + b'data: {"type":"content",\n\ndata: "data":"b"}\n\ndata: {}{}\n\n' + first)
    assert "".join(one.text for one in said if isinstance(one, Said)) == "aa"
    assert len([one for one in said if isinstance(one, NotUnderstood)]) == 3


def test_the_wire_shows_at_the_first_event_that_is_understood() -> None:
    reader = WireReader()
    assert isinstance(reader.feed(b"data: what?\n\n")[0], NotUnderstood)
    assert not reader.enveloped
    said = reader.feed(b'data: {"v":1,"type":"complete","payload":{"status":"complete"}}\n\n')
    assert isinstance(said[-1], Completed)
    assert reader.enveloped


def test_a_long_event_in_many_pieces_is_one() -> None:
    decoder = SseDecoder()
    found = [one for _ in range(2000) for one in decoder.feed(b"data: " if _ == 0 else 1000 * b"x")]
    assert found == []
    assert len(decoder.feed(b"\n\n")[0]) == 1999 * 1000


def joined(said: Sequence[BackendEvent]) -> list[BackendEvent]:
    """Text that follows text of its lane is one; nothing said is nothing."""
    found: list[BackendEvent] = []
    for one in said:
        last = found[-1] if found else None
        if isinstance(one, Said) and not one.text:
            continue
        if isinstance(one, Said) and isinstance(last, Said) and one.lane == last.lane:
            found[-1] = Said(last.text + one.text, one.lane)
        else:
            found.append(one)
    return found
