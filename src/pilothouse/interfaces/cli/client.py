"""One owner, asked over its Unix socket: a request in, JSON or an error of the tree out.

Knows HTTP and nothing of what it asks for. Every request is a connection of its own: on this socket that costs
microseconds, and nothing has to be kept alive.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from pilothouse.errors import BadInput, Denied, Gone, NotFound, PilothouseError, Refused, Unavailable

PATIENCE = 30.0
"""Seconds an answer may take."""

_KINDS: tuple[type[PilothouseError], ...] = (NotFound, Gone, Denied, Refused, Unavailable)
_BY_CODE = {kind.code: kind for kind in _KINDS}
_BY_STATUS = {401: Denied, 403: Denied, 404: NotFound, 409: Refused, 410: Gone}
_BAD_INPUT = frozenset({400, 413, 415, 422})


class ServerFailed(PilothouseError):
    """Raised when the owner failed at something nobody planned for."""

    code = "server_failed"


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise


class Client:
    """Requests to the owner that listens at ``socket_path``.

    All raise the error of the tree that the owner answered, ``Unavailable`` when it cannot be reached, and
    ``ServerFailed`` when it failed.
    """

    def __init__(self, socket_path: str, *, log: str = "") -> None:
        """``log``: the owner's log file, for messages."""
        self.socket_path = socket_path
        self._log = log

    def get(self, path: str, /, *, timeout: float = PATIENCE, **query: object) -> Any:
        """``query``: None leaves a parameter out."""
        return self.ask("GET", path, query=query, timeout=timeout)

    def post(self, path: str, body: object = None, *, timeout: float = PATIENCE, key: str | None = None) -> Any:
        """``key``: asked again under the same one, it is done once."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.ask("POST", path, body=body if body is not None else {}, timeout=timeout, headers=headers)

    def delete(self, path: str, /, **query: object) -> Any:
        return self.ask("DELETE", path, query=query)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, object] | None = None,
        body: object = None,
        timeout: float = PATIENCE,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """The JSON answered, None for an empty answer. ``timeout`` in seconds."""
        try:
            with closing(SocketConnection(self.socket_path, timeout)) as connection:
                self.send(connection, method, with_query(path, query or {}), body, **headers)
                response = connection.getresponse()
                return self.read(response, response.read())
        except TimeoutError as error:
            raise Unavailable(f"the server did not answer within {timeout:.0f} s{self._see_log()}") from error
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"the server cannot be reached: {why}{self._see_log()}") from error

    @staticmethod
    def send(
        connection: http.client.HTTPConnection, method: str, path: str, body: object = None, **headers: str
    ) -> None:
        data = None if body is None else json.dumps(body).encode()
        given = {"Accept": "application/json", "User-Agent": "pilothouse"}
        if data is not None:
            given["Content-Type"] = "application/json"
        connection.request(method, path, body=data, headers=given | headers)

    def read(self, response: http.client.HTTPResponse, data: bytes) -> Any:
        """The answer in a complete response, or its error."""
        if response.status >= 400:
            raise self._error(response.status, data)
        if not data:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            raise ServerFailed(f"the server's answer cannot be understood{self._see_log()}") from error

    def _error(self, status: int, data: bytes) -> PilothouseError:
        try:
            problem = json.loads(data)
            said, code = str(problem.get("detail") or problem.get("title") or ""), str(problem.get("code") or "")
            field, fix = str(problem.get("field") or ""), str(problem.get("fix") or "")
        except (ValueError, AttributeError):
            said, code, field, fix = "", "", "", ""
        said = said or f"it answered {status}"
        if status in _BAD_INPUT:
            return BadInput(said, field=field, fix=fix)
        kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
        return kind(said) if kind else ServerFailed(f"the server failed: {said}{self._see_log()}")

    def _see_log(self) -> str:
        return f" (its log is {self._log})" if self._log else ""


def with_query(path: str, query: dict[str, object]) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }
    return f"{path}?{urlencode(given)}" if given else path


def segment(name: str) -> str:
    """One part of a path, whatever is in it."""
    return quote(name, safe="")
