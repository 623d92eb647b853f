"""Server-sent events, decoded from network chunks that may be split anywhere: bytes in, payloads out.

The format is the WHATWG one: lines end with LF, CRLF or CR, a blank line ends an event, several ``data:`` lines are one
payload, a line that begins with a colon is a comment. Of the other fields nothing is used: backends say everything in
the payload. A whole chunk is decoded at a time, because a call per event would cost more than the decoding.
"""

from __future__ import annotations

import re

MAX_EVENT = 16 << 20
"""Bytes of one event. A backend that sends more is broken, and must not take our memory."""

_DONE = b"[DONE]"
_DATA = b"data: "
_BETWEEN = b"\n\n" + _DATA
_LARGEST_PLAIN = 1 << 20
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventTooLong(ValueError):
    """Raised for an event of more than ``MAX_EVENT`` bytes. The stream cannot be read any further."""


class SseDecoder:
    """One stream. ``feed`` it chunks, then ``end`` it. ``done`` is set by a ``[DONE]`` payload, which is no event."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        """An incomplete line, in the pieces it came in: joined once, or a long one would be copied for each."""
        self._rest_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._cr = False
        """The last chunk ended with CR: an LF that follows belongs to it."""
        self._begun = False
        self.done = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that ``chunk`` completes. Raises ``EventTooLong``."""
        if self._cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._cr = False
        if self._begun and b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        text = b"".join((*self._rest, chunk)) if self._rest else chunk
        self._rest.clear()
        self._rest_size = 0
        if not self._begun:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                self._keep(text)
                return []
            text, self._begun = text.removeprefix(_BOM), True
        if not self._data and (plain := _plain(text)) is not None:
            payloads, rest = plain
            self._keep(rest)
            return payloads
        if b"\r" in text:
            # A CR at the very end may be half of a CRLF; it ends the line in either case.
            self._cr = text.endswith(b"\r")
            lines = _LINE_END.split(text)
        else:
            lines = text.split(b"\n")
        rest = lines.pop()
        payloads = self._events(lines)
        self._keep(rest)
        return payloads

    def end(self) -> list[bytes]:
        """The payload of a last event that was not ended properly: its text has come all the same."""
        return self._events([b"".join(self._rest), b""])

    def _keep(self, rest: bytes) -> None:
        if rest:
            self._rest.append(rest)
            self._rest_size += len(rest)
            if self._rest_size + self._size > self._limit:
                raise EventTooLong(f"an event has more than {self._limit:,} bytes")

    def _events(self, lines: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    payload = data[0] if len(data) == 1 else b"\n".join(data)
                    data.clear()
                    self._size = 0
                    if payload == _DONE:
                        self.done = True
                    else:
                        found.append(payload)
            elif line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                data.append(value)
                self._size += len(value)
                if self._size > self._limit:
                    raise EventTooLong(f"an event has more than {self._limit:,} bytes")
            elif line == b"data":
                data.append(b"")
        return found


def _plain(text: bytes) -> tuple[list[bytes], bytes] | None:
    """The payloads of text in the form that nearly all have, and its incomplete last line: one ``data: `` line and a
    blank one, again and again. None for anything else. Much faster than looking at each line."""
    end = text.rfind(b"\n\n")
    if end < 0 or len(text) > _LARGEST_PLAIN or not text.startswith(_DATA) or b"\r" in text:
        return None
    head, rest = text[len(_DATA) : end], text[end + 2 :]
    payloads = head.split(_BETWEEN)
    if b"\n" in rest or head.count(b"\n") != 2 * (len(payloads) - 1) or _DONE in payloads:
        return None
    return payloads, rest
