"""Plays one turn of a script over one wire: parts in, events of the wire out, with their pauses and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Protocol

from tests.support.models.asked import Asked, Json, Tool
from tests.support.models.parts import (
    Call,
    Cut,
    Drop,
    Fail,
    Hold,
    Over,
    Part,
    RunShell,
    Say,
    Slow,
    Think,
    Turn,
    Usage,
    UseTool,
    WriteFile,
)
from tests.support.models.tools import concrete
from tests.support.models.wire import Output, Text, Thinking, ToolCall, Wire


class Sink(Protocol):
    """Where an answer goes: one reply to one client."""

    @property
    def status(self) -> int | None: ...

    async def send_json(self, body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> None: ...

    async def send_event(self, event: bytes) -> None: ...

    async def end_events(self) -> None: ...

    def reset(self) -> None: ...

    async def while_connected(self, waiting: Coroutine[None, None, object]) -> None:
        """Wait, but no longer than the client does: its leaving ends the answer by an exception."""


Held = Callable[[str | None], Coroutine[None, None, None]]


async def play(turn: Turn, asked: Asked, wire: Wire, sink: Sink, held: Held) -> None:
    """Send one turn. ``held`` returns when the test lets go of a name."""
    usage = next((part for part in turn if isinstance(part, Usage)), Usage())
    encoder = wire.encoder(asked, usage)
    outputs: list[Output] = []
    pace = 0.0

    async def send(events: Iterator[bytes]) -> None:
        for event in events:
            await sink.send_event(event)
            if pace:
                await sink.while_connected(asyncio.sleep(pace))

    def begin() -> Iterator[bytes]:
        return encoder.start() if asked.stream and sink.status is None else iter(())

    for number, part in enumerate(turn):
        match part:
            case Usage() | Cut():
                pass
            case Slow(seconds):
                pace = seconds
            case Hold(name):
                await send(begin() if outputs else iter(()))
                await sink.while_connected(held(name))
            case Drop():
                sink.reset()
                return
            case Over():
                await send(begin())
                await sink.end_events()
                return
            case Fail() if sink.status is None:
                await sink.send_json(wire.error(part), part.status, _retry_after(part))
                return
            case Fail():
                await send(encoder.broken(part))
                await sink.end_events()
                return
            case _:
                output = _output(part, asked, number)
                if asked.stream:
                    await send(begin())
                    await send(encoder.output(output))
                outputs.append(output)
    if asked.stream:
        await send(begin())
        await send(encoder.finish(any(isinstance(part, Cut) for part in turn)))
        await sink.end_events()
    else:
        await sink.send_json(wire.whole(asked, outputs, usage))


def _output(part: Part, asked: Asked, number: int) -> Output:
    match part:
        case Say(text):
            return Text(text)
        case Think(text):
            return Thinking(text)
        case WriteFile() | RunShell() | UseTool():
            part = concrete(part, asked)
    assert isinstance(part, Call)
    offered = {tool.name: tool for tool in asked.tools}
    freeform = str(part.args.get("input", "")) if offered.get(part.tool, Tool("")).freeform else None
    id = part.id or f"call_{asked.turns}_{number}"
    return ToolCall(id, part.tool, part.args, freeform, part.raw, part.namespace)


def _retry_after(fail: Fail) -> dict[str, str]:
    return {} if fail.retry_after is None else {"retry-after": f"{fail.retry_after:g}"}
