"""Answers that the model library cannot read: said by what the server sent, not by what a library stumbled over.

Servers that nearly speak a wire are common, and libraries meet them with whatever Python raises, some of it long after
what was wrong had passed. So what was read is kept for a while, and looked through when it was not understood.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anthropic
import httpx2
import openai
from pydantic_ai.exceptions import ModelAPIError, UserError

from pilothouse.errors import BackendFailed

_KEPT = 1 << 18
"""Bytes of an answer that are kept."""
_JOINED = 1 << 14
"""Bytes of a piece that what follows is added to, where it came in the middle of an event."""
_SHOWN = 400
_ENDS = (b"\n\n", b"\r\n\r\n")
_END = re.compile(rb"\n\n|\r\n\r\n")
_BLOCKS = ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use")
_MEANT = (ModelAPIError, UserError, openai.APIError, anthropic.APIError, httpx2.HTTPError, TimeoutError, BackendFailed)
"""What says by itself what is wrong."""


class Odd(Exception):
    """Raised for an answer that could not be read; ``str(error)`` is where, in the server's words, or empty."""


class _Seen:
    """What was read of an answer, piece by piece."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._whole = True

    def add(self, piece: bytes) -> None:
        if self._pieces and len(self._pieces[-1]) < _JOINED and not self._pieces[-1].endswith(_ENDS):
            last = self._pieces.pop()
            self._size -= len(last)
            piece = last + piece
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size > _KEPT and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())
            self._whole = False

    def text(self) -> str:
        """One line: the piece that is odd, as far as that can be told, else the last one."""
        events = [payload_of(piece) for piece in self._pieces]
        odd = _odd(events) if self._whole else None
        return odd if odd is not None else events[-1] if events else ""


def payload_of(piece: bytes) -> str:
    lines = piece.decode("utf-8", "replace").splitlines()
    said = [line.removeprefix("data:") for line in lines if line.startswith("data:")] or lines
    return " ".join(" ".join(said).split())


def _odd(events: Iterable[str]) -> str | None:
    """The first of them that goes on with something that never began."""
    begun: set[int] = set()
    for event in events:
        try:
            body = json.loads(event)
        except (ValueError, RecursionError):
            continue
        for index, begins in _indexes(body):
            if not isinstance(index, int) or (not begins and index not in begun):
                return event
            begun.add(index)
    return None


def _indexes(body: object) -> Iterator[tuple[object, bool]]:
    """Of calls and blocks that an event speaks of, and whether they begin with it."""
    match body:
        case {"choices": [{"delta": {"tool_calls": [*calls]}}, *_]}:
            for call in calls:
                match call:
                    case {"index": None} | {"function": {"name": str(), "arguments": None | str()}}:
                        yield call.get("index", 0) or 0, True
                    case {"index": index, "function": {"arguments": str()}}:
                        yield index, False
                    case _:
                        yield None, False
        case {"type": "content_block_start", "index": index, "content_block": {"type": kind}}:
            yield index if kind in _BLOCKS or str(kind).endswith("_tool_result") else None, True
        case {"type": "content_block_delta" | "content_block_stop", "index": index}:
            yield index, False


_SEEN: ContextVar[_Seen] = ContextVar("what was read of the answer of this request")


@contextmanager
def reading() -> Iterator[None]:
    """Around a request and its answer. Raises ``Odd`` for whatever does not say by itself what is wrong."""
    seen = _Seen()
    _SEEN.set(seen)
    try:
        yield
    except _MEANT as error:
        if isinstance(error, ModelAPIError) and isinstance(error.__cause__, ValueError):  # no JSON
            raise Odd(_cut(seen.text())) from error
        raise
    except Exception as error:
        raise Odd(_cut(seen.text())) from error


async def seen(stream: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same bytes, cut between events: so the last one that was handed on is the one that was not understood."""
    noted = _SEEN.get(None)
    async for chunk in stream:
        if noted is None:
            yield chunk
            continue
        start = 0
        while start < len(chunk):
            end = _END.search(chunk, start)
            stop = end.end() if end else len(chunk)
            noted.add(chunk[start:stop])
            yield chunk[start:stop]
            start = stop


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
