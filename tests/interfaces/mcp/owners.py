"""An owner for a bridge to talk to: a server at a Unix socket that answers each message as a test says; and a bridge in
a thread, between pipes."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

from tests.support.services import PATIENCE_S

from pilothouse.interfaces.mcp.asking import Place
from pilothouse.interfaces.mcp.bridge import Bridge

Message = dict[str, Any]


class Exchange:
    """One request at the owner, to be answered."""

    def __init__(self, handler: BaseHTTPRequestHandler, message: Message) -> None:
        self._handler = handler
        self.message = message
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.gone = threading.Event()
        """The other end hung up."""

    def answer(self, result: Any = None, **more: Any) -> None:
        """As JSON."""
        body = {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result if result is not None else {}}
        self.send(200, {**body, **more})

    def send(self, status: int, body: Any = None, kind: str = "application/json") -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self._handler.send_response(status)
        self._handler.send_header("Content-Type", kind)
        self._handler.send_header("Content-Length", str(len(data)))
        self._handler.end_headers()
        self._handler.wfile.write(data)

    def begin(self) -> None:
        """A stream, which ends with the connection."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self._handler.end_headers()

    def tell(self, message: Any) -> None:
        data = message if isinstance(message, str) else json.dumps(message)
        self._handler.wfile.write(f"event: message\r\ndata: {data}\r\n\r\n".encode())
        self._handler.wfile.flush()

    def wait(self) -> None:
        """Until the other end hangs up."""
        assert self._handler.connection.recv(1) == b""
        self.gone.set()


Answers = Callable[[Exchange], None]


@dataclass
class FakeOwner:
    """Listens from ``begin`` on."""

    path: Path
    answers: Answers
    asked: list[Exchange] = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[FakeOwner]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                exchange = Exchange(self, json.loads(data))
                owner.asked.append(exchange)
                try:
                    owner.answers(exchange)
                except OSError:
                    exchange.gone.set()

            def log_message(self, format: str, *args: Any) -> None: ...

            def address_string(self) -> str:
                return "unix"

        class Server(ThreadingMixIn, UnixStreamServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None: ...

        with Server(str(self.path), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join(PATIENCE_S)
                self.path.unlink()


class Bridged:
    """A bridge in a thread."""

    def __init__(self, find: Callable[[], str], token: str = "") -> None:
        given, self._input = os.pipe()
        self._lines = queue.SimpleQueue[bytes]()
        self._reader = os.fdopen(given, "rb")
        bridge = Bridge(Place(find), token, self._reader, self._lines.put)
        self._thread = threading.Thread(target=bridge.run)
        self._thread.start()
        self._open = True

    def say(self, *messages: Message | bytes) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            view = memoryview(line + b"\n")
            while view:
                view = view[os.write(self._input, view) :]

    def ask(self, id: int | str, method: str = "tools/call", **params: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def hear(self) -> Message:
        """The next line; bounded."""
        line = self._lines.get(timeout=PATIENCE_S)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        heard: Message = json.loads(line)
        return heard

    @property
    def silent(self) -> bool:
        return self._lines.empty()

    def end(self) -> None:
        """Close its input, and wait for its end."""
        if self._open:
            self._open = False
            os.close(self._input)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._reader.close()


@contextmanager
def bridged(find: Callable[[], str] | Path, token: str = "") -> Iterator[Bridged]:
    made = Bridged(find if callable(find) else lambda: str(find), token)
    try:
        yield made
    finally:
        made.end()
