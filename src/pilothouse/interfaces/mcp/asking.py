"""One message taken to the owner over its Unix socket, for as long as it takes: what it answers, and what it tells on
the way.

Where an owner went away, whoever serves in its place is asked again, under the same name, so that nothing is done
twice. Knows how MCP travels by HTTP and nothing of what is asked. Standard library only.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Any

from pilothouse.client.sse import Decoder
from pilothouse.client.unix import SocketConnection
from pilothouse.errors import PilothouseError, Unavailable

PATIENCE_S = 60.0
"""How long somebody may take to come back where an owner went away."""
SILENCE_S = 60.0
"""An owner that says nothing for so long is gone: it says something every 15 s, also while it has nothing to say."""
STEADY_S = 5.0
"""What was connected for so long was no part of the trouble before it."""
MAX_ANSWER = 64 << 20

_PATH = "/mcp"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_LATER = frozenset({"too_many_requests", "unavailable"})
"""Codes of what passes by itself."""

Hear = Callable[[dict[str, Any]], bool]
"""Takes a message of JSON-RPC; says whether it was the last."""


class GivenUp(Exception):
    """Raised where nobody waits for an answer any more."""


class NotServed(Exception):
    """Raised for an answer that is none of JSON-RPC. ``problem`` is what it says of itself."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(str(problem.get("detail") or f"the server answered with status {status}"))


class _Later(Exception):
    """Raised when the owner wants to be asked again."""


class Place:
    """Where the owner listens. ``find`` may start one, and raises an error of the tree."""

    def __init__(self, find: Callable[[], str]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._found = ""

    def socket(self) -> str:
        with self._lock:
            if not self._found:
                self._found = self._find()
            return self._found

    def lost(self) -> None:
        """Nobody listens there."""
        with self._lock:
            self._found = ""


class Asking:
    """One message on its way. Runs in a thread of its own; may be given up from any."""

    def __init__(self, place: Place, body: bytes, headers: Mapping[str, str], hear: Hear) -> None:
        self._place = place
        self._body = body
        self._headers = headers
        self._hear = hear
        self._asked: set[int] = set()
        """The owners that may have heard it, by their processes."""
        self._given_up = threading.Event()
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def give_up(self) -> None:
        """Hang up: by that the owner knows that nobody waits any more."""
        self._given_up.set()
        with self._lock:
            if self._socket is not None:
                _hang_up(self._socket)

    def run(self) -> None:
        """Ask until it is answered. Raises ``GivenUp``, ``NotServed``, and ``Unavailable`` when nobody came back."""
        lost_at, pause = 0.0, _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                self._ask()
                return
            except (OSError, http.client.HTTPException, PilothouseError, _Later) as error:
                if self._given_up.is_set():
                    raise GivenUp from error
                now = time.monotonic()
                if not lost_at or now - began > STEADY_S:
                    lost_at, pause = now, _FIRST_PAUSE_S
                if now - lost_at > PATIENCE_S:
                    why = str(error) or type(error).__name__
                    raise Unavailable(f"nobody answered within {PATIENCE_S:g} s: {why}") from error
            if self._given_up.wait(pause):
                raise GivenUp
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _ask(self) -> None:
        connection = SocketConnection(self._place.socket(), SILENCE_S)
        with closing(connection):
            try:
                connection.connect()
            except OSError:
                self._place.lost()
                raise
            self._hold(connection.sock)
            try:
                owner = process_of(connection.sock)
                others = self._asked - {owner} if owner else self._asked  # who is not known may be another one
                again = {"Pilothouse-Call-Again": "1"} if others else {}
                self._asked.add(owner)
                connection.request("POST", _PATH, self._body, {**self._headers, **again})
                with connection.getresponse() as response:
                    self._read(response)
            finally:
                self._hold(None)

    def _hold(self, connected: socket.socket | None) -> None:
        with self._lock:
            self._socket = connected
        if connected is not None and self._given_up.is_set():
            raise GivenUp

    def _read(self, response: http.client.HTTPResponse) -> None:
        if response.status == HTTPStatus.ACCEPTED:
            return
        if response.headers.get_content_type() == "text/event-stream":
            self._follow(response)
            return
        answer = _parsed(response.read(MAX_ANSWER))
        if "jsonrpc" in answer:
            self._take(answer)
            return
        if answer.get("code") in _LATER:
            raise _Later(str(answer.get("detail")))
        raise NotServed(response.status, answer)

    def _follow(self, response: http.client.HTTPResponse) -> None:
        decoder = Decoder()
        while chunk := response.read1(1 << 16):
            for message in decoder.feed(chunk):
                if self._take(_parsed(message.data)):
                    return
        raise http.client.IncompleteRead(b"")

    def _take(self, said: dict[str, Any]) -> bool:
        match said.get("error"):
            case {"data": {"code": str(code)}, "message": message} if code in _LATER:
                raise _Later(str(message))
        return self._hear(said)


def _parsed(data: bytes) -> dict[str, Any]:
    """What is no JSON object says nothing."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _hang_up(connected: socket.socket) -> None:
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is over already


def process_of(connected: socket.socket) -> int:
    """Who listens at the other end; 0 where the system does not say."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            pid, _, _ = struct.unpack("=iII", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            return int(pid)
        if sys.platform == "darwin":
            sol_local, local_peerpid = 0, 2
            return connected.getsockopt(sol_local, local_peerpid)
    except OSError:
        pass
    return 0
