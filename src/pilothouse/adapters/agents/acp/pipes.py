"""Messages of the Agent Client Protocol over the pipes of an agent's process: one JSON object a line.

Owns how much of a line is kept and what becomes of lines that are no messages: programs print all kinds of things.
Implements the library's transport. Knows nothing of what messages mean.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

MAX_LINE = 32 << 20
"""Bytes. A whole file may be in one message; what is longer is none."""
MAX_STRAY = 20
"""Lines that are no messages and are told of; a program that goes on printing such lines is not heard any more."""


class Pipes:
    """``stray`` is told of lines that are no messages."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport, stray: Callable[[str], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._stray = stray
        self._strays = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Raises ``ConnectionError`` when the agent does not listen any more. What it has not read yet is kept."""
        if self._writer.is_closing():
            raise ConnectionError("the agent does not listen any more")
        self._writer.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be none."""
        while line := await self._line():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return message
            if line.strip():
                self._tell(line.decode(errors="replace").strip())
        return None

    async def close(self) -> None:
        """Nothing more will be said to the agent. What it still says can be read."""
        self._writer.close()

    async def _line(self) -> bytes:
        """A line with its end; the last one may have none. Empty at the end of the stream."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            return end.partial
        except asyncio.LimitOverrunError as long:
            start = await self._reader.readexactly(min(long.consumed, 200))
            await self._skip()
            return start + b" \xe2\x80\xa6\n"
        except ConnectionError:
            return b""

    async def _skip(self) -> None:
        """To the end of a line of which there is more than anybody wants."""
        while True:
            try:
                await self._reader.readuntil(b"\n")
                return
            except asyncio.LimitOverrunError as long:
                await self._reader.readexactly(long.consumed)
            except asyncio.IncompleteReadError:
                return

    def _tell(self, line: str) -> None:
        self._strays += 1
        if self._strays <= MAX_STRAY:
            self._stray(line)
        elif self._strays == MAX_STRAY + 1:
            self._stray("… and more lines that are no messages")
