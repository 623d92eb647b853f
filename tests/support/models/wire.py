"""The seam between the server and a wire, and what wires share: tokens, deterministic ids, server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from tests.support.models.asked import Asked, Json
from tests.support.models.parts import Fail, Usage


@dataclass(frozen=True)
class Thinking:
    text: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    args: Mapping[str, Json]
    freeform: str | None = None
    """The text of a call of a tool that takes no arguments but text."""
    raw: str | None = None
    """Its arguments as they are written, where that is no JSON."""
    namespace: str = ""

    @property
    def written(self) -> str:
        return compact(self.args) if self.raw is None else self.raw


Output = Thinking | Text | ToolCall


class Encoder(Protocol):
    """One streamed answer: ``start``, then ``output`` for each part, then ``finish`` or ``broken``.

    Each yields events; what is between two events may come late.
    """

    def start(self) -> Iterator[bytes]: ...

    def output(self, output: Output) -> Iterator[bytes]: ...

    def finish(self, cut: bool = False) -> Iterator[bytes]:
        """``cut``: for want of room."""
        ...

    def broken(self, fail: Fail) -> Iterator[bytes]: ...


class Wire(Protocol):
    """One API of models: how a question is read and an answer written."""

    name: str

    def read(self, path: str, body: Json) -> Asked: ...

    def encoder(self, asked: Asked, usage: Usage) -> Encoder: ...

    def whole(self, asked: Asked, outputs: list[Output], usage: Usage) -> Json: ...

    def error(self, fail: Fail) -> Json: ...


def tokens(text: str) -> list[str]:
    """The pieces in which a text is streamed; joined, they are the text."""
    return re.findall(r"\s*\S+|\s+", text)


def compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


def event(data: Json, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {compact(data)}\n\n".encode()
