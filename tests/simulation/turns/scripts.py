"""What a simulated backend says and what simulated tools do: drawn from the seed, the turn and the request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from pilothouse.core.chat import backend as says
from pilothouse.core.chat.calls import Features, Offered
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.tools.spec import Permit
from pilothouse.errors import BackendFailed

TOOLS = (
    Offered(name="look", repeatable=True, timeout_ms=2_000),
    Offered(name="write", timeout_ms=2_000),
    Offered(name="pay", permit=Permit.ASK, timeout_ms=2_000),
    Offered(name="never", permit=Permit.DENY),
)
_NAMES = ("look", "look", "write", "write", "pay", "pay", "never", "unknown", "research", "research_respond")
_PAUSES = (0.0, 0.0, 0.0, 0.01, 0.05, 0.2, 1.0)
_MOST_WORKING = 4
"""After this many requests a backend comes to an end."""


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class AwaitReport:
    """Say nothing until it has been told how a call ended."""

    call_id: str


@dataclass(frozen=True)
class UseTool:
    """Call a tool of the server as an agent does, and say nothing until there is an outcome."""

    call_id: str
    name: str


Step: TypeAlias = tuple[says.BackendEvent, ...] | Pause | AwaitReport | UseTool | BackendFailed


def features(random: Random) -> Features:
    return Features(
        reports=random.random() < 0.5,
        steers=random.random() < 0.3,
        aborts=random.random() < 0.5,
        repeats=random.random() < 0.6,
        own_tools=random.random() < 0.3,
    )


def script(seed: int, request: BackendRequest, able: Features) -> Iterator[Step]:
    """Text is ``<call>.<n> ``, so that a piece that is lost or comes twice is seen."""
    random = Random(f"{seed}/{request.turn_id}/{request.call}")
    if random.random() < 0.08:
        yield BackendFailed("503", transient=random.random() < 0.8, retry_after_ms=random.choice((0, 0, 300)))
        return
    number = 0
    calls: list[str] = []
    for _ in range(random.choice((1, 2, 4, 8))):
        chunk: list[says.BackendEvent] = []
        for _ in range(random.choice((1, 1, 2, 5))):
            number += 1
            chunk += _said(random, request, number, calls)
        yield Pause(random.choice(_PAUSES))
        yield tuple(chunk)
        if able.reports and calls and random.random() < 0.5:
            yield AwaitReport(calls[-1])
        if able.own_tools and random.random() < 0.6:
            yield UseTool(f"u{number}", random.choice(_NAMES))
    yield from _end(random, request, calls)


def _said(random: Random, request: BackendRequest, number: int, calls: list[str]) -> list[says.BackendEvent]:
    call = request.call
    roll = random.random()
    if roll < 0.45 or call > _MOST_WORKING:
        return [says.Said(f"{call}.{number} ")]
    if roll < 0.55:
        lane = random.choice(("s1", "s2"))
        return [says.LaneOpened(id=lane, agent="a"), says.Said("aside ", lane), says.Thought("hm ", lane)]
    if roll < 0.6:
        return [says.Spent(input_tokens=number, model="m"), says.NotUnderstood(why="junk")]
    if roll < 0.65 and calls:
        return [says.ToolAnswered(id=random.choice(calls), success=True, result="echo")]
    call_id = f"t{call}.{number}"
    told = says.ToolCalled(id=call_id, name=random.choice(_NAMES), arguments={"n": number})
    if told.name in {tool.name for tool in TOOLS}:
        calls.append(call_id)
    partial = says.ToolCalled(id=call_id, name=told.name, arguments={}, partial=True)
    begun = says.ToolGenerating(id=call_id, name="")
    ways: tuple[list[says.BackendEvent], ...] = ([told], [told], [partial, told], [told, told], [begun, told])
    return random.choice(ways)


def _end(random: Random, request: BackendRequest, calls: list[str]) -> Iterator[Step]:
    yield Pause(random.choice(_PAUSES))
    roll = random.random()
    if roll < 0.05:
        return  # the stream just ends
    if roll < 0.1:
        yield BackendFailed("connection reset", transient=True)
    elif roll < 0.15:
        yield (says.Failed(message="overloaded", code="overloaded"),)
    elif roll < 0.2:
        yield (says.Failed(message="a hiccup"), says.Completed())
    elif roll < 0.55 and calls:
        yield (says.Paused(checkpoint_id=f"c{request.call}", pending=tuple(calls)),)
    else:
        yield (says.Completed(),)
