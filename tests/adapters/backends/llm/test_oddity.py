"""Servers that nearly speak a wire: whatever they send, a turn goes on or ends with words that say what was odd."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.backends.llm.asking import KEY, answer, config, request, said, unpriced
from tests.support.models.parts import call, say, think, usage
from tests.support.models.server import ModelServer

from pilothouse.adapters.backends.llm import bounds, oddity
from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.adapters.backends.llm.leg import MOST_TOKENS
from pilothouse.core.chat.backend import BackendEvent, Spent
from pilothouse.errors import BackendFailed

WIRES = ("openai", "openai-responses", "anthropic")
HOSTILE: Sequence[Any] = (
    *(-1, -7, 10**9, 10**30, 1.5, float("nan"), True, None, "0", "x", "", "\ud800", "\0"),
    *([], [None], [[[[1]]]], {}, {"a": 1}, "[" * 5_000, "LEFT OUT", "TWICE"),
)
_OF_PYTHON = re.compile(r"\b[A-Z]\w*(Error|Exception|Behavior)\b|has no attribute|object is not|unhashable|Traceback")

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn of odd fields, each in its own way


@cache
def recorded(wire: str) -> tuple[bytes, ...]:
    """The events of an ordinary answer."""
    chunks: list[bytes] = []
    real = oddity.seen

    async def noted(stream: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        async for chunk in real(stream):
            chunks.append(chunk)
            yield chunk

    turn = (think("hm"), say("Hello you"), call("look", {"q": "a"}), call("look", {"q": "b"}), usage(10, 5))
    with pytest.MonkeyPatch.context() as patch, ModelServer([turn]) as server:
        patch.setattr(bounds, "seen", noted)
        answer(config(server, wire), request())
    return tuple(event for event in b"".join(chunks).split(b"\n\n") if event.strip())


def payload(event: bytes) -> Any:
    found = re.search(rb"^data: ?(\{.*)$", event, re.MULTILINE)
    return json.loads(found[1]) if found else None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def changed(event: bytes, path: tuple[Any, ...], odd: Any) -> bytes:
    whole = {"": payload(event)}
    at: Any = whole
    *way, last = ("", *path)
    for key in way:
        at = at[key]
    if odd == "LEFT OUT" and path:
        del at[last]
    elif odd == "TWICE":
        if isinstance(at, list):
            at.append(copy.deepcopy(at[last]))
    else:
        at[last] = odd
    return re.sub(rb"^data: ?.*$", lambda _: b"data: " + json.dumps(whole[""]).encode(), event, flags=re.MULTILINE)


class Server:
    """Says the same to everybody. A backend that asks it, both in a loop of their own."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._body = b""
        self._loop = asyncio.Runner()

    def __enter__(self) -> Server:
        self._loop.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._close())
        self._loop.close()

    def heard(self, events: Sequence[bytes]) -> list[BackendEvent] | BackendFailed:
        async def act() -> list[BackendEvent] | BackendFailed:
            try:
                async with asyncio.timeout(20):
                    return await said(self._backend, request())
            except BackendFailed as error:
                return error

        self._body = b"".join(event + b"\n\n" for event in events)
        return self._loop.run(act())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        place = url if self._wire == "anthropic" else f"{url}/v1"
        self._backend = LlmBackend(LlmConfig(self._wire, place, KEY, "fake-1"), unpriced)

    async def _close(self) -> None:
        await self._backend.close()
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + self._body)
        await writer.drain()
        writer.close()


def heard(wire: str, events: Sequence[bytes]) -> list[BackendEvent] | BackendFailed:
    with Server(wire) as server:
        return server.heard(events)


def one_changed(wire: str, needle: bytes, path: tuple[Any, ...], odd: Any) -> list[BackendEvent] | BackendFailed:
    """What comes of the answer when the first event that holds ``needle`` is changed at ``path``."""
    events = list(recorded(wire))
    index = next(index for index, event in enumerate(events) if needle in event)
    events[index] = changed(events[index], path, odd)
    return heard(wire, events)


@pytest.mark.parametrize("wire", WIRES)
def test_no_odd_answer_loses_a_turn_or_tells_of_python(wire: str) -> None:
    whole = recorded(wire)
    one = st.integers(0, len(whole) - 1).flatmap(
        lambda index: st.tuples(st.just(index), st.sampled_from(list(places(payload(whole[index])))))
    )

    @settings(max_examples=20, deadline=None)
    @given(
        st.lists(st.tuples(one, st.sampled_from(HOSTILE)), min_size=1, max_size=3, unique_by=lambda each: each[0][0])
    )
    def holds(changes: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
        events = list(whole)
        for (index, path), odd in changes:
            events[index] = changed(events[index], path, odd)
        result = server.heard(events)
        if isinstance(result, BackendFailed):
            assert not _OF_PYTHON.search(str(result)), str(result)
            assert len(str(result)) < 800
            return
        for event in result:
            assert msgspec.convert(msgspec.to_builtins(event), type(event), strict=True) == event

    with Server(wire) as server:
        holds()


@pytest.mark.parametrize("index", [7, -1, 1.5, "x", [], {"a": 1}])
def test_an_odd_index_of_a_tool_call_is_told_as_the_server_said_it(index: Any) -> None:
    path = ("choices", 0, "delta", "tool_calls", 0, "index")
    result = one_changed("openai", b'"arguments":"{', path, index)
    assert isinstance(result, BackendFailed)
    assert f'"index": {json.dumps(index)}, ' in str(result)


def test_what_was_odd_is_named_although_much_more_came_with_it() -> None:
    result = one_changed("anthropic", b"content_block_start", ("index",), [None])
    assert isinstance(result, BackendFailed)
    assert str(result).partition("says: ")[2].startswith('{"type": "content_block_start", "index": [null]')
    assert not result.transient


@pytest.mark.parametrize("raw", [b"data: nonsense", b"data: {", b"data: \xff\xfe", b"data: " + b"[" * 100_000])
def test_what_is_no_json_is_not_told_as_a_refusal(raw: bytes) -> None:
    result = heard("openai", [raw, *recorded("openai")])
    assert isinstance(result, BackendFailed)
    assert "could not be understood" in str(result)
    assert not _OF_PYTHON.search(str(result))


@pytest.mark.parametrize(("told", "meant"), [(-5, 0), (10**30, MOST_TOKENS), ("x", 0), (None, 0)])
def test_odd_numbers_of_tokens_are_not_believed(told: Any, meant: int) -> None:
    result = one_changed("openai", b'"completion_tokens"', ("usage", "completion_tokens"), told)
    assert not isinstance(result, BackendFailed)
    (spent,) = (event for event in result if isinstance(event, Spent))
    assert spent.output_tokens == meant


def test_a_key_in_what_is_quoted_is_hidden() -> None:
    result = heard("openai", [f'data: ["{KEY}"]'.encode(), *recorded("openai")])
    assert isinstance(result, BackendFailed)
    assert "***" in str(result)
    assert KEY not in str(result)
