"""MCP for programs that start one: lines of JSON-RPC on standard input are taken to the owner of a data directory, its
answers come out on standard output.

``python -m pilothouse.interfaces.mcp.bridge`` is what agents start; people have ``pilothouse mcp``. Every request has a
thread, so that a call that waits for a person holds up nothing else. Knows nothing of tools. Standard library only, and
little of that: it starts with every turn of an agent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO
from uuid import uuid4

from pilothouse.errors import PilothouseError
from pilothouse.interfaces.mcp import messages
from pilothouse.interfaces.mcp.asking import Asking, GivenUp, NotServed, Place
from pilothouse.interfaces.mcp.messages import INVALID_REQUEST, SERVER_ERROR, Message

SOCKET = "PILOTHOUSE_MCP_SOCKET"
"""Names the environment variable with the path of the owner's Unix socket."""
TOKEN = "PILOTHOUSE_MCP_TOKEN"  # a name
"""Names the one with what its holder shows there."""

MAX_LINE = 2 << 20
"""Bytes of a message: as many as the owner takes."""
MAX_AT_ONCE = 64
"""Requests on their way."""
_LEAVING_S = 1.0
"""How long threads have to see that they are to end; they hold nothing that must be put away."""


class Bridge:
    """Between two streams of lines and the owner at ``place``, to whom ``token`` is shown when there is one."""

    def __init__(self, place: Place, token: str, given: BinaryIO, write: Callable[[bytes], None]) -> None:
        """``write`` takes whole lines, one at a time."""
        self._place = place
        self._given = given
        self._write = write
        self._headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        self._negotiated = ""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._asked: dict[str, Asking] = {}
        """By the id of a request, as JSON: 1 and "1" are two."""
        self._threads: set[threading.Thread] = set()

    def run(self) -> None:
        """Until standard input ends; then nobody waits for anything any more."""
        try:
            while line := self._given.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE and not line.endswith(b"\n"):
                    self._skip()
                    text = f"this line is longer than {MAX_LINE >> 20} MiB"
                    self._say(messages.error(None, INVALID_REQUEST, text))
                elif line.strip():
                    self._take(line)
        except GivenUp:
            pass
        finally:
            self._leave()

    def _skip(self) -> None:
        while (rest := self._given.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass

    def _take(self, line: bytes) -> None:
        try:
            message = messages.read(line)
        except messages.Unreadable as unreadable:
            self._say(unreadable.answer)
            return
        if "method" not in message:
            return  # an answer, but nothing was asked
        if message["method"] == messages.CANCELLED:
            self._cancel(message)
            return
        refusal = self._begin(message, line.strip())
        if refusal and "id" in message:
            self._say(messages.error(message["id"], INVALID_REQUEST, refusal))

    def _begin(self, message: Message, body: bytes) -> str:
        """Ask the owner; answers why not."""
        key = _key(message) if "id" in message else uuid4().hex
        headers = {**self._headers, **messages.headers(message, self._negotiated)}
        if "id" in message:
            headers["Pilothouse-Call-Id"] = str(uuid4())
        asking = Asking(self._place, body, headers, lambda heard: self._heard(message, heard))
        with self._lock:
            if key in self._asked:
                return f"a request with the id {key} is on its way already"
            if len(self._asked) >= MAX_AT_ONCE:
                return f"{MAX_AT_ONCE} requests are on their way already"
            self._asked[key] = asking
            thread = threading.Thread(target=self._see_through, args=(message, key, asking), daemon=True)
            self._threads.add(thread)
        thread.start()
        return ""

    def _see_through(self, message: Message, key: str, asking: Asking) -> None:
        try:
            asking.run()
        except GivenUp:
            pass
        except NotServed as error:
            known = {name: error.problem[name] for name in ("code", "field", "fix") if name in error.problem}
            self._fail(message, str(error), {"status": error.status, **known})
        except PilothouseError as error:
            self._fail(message, str(error), {"code": error.code})
        finally:
            with self._lock:
                if self._asked.get(key) is asking:
                    del self._asked[key]
                self._threads.discard(threading.current_thread())

    def _heard(self, message: Message, heard: Message) -> bool:
        """Pass on what the owner said about a request. Answers whether it was its answer."""
        answers = "method" not in heard
        if answers:
            if message["method"] == messages.INITIALIZE:
                self._negotiated = messages.revision(heard)
            if "id" not in message:
                return True
            heard["id"] = message["id"]  # an owner that could not read it could not repeat it
            with self._lock:
                self._asked.pop(_key(message), None)  # whoever reads the answer may use the id again
        self._say(heard)
        return answers

    def _fail(self, message: Message, reason: str, data: Message) -> None:
        if "id" in message:
            self._say(messages.error(message["id"], SERVER_ERROR, reason, data))

    def _cancel(self, message: Message) -> None:
        params = message.get("params") or {}
        with self._lock:
            asking = self._asked.pop(json.dumps(params.get("requestId")), None)
        if asking is not None:
            asking.give_up()

    def _say(self, message: Message) -> None:
        try:
            with self._writing:
                self._write(messages.line(message))
        except OSError as error:
            raise GivenUp from error  # nobody reads

    def _leave(self) -> None:
        with self._lock:
            asked, threads = list(self._asked.values()), list(self._threads)
        for asking in asked:
            asking.give_up()
        until = time.monotonic() + _LEAVING_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


def _key(message: Message) -> str:
    return json.dumps(message["id"])


def over_stdio(find: Callable[[], str], token: str = "") -> None:
    """Bridge this process' standard input and output, to the end of the input. ``find``: see ``Place``."""
    # Not sys.stdout: its lock may be held by a thread that is left when the interpreter ends.
    out = sys.stdout.fileno()

    def write(line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(out, view) :]

    Bridge(Place(find), token, sys.stdin.buffer, write).run()


def main() -> int:
    where = os.environ.get(SOCKET, "")
    if not where:
        sys.stderr.write(f"error: {SOCKET} is not set; people use `pilothouse mcp`\n")
        return 2
    try:
        over_stdio(lambda: where, os.environ.get(TOKEN, ""))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
