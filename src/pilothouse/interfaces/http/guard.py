"""Who is at the door: every request gets a principal here, or is turned away before anything looks at it.

Two doors lead to one application. The Unix socket admits the user the server runs as and nobody else. TCP admits
browsers that have logged in, from pages of this server only. Plain ASGI, so that streams pass through untouched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pilothouse.errors import Denied, PilothouseError, Unavailable
from pilothouse.interfaces.http.logins import Logins
from pilothouse.interfaces.http.origins import Origins
from pilothouse.interfaces.http.problems import NoCredential, problem

LOCAL = "local"
"""The principal of whoever owns this data directory, at either door: tokens are printed on their own terminal."""

# Without a credential: whether it is up, and logging in.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/login", "/api/login"})

_COOKIE_LIFE_S = 400 * 24 * 3600
"""As long as browsers allow; how long a session really lasts is the server's to say."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, and at which door."""

    name: str
    door: Literal["unix", "tcp"]


class Guard:
    """Guards both doors. ``listening`` must be told where TCP listens before that door lets anybody in."""

    def __init__(self, now: Callable[[], float] = time.monotonic, uid: int | None = None) -> None:
        self._logins = Logins(now)
        self._uid = os.getuid() if uid is None else uid
        self._origins: Origins | None = None
        self._cookie = ""

    def listening(self, host: str, port: int) -> None:
        """TCP listens there: from now on requests that call this server so are let in."""
        self._origins = Origins(host, port)
        # Cookies know no ports: servers beside each other would log each other out.
        self._cookie = f"pilothouse-{port}"

    def new_token(self) -> str:
        """A one-time login token."""
        return self._logins.new_token()

    def log_in(self, token: str, response: Response) -> None:
        """Set the session cookie for a token. Raises ``NoCredential``, ``TooManyTries``, ``Unavailable``."""
        if self._origins is None:
            raise Unavailable("this server does not listen on TCP, so there is nothing to log in to")
        session = self._logins.log_in(token)
        response.set_cookie(self._cookie, session, _COOKIE_LIFE_S, path="/", httponly=True, samesite="strict")

    def log_out(self, request: Request, response: Response) -> None:
        if (session := self._session(request.headers)) is not None:
            self._logins.log_out(session)
            response.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict")

    def unix(self, app: ASGIApp) -> ASGIApp:
        """``app`` behind the Unix socket's door. The server says who is there (``state["peer_uid"]``)."""

        def admit(scope: Scope) -> Principal:
            if scope.get("state", {}).get("peer_uid") != self._uid:
                raise Denied("this socket belongs to another user")
            return Principal(LOCAL, "unix")

        return _Door(app, admit)

    def tcp(self, app: ASGIApp) -> ASGIApp:
        """``app`` behind the TCP door."""

        def admit(scope: Scope) -> Principal | None:
            headers = Headers(scope=scope)
            if self._origins is None:
                raise Denied("not ready yet")
            self._origins.check(
                scope["method"], headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
            )
            session = self._session(headers)
            if session is not None and self._logins.knows(session):
                return Principal(LOCAL, "tcp")
            if scope["path"] not in OPEN_PATHS:
                raise NoCredential("log in first: open the URL that `pilothouse serve` printed")
            return None

        return _Door(app, admit)

    def _session(self, headers: Headers) -> str | None:
        return cookie_parser(headers.get("cookie", "")).get(self._cookie)


class _Door:
    def __init__(self, app: ASGIApp, admit: Callable[[Scope], Principal | None]) -> None:
        self._app = app
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served; a WebSocket that is not accepted is closed
        try:
            principal = self._admit(scope)
        except PilothouseError as error:
            await problem(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, receive, send)


def principal_of(request: Request) -> Principal:
    """Who sends a request that passed a door. Raises ``NoCredential`` for one that did not."""
    found = getattr(request.state, "principal", None)
    if not isinstance(found, Principal):
        raise NoCredential("this application was reached without a door")
    return found


def only_unix(request: Request, what: str) -> Principal:
    """Raises ``Denied`` at any other door."""
    principal = principal_of(request)
    if principal.door != "unix":
        raise Denied(f"{what} only over the Unix socket, as the command line does")
    return principal
