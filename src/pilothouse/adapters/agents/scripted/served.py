"""The scripted agent's side of a server of tools: MCP over the standard input and output of a program.

Standard library only: it runs in the agent's process. One call at a time, for as long as it takes.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

_VERSION = "2025-06-18"
_LEAVE_S = 1.0
"""For the server to leave by itself, its pipe closed."""


class CallFailed(Exception):
    """Raised when a call brought no result; the text is for people."""


class ToolServer:
    """A context manager. The server is started by the first call."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[str] | None = None
        self._asked = 0

    def __enter__(self) -> ToolServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The text of the result. Raises ``CallFailed``."""
        if not self._command:
            raise CallFailed("no server of tools was given; an agent has one when it answers a conversation")
        if self._process is None:
            self._start()
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        pieces = [piece["text"] for piece in result.get("content", ()) if piece.get("type") == "text"]
        if result.get("isError"):
            raise CallFailed("\n".join(pieces))
        return "\n".join(pieces)

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
            )
        except OSError as error:
            raise CallFailed(f"the server of tools cannot be started: {error.strerror}") from None
        us = {"name": "scripted", "version": "1"}
        self._ask("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": us})
        self._say({"method": "notifications/initialized"})

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._asked += 1
        self._say({"id": self._asked, "method": method, "params": params})
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") != self._asked or "method" in answer:
                continue  # what it tells, or asks, beside that
            if "error" in answer:
                raise CallFailed(str(answer["error"].get("message")))
            return answer["result"]
        raise CallFailed("the server of tools has ended")

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise CallFailed("the server of tools has ended") from None
