"""Routes of credentials: values, keys and accounts of services. What they hide goes in and never comes out.

An account is connected in a person's browser. Who listens for its answer on a port of their own brings it here with
their credential; a browser that began at this server comes back to this server, and shows by a cookie that it is the
one that began: otherwise a link could make somebody connect their account for somebody else.
"""

from __future__ import annotations

from html import escape
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pilothouse.engine.access.oauth import FLOW_MS
from pilothouse.engine.services import Services
from pilothouse.errors import BadInput, NotFound, PilothouseError, Refused
from pilothouse.interfaces.http.bodies import AddCredential, ConnectAccount, ConnectedAccount
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import at_home, principal_of
from pilothouse.interfaces.http.problems import status_of
from pilothouse.interfaces.http.wire import Json

CALLBACK = "/api/oauth/{service}/callback"
_COOKIE = "pilothouse-oauth-"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

_CREDENTIAL: dict[str, Any] = {
    "id": "slack:acme",
    "kind": "oauth",
    "name": "acme",
    "service": "slack",
    "default": True,
    "scopes": ["chat:write"],
    "createdAt": 1767225600000,
    "expiresAt": None,
    "state": "ok",
    "why": "",
}
_SERVICE = {"name": "slack", "title": "Slack", "registered": True}
_BEGUN = {
    "authorizeUrl": "https://slack.com/oauth/v2/authorize?…",
    "state": "…",
    "redirectUri": "http://127.0.0.1:53412/callback",
    "expiresAt": 1767226200000,
}


def make_vault(services: Services) -> APIRouter:
    router = APIRouter(tags=["credentials"])
    credentials, oauth = services.credentials, services.oauth

    @router.get("/api/credentials", responses=answer({"credentials": [_CREDENTIAL], "services": [_SERVICE]}))
    async def list_credentials(request: Request) -> Response:
        """One's own credentials, without what they hide, and the services that accounts can be of."""
        known = [
            {"name": one.name, "title": one.title, "registered": bool(one.client_id)}
            for one in credentials.services.values()
        ]
        return Json({"credentials": await credentials.list(principal_of(request)), "services": known})

    @router.post("/api/credentials", status_code=201, responses=answer(_CREDENTIAL, "Kept", 201))
    async def add(request: Request, body: AddCredential) -> Response:
        """Keep a value for `{{NAME}}` (`name`), or a key that was made at a service (`service`). Replaces the one of
        that name."""
        principal = principal_of(request)
        if body.name is not None:
            return Json(await credentials.set_value(principal, body.name, body.value), 201)
        assert body.service is not None
        return Json(await credentials.add_key(principal, body.service, body.value, body.account or ""), 201)

    @router.post("/api/credentials/connect", responses=answer(_BEGUN))
    async def connect(request: Request, body: ConnectAccount) -> Response:
        """Begin to connect an account: send the person to `authorizeUrl`. With a `redirectUri` on the machine's own
        loopback interface whoever listens there brings `code` and `state` to `/api/credentials/connected`; without one
        the browser that asked comes back to this server."""
        redirect = body.redirect_uri or _own_callback(request, services, body.service)
        begun = await oauth.begin(principal_of(request), body.service, _checked(redirect, body), body.account or "")
        response = Json(begun)
        if body.redirect_uri is None:
            response.set_cookie(
                f"{_COOKIE}{body.service}",
                begun.state,
                FLOW_MS // 1000,
                path=CALLBACK.format(service=body.service),
                secure=redirect.startswith("https:"),
                httponly=True,
                samesite="lax",  # it must come along when the service sends the browser back
            )
        return response

    @router.post("/api/credentials/connected", status_code=201, responses=answer(_CREDENTIAL, "Connected", 201))
    async def connected(request: Request, body: ConnectedAccount) -> Response:
        """End what `/api/credentials/connect` began, with what the service told the browser. Works once."""
        return Json(await oauth.finish(principal_of(request).name, body.state, body.code), 201)

    @router.post("/api/credentials/{credential_id}/default", responses=answer(_CREDENTIAL))
    async def make_default(request: Request, credential_id: str) -> Response:
        """Mean this account where none of its service is named."""
        return Json(await credentials.make_default(principal_of(request), credential_id))

    @router.delete("/api/credentials/{credential_id}", status_code=204)
    async def remove(request: Request, credential_id: str) -> Response:
        """Forget a credential; the service of an account is told to forget it too."""
        await oauth.disconnect(principal_of(request), credential_id)
        return Response(status_code=204)

    @router.get(CALLBACK, responses={200: {"description": "A page for the person", "content": {"text/html": {}}}})
    async def callback(
        request: Request,
        service: str,
        state: Annotated[str, Query(max_length=200)] = "",
        code: Annotated[str, Query(max_length=4000)] = "",
        error: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        """Where a service sends the browser that began here. Needs the cookie of the beginning and no other."""
        try:
            owner = oauth.owner_of(state)
            if owner is None or request.cookies.get(f"{_COOKIE}{service}") != state:
                raise NotFound("this answer belongs to no connection that was begun in this browser; begin again")
            if error or not code:
                oauth.give_up(owner, state)
                raise Refused(f"the service did not agree: {error or 'it gave no code'}")
            made = await oauth.finish(owner, state, code)
        except PilothouseError as refused:
            return _page("Not connected", str(refused), status_of(refused))
        response = _page("Connected", f"{made.id} is connected. You can close this page.", 200)
        response.delete_cookie(f"{_COOKIE}{service}", path=CALLBACK.format(service=service))
        return response

    return router


def _own_callback(request: Request, services: Services, service: str) -> str:
    """This server's address as the browser knows it. Raises ``BadInput`` where there is none."""
    known = services.credentials.services.get(service)
    if known is not None and known.redirect_url:
        return known.redirect_url
    if at_home(request):
        raise BadInput("is needed at this door", field="redirectUri", fix="an address of your own on 127.0.0.1")
    return str(request.base_url).rstrip("/") + CALLBACK.format(service=service)


def _checked(redirect: str, body: ConnectAccount) -> str:
    if body.redirect_uri is not None:
        try:
            parts = urlsplit(redirect)
            loopback = parts.scheme == "http" and parts.hostname in _LOOPBACK and parts.port is not None
        except ValueError:
            loopback = False
        if not loopback:
            fix = "as in http://127.0.0.1:53412/callback, or leave it away"
            raise BadInput("is no address on this machine's loopback interface", field="redirectUri", fix=fix)
    return redirect


def _page(title: str, text: str, status: int) -> HTMLResponse:
    content = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;"
        f"color-scheme:light dark}}</style><h1>{escape(title)}</h1><p>{escape(text)}</p></html>"
    )
    headers = {"cache-control": "no-store", "content-security-policy": _POLICY, "referrer-policy": "no-referrer"}
    return HTMLResponse(content, status, headers)
