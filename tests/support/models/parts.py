"""The vocabulary of scripts: what a model may do in one turn, the same words for every wire.

Knows nothing of wires, tools' names or HTTP. ``script.py`` strings turns together; ``answers.py`` plays one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FOREVER = 1_000_000
"""As ``times`` of a fault: every request meets it."""


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Think:
    text: str


@dataclass(frozen=True)
class Call:
    """A call of the client's tool of exactly this name."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None
    """The arguments as they are written, where that is no JSON."""
    id: str | None = None
    """The call's; by default one is made up."""
    namespace: str = ""
    """Of the tool, on the one wire that has such."""


@dataclass(frozen=True)
class WriteFile:
    """A call of whatever tool of the client writes a file, its shell if it has none."""

    path: str
    content: str


@dataclass(frozen=True)
class RunShell:
    """A call of whatever tool of the client runs a shell command."""

    command: str


@dataclass(frozen=True)
class UseTool:
    """A call of a tool that a server of tools gave the client, whatever the client calls it."""

    server: str
    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens of one turn. ``cached`` is a part of ``input``, ``reasoning`` a part of ``output``, on every wire."""

    input: int = 1000
    output: int = 100
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Slow:
    """From here on in this turn, every token comes ``seconds`` after the one before."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """The answer stops here until the test lets go of ``name``; of no name, until the client leaves."""

    name: str | None = None


@dataclass(frozen=True)
class Fail:
    """An error instead of an answer; after other parts, an error in the middle of the stream."""

    status: int
    message: str
    retry_after: float | None = None
    times: int = 1


@dataclass(frozen=True)
class Drop:
    """The connection is reset; after other parts, in the middle of the stream."""

    times: int = 1


@dataclass(frozen=True)
class Cut:
    """The answer ends for want of room: it has reached its longest length."""


@dataclass(frozen=True)
class Over:
    """The stream just ends, without an end of the answer."""


Part = Say | Think | Call | WriteFile | RunShell | UseTool | Usage | Slow | Hold | Fail | Drop | Cut | Over
Turn = Sequence[Part]


def say(text: str) -> Part:
    return Say(text)


def think(text: str) -> Part:
    return Think(text)


def call(tool: str, args: Mapping[str, Any] | None = None) -> Part:
    return Call(tool, args or {})


def garbled(tool: str, raw: str) -> Part:
    """A call whose arguments are ``raw``, whatever that is."""
    return Call(tool, {}, raw)


def cut() -> Part:
    return Cut()


def over() -> Part:
    return Over()


def write_file(path: str, content: str) -> Part:
    """``path`` may be relative to the client's working directory."""
    return WriteFile(path, content)


def run_shell(command: str) -> Part:
    return RunShell(command)


def use_tool(tool: str, args: Mapping[str, Any] | None = None, server: str = "pilothouse") -> Part:
    """``tool`` as the server calls it, ``server`` as the client was told to."""
    return UseTool(server, tool, args or {})


def usage(input: int = 1000, output: int = 100, cached: int = 0, reasoning: int = 0) -> Part:
    return Usage(input, output, cached, reasoning)


def slow(seconds: float) -> Part:
    return Slow(seconds)


def hold(name: str) -> Part:
    """Wait here until ``ModelServer.let_go(name)``."""
    return Hold(name)


def hang() -> Part:
    """Never go on: until the client leaves or the server ends."""
    return Hold()


def fail(status: int, message: str = "scripted failure", retry_after: float | None = None, times: int = 1) -> Part:
    """``retry_after`` in seconds. ``times``: how many requests in a row meet it."""
    return Fail(status, message, retry_after, times)


def drop(times: int = 1) -> Part:
    return Drop(times)
