"""Events of a copilot backend with anything in the place of anything: each is understood, or told as not understood."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wires import Enveloped, Untyped

from pilothouse.core.chat.backend import (
    BackendEvent,
    Completed,
    ConversationKnown,
    Failed,
    LaneClosed,
    LaneOpened,
    Paused,
    Said,
    Spent,
    Structured,
    Thought,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.wire import WireReader

SAID: tuple[BackendEvent, ...] = (
    ConversationKnown("c"),
    Said("hi"),
    Thought(begins=True),
    Thought("hm"),
    Thought(ends=True),
    ToolGenerating(id="a", name="t"),
    ToolArguments(id="a", delta="{"),
    ToolCalled(id="a", name="t", arguments={"x": 1}, executor="server", ui={"hidden": True}),
    ToolAnswered(id="a", name="t", success=True, result={"y": 1}),
    LaneOpened(id="a", agent="s"),
    Said("in a lane", "a"),
    LaneClosed(id="a", agent="s"),
    Structured(kind="k", summary="s", data={}),
    Paused(checkpoint_id="c", run_id="r", pending=("a",), frames=({"parentToolCallId": "p"},)),
    Spent(input_tokens=1, output_tokens=2, cost=0.5, model="m"),
    Failed(message="m", code="c"),
    Completed(reason="r"),
)
DEEP = "too deep"
HOSTILE: tuple[Any, ...] = (
    *(-1, 10**30, 10**400, 1.5, float("nan"), float("-inf"), True, None, "", "x", "\ud800", "\0", "1"),
    *([], [None], [[[1]]], {}, {"a": 1}, {"data": {"data": {}}}, DEEP),
)


def written(wire: str) -> list[bytes]:
    encoder = Untyped() if wire == "v0" else Enveloped()
    return [part for event in SAID for part in encoder.encode(event).split(b"\n\n") if part]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def with_odd(payload: Any, path: tuple[Any, ...], odd: Any) -> bytes:
    whole = {"": copy.deepcopy(payload)}
    at: Any = whole
    *way, last = ("", *path)
    for key in way:
        at = at[key]
    at[last] = odd
    text = json.dumps(whole[""])
    return text.replace(f'"{DEEP}"', "[" * 3_000 + "]" * 3_000).encode()


@pytest.mark.parametrize("wire", ["v0", "v1"])
def test_whatever_stands_wherever_is_read_into_events_that_a_log_can_hold(wire: str) -> None:
    lines = [line.removeprefix(b"data: ") for line in written(wire)]
    places_of = [list(places(json.loads(line))) for line in lines]
    one = st.integers(0, len(lines) - 1).flatmap(lambda n: st.tuples(st.just(n), st.sampled_from(places_of[n])))

    @given(st.lists(st.tuples(one, st.sampled_from(HOSTILE)), min_size=1, max_size=3))
    def holds(changes: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
        stream = list(lines)
        for (index, path), odd in changes:
            stream[index] = with_odd(json.loads(lines[index]), path, odd)
        reader = WireReader()
        said = reader.feed(b"".join(b"data: " + line + b"\n\n" for line in stream)) + reader.end()
        for event in said:
            whole = msgspec.json.decode(msgspec.json.encode(event), type=type(event))
            assert not isinstance(whole, Spent) or max(whole.input_tokens, whole.output_tokens) < 1 << 63

    holds()
