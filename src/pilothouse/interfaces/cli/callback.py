"""A moment's server on the loopback interface, for the one answer that a service sends with a person's browser.

Takes what comes with the state it was told, and nothing else. Knows neither services nor what the answer is for.
"""

from __future__ import annotations

import hmac
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from pilothouse.errors import Refused, Unavailable

PATH = "/callback"
_PAGE = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pilothouse</title><p>{text}</p></html>'
_REQUEST_S = 10.0


class Callback:
    """Listens already. ``state`` must be set before an answer is taken."""

    def __init__(self, port: int) -> None:
        """Raises ``OSError``."""
        self.state = ""
        self._answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.server.daemon_threads = True

    def url(self, host: str) -> str:
        """Where it listens, for somebody who calls this machine that."""
        return f"http://{host}:{self.server.server_port}{PATH}"

    def code(self, within_s: float) -> str:
        """What the service answered. Raises ``Refused`` when the person did not agree, or nothing came."""
        try:
            code, error = self._answers.get(timeout=within_s)
        except queue.Empty:
            raise Refused("nobody agreed within the time there was; begin again") from None
        if not code:
            raise Refused(f"the service did not agree: {error or 'it gave no code'}")
        return code

    def taken(self, query: str) -> bool:
        """Whether a query is the answer."""
        given = {name: values[0] for name, values in parse_qs(query).items()}
        if not self.state or not hmac.compare_digest(given.get("state", "").encode(), self.state.encode()):
            return False
        self._answers.put((given.get("code", ""), given.get("error", "")))
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        callback = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_S

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                taken = parts.path == PATH and callback.taken(parts.query)
                text = "This page can be closed; the terminal says the rest." if taken else "There is nothing here."
                body = _PAGE.format(text=text).encode()
                self.send_response(HTTPStatus.OK if taken else HTTPStatus.NOT_FOUND)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """The address has the code in it."""

        return Handler


@contextmanager
def listening(port: int) -> Iterator[Callback]:
    """Listen while this lasts; ``port`` 0 takes a free one. Raises ``Unavailable``."""
    try:
        callback = Callback(port)
    except OSError as error:
        raise Unavailable(f"port {port} cannot be listened on: {error.strerror}") from None
    thread = threading.Thread(target=callback.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield callback
    finally:
        callback.server.shutdown()
        callback.server.server_close()
        thread.join()
