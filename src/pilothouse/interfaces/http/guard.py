"""Who is at the door: every request gets a principal here, or is turned away before anything looks at it.

Two doors lead to one application. The Unix socket admits the user the server runs as and nobody else. TCP admits
browsers that have logged in, from pages of this server only, and whoever shows an API key. Either admits the agents of
turns that go on, to their tools. What a principal may do is not decided here. Plain ASGI, so that streams pass through
untouched.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pilothouse.core.auth.principals import THE_LOCAL_USER, Kind, Principal
from pilothouse.engine.access.keys import Keys
from pilothouse.engine.answering.tokens import AgentTokens
from pilothouse.errors import Denied, PilothouseError, Unavailable
from pilothouse.interfaces.http.credentials import key_in
from pilothouse.interfaces.http.logins import Logins
from pilothouse.interfaces.http.origins import Origins
from pilothouse.interfaces.http.problems import NoCredential, problem

# Without a credential: whether it is up, logging in, and coming back from a service with a cookie of its own.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/login", "/api/login", "/api/oauth/{service}/callback"})
_OPEN = re.compile("|".join(re.sub(r"\{\w+\}", "[^/]+", path) for path in sorted(OPEN_PATHS)))

AGENTS_PATH = "/mcp"
"""All that agents reach which answer turns."""

_COOKIE_LIFE_S = 400 * 24 * 3600
"""As long as browsers allow; how long a session really lasts is the server's to say."""


class Guard:
    """Guards both doors. ``listening`` must be told where TCP listens before that door lets anybody in."""

    def __init__(
        self,
        keys: Keys,
        now: Callable[[], float] = time.monotonic,
        uid: int | None = None,
        agents: AgentTokens | None = None,
    ) -> None:
        """``agents``: who recognises those that answer turns; without it nobody does."""
        self._keys = keys
        self._agents = agents
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
        """``app`` behind the Unix socket's door. The server says who is there (``state["peer_uid"]``).

        Who shows a key there too is who the key says: nobody shows one to be more than they are without."""

        async def admit(scope: Scope) -> Principal:
            if scope.get("state", {}).get("peer_uid") != self._uid:
                raise Denied("this socket belongs to another user")
            key = key_in(Headers(scope=scope))
            return THE_LOCAL_USER if key is None else await self._recognise(key, scope["path"])

        return _Door(app, admit, self._stands)

    def tcp(self, app: ASGIApp) -> ASGIApp:
        """``app`` behind the TCP door."""

        async def admit(scope: Scope) -> Principal | None:
            headers = Headers(scope=scope)
            if self._origins is None:
                raise Denied("not ready yet")
            if (key := key_in(headers)) is not None:
                # Browsers add cookies to what other sites make them send, but never a key: where it comes from does
                # not matter. And whoever says who they are is not taken for somebody else when that is wrong.
                return await self._recognise(key, scope["path"])
            self._origins.check(
                scope["method"], headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
            )
            session = self._session(headers)
            if session is not None and self._logins.knows(session):
                return THE_LOCAL_USER
            if _OPEN.fullmatch(scope["path"]) is None:
                raise NoCredential("log in with the URL that `pilothouse serve` printed, or send an API key")
            return None

        return _Door(app, admit, self._stands)

    async def _recognise(self, shown: str, path: str) -> Principal:
        """Whose key that is, or which agent's token. Raises ``InvalidKey``, ``TooManyRequests``, ``Denied``."""
        if self._agents is None or not self._agents.knows(shown):
            return await self._keys.recognise(shown)
        principal = await self._agents.recognise(shown)
        if path != AGENTS_PATH:
            raise Denied("an agent that answers a conversation reaches its tools, and nothing else")
        return principal

    def _stands(self, principal: Principal) -> bool:
        match principal.kind:
            case Kind.KEY:
                return self._keys.stands(principal.key_id)
            case Kind.AGENT:
                return self._agents is not None and self._agents.stands(principal)
        return True

    def _session(self, headers: Headers) -> str | None:
        return cookie_parser(headers.get("cookie", "")).get(self._cookie)


class _Door:
    def __init__(
        self,
        app: ASGIApp,
        admit: Callable[[Scope], Awaitable[Principal | None]],
        stands: Callable[[Principal], bool],
    ) -> None:
        self._app = app
        self._admit = admit
        self._stands = stands

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served; a WebSocket that is not accepted is closed
        try:
            principal = await self._admit(scope)
        except PilothouseError as error:
            await problem(error, scope["path"])(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["principal"] = principal
        if principal is not None:
            state["stands"] = partial(self._stands, principal)
        await self._app(scope, receive, send)


def principal_of(request: Request) -> Principal:
    """Who sends a request that passed a door. Raises ``NoCredential`` for one that did not."""
    found = getattr(request.state, "principal", None)
    if not isinstance(found, Principal):
        raise NoCredential("this application was reached without a door")
    return found


def at_home(request: Request) -> bool:
    """Whether it is the local user who asks, over the Unix socket."""
    return principal_of(request).kind is Kind.LOCAL and "peer_uid" in request.scope["state"]


def only_at_home(request: Request, what: str) -> None:
    """Raises ``Denied`` for anybody else, and at any other door."""
    if not at_home(request):
        raise Denied(f"{what} only over the Unix socket, as the command line does")
