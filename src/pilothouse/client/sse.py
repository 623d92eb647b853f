"""Server-sent events: bytes in, messages out. Incremental, so that it does not matter where the network cuts."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Not bytes.splitlines(): the format knows these three ends of a line and no other.
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Message:
    """One event. ``id`` is the last one said, also by an earlier message."""

    data: bytes
    id: str = ""
    event: str = ""


class Decoder:
    """One stream's decoder; a message that its stream did not finish is never shown."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[Message]:
        data = self._rest + chunk
        # A CR at the end may be half of a CRLF.
        held = data[-1:] if data.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(data[: len(data) - len(held)])
        self._rest = rest + held
        found: list[Message] = []
        for line in lines:
            if line:
                self._field(line)
            elif (message := self._finish()) is not None:
                found.append(message)
        return found

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")

    def _finish(self) -> Message | None:
        message = Message(b"\n".join(self._data), self._id, self._event) if self._data else None
        self._data, self._event = [], ""
        return message
