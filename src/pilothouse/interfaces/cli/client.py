"""One owner, asked over its Unix socket: a request in, JSON or an error of the tree out.

Knows HTTP and nothing of what it asks for. Every request is a connection of its own: on this socket that costs
microseconds, and nothing has to be kept alive.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from pilothouse.client.failures import ServerFailed, failure
from pilothouse.client.unix import SocketConnection
from pilothouse.errors import Unavailable

PATIENCE = 30.0
"""Seconds an answer may take."""


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

    def text(self, path: str, /, **query: object) -> str:
        """What is answered that is no JSON."""
        response, data = self._answer("GET", path, query, None, PATIENCE, {})
        self._check(response, data)
        return data.decode("utf-8", "replace")

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
        return self.read(*self._answer(method, path, query or {}, body, timeout, headers))

    def _answer(
        self,
        method: str,
        path: str,
        query: dict[str, object],
        body: object,
        timeout: float,
        headers: Mapping[str, str],
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            with closing(SocketConnection(self.socket_path, timeout)) as connection:
                self.send(connection, method, with_query(path, query), body, **headers)
                response = connection.getresponse()
                return response, response.read()
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
        self._check(response, data)
        if not data:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            raise ServerFailed(f"the server's answer cannot be understood{self._see_log()}") from error

    def _check(self, response: http.client.HTTPResponse, data: bytes) -> None:
        if response.status >= 400:
            raise failure(response.status, data, see=self._see_log())

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
