"""A service that gives tokens, as the real ones do it: RFC 6749 with PKCE, and each its own way of saying no.

``Tokens`` are the service's books: clients, codes, tokens, who they are of. ``routes`` are its pages. A person who is
sent to the authorize page agrees at once, or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route


@dataclass
class Code:
    client: str
    redirect_uri: str
    challenge: str
    scope: str
    used: bool = False
    family: str = ""


@dataclass
class Granted:
    """One access token. ``family``: all that came from one person's agreement."""

    family: str
    scope: str
    ended: bool = False


@dataclass
class Tokens:
    """``manner``: ``google``, ``github`` or ``slack``. ``lasts_s``: None for tokens that do not end by themselves, and
    then there are none to refresh them with."""

    manner: str
    clients: dict[str, str] = field(default_factory=lambda: {"client-1": "secret-1"})
    lasts_s: int | None = 3600
    agrees: bool = True
    rotates: bool = True
    trouble: list[Response] = field(default_factory=list)
    """What the token page answers instead, one request each."""
    codes: dict[str, Code] = field(default_factory=dict)
    access: dict[str, Granted] = field(default_factory=dict)
    refresh: dict[str, str] = field(default_factory=dict)
    """Refresh token → family, while it is good."""
    spent: dict[str, str] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    asked: list[dict[str, str]] = field(default_factory=list)
    """The forms that the token page was sent."""
    refreshes: int = 0

    # --- for tests ---

    def accepts(self, token: str) -> bool:
        found = self.access.get(token)
        return found is not None and not found.ended and found.family not in self.revoked

    def end_access(self) -> None:
        """Every access token there is has ended."""
        for granted in self.access.values():
            granted.ended = True

    def revoke_all(self) -> None:
        """The person took everything back."""
        self.revoked |= {granted.family for granted in self.access.values()}

    def secrets(self) -> set[str]:
        """Everything that must be nowhere else."""
        return {*self.access, *self.refresh, *self.spent, *self.codes, *self.clients.values()}

    # --- pages ---

    def routes(self) -> list[Route]:
        return [
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/revoke", self._revoke, methods=["POST"]),
        ]

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        uri = asked.get("redirect_uri", "")
        if asked.get("client_id") not in self.clients or asked.get("response_type") != "code" or not uri:
            return Response("unknown client", 400)
        if asked.get("code_challenge_method") != "S256" or len(asked.get("code_challenge", "")) != 43:
            return _back(uri, error="invalid_request", state=asked.get("state", ""))
        if not self.agrees:
            return _back(uri, error="access_denied", state=asked.get("state", ""))
        code = secrets.token_urlsafe(16)
        scope = asked.get("user_scope") or asked.get("scope") or ""
        self.codes[code] = Code(asked["client_id"], uri, asked["code_challenge"], scope)
        return _back(uri, code=code, state=asked.get("state", ""))

    async def _token(self, request: Request) -> Response:
        given = await form_of(request)
        self.asked.append(given)
        if self.trouble:
            return self.trouble.pop(0)
        client = given.get("client_id", "")
        if client not in self.clients or (self.clients[client] and given.get("client_secret") != self.clients[client]):
            names = {"google": "invalid_client", "github": "incorrect_client_credentials", "slack": "bad_client_secret"}
            return self._no(names[self.manner], 401)
        if given.get("grant_type") == "authorization_code":
            return self._exchange(given)
        if given.get("grant_type") == "refresh_token":
            return self._refreshed(given.get("refresh_token", ""))
        return self._no("unsupported_grant_type", 400)

    def _exchange(self, given: dict[str, str]) -> Response:
        names = {"google": "invalid_grant", "github": "bad_verification_code", "slack": "invalid_code"}
        code = self.codes.get(given.get("code", ""))
        verifier = given.get("code_verifier", "")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if code is None or code.redirect_uri != given.get("redirect_uri") or code.challenge != digest:
            return self._no(names[self.manner], 400)
        if code.used:  # RFC 6749, 4.1.2: somebody has stolen it
            self.revoked.add(code.family)
            return self._no(names[self.manner], 400)
        code.used, code.family = True, secrets.token_hex(4)
        return self._yes(code.family, code.scope, first=True)

    def _refreshed(self, token: str) -> Response:
        names = {"google": "invalid_grant", "github": "bad_refresh_token", "slack": "invalid_refresh_token"}
        if token in self.spent:  # as above
            self.revoked.add(self.spent[token])
        family = self.refresh.get(token)
        if family is None or family in self.revoked:
            return self._no(names[self.manner], 400)
        if self.rotates:
            self.spent[token] = self.refresh.pop(token)
        self.refreshes += 1
        scope = next(granted.scope for granted in self.access.values() if granted.family == family)
        for granted in self.access.values():
            granted.ended |= granted.family == family
        return self._yes(family, scope, first=False)

    def _yes(self, family: str, scope: str, *, first: bool) -> Response:
        token = f"access-{secrets.token_urlsafe(16)}"
        self.access[token] = Granted(family, scope)
        answer: dict[str, Any] = {"access_token": token, "token_type": "bearer", "scope": scope}
        if self.lasts_s is not None:
            answer["expires_in"] = self.lasts_s
            if first or self.rotates:
                answer["refresh_token"] = f"refresh-{secrets.token_urlsafe(16)}"
                self.refresh[answer["refresh_token"]] = family
        if self.manner == "slack":
            person = {"id": "U1", **answer, "token_type": "user"}
            if first:
                answer = {"ok": True, "app_id": "A1", "team": {"id": "T1", "name": "Acme"}, "authed_user": person}
            else:
                answer = {"ok": True, **person}
        return JSONResponse(answer)

    def _no(self, name: str, status: int) -> Response:
        if self.manner == "slack":
            return JSONResponse({"ok": False, "error": name})
        return JSONResponse({"error": name, "error_description": "no"}, 200 if self.manner == "github" else status)

    async def _revoke(self, request: Request) -> Response:
        token = (await form_of(request)).get("token", "")
        found = self.access.get(token)
        family = found.family if found else self.refresh.get(token)
        if family is None:
            return self._no("invalid_token", 400)
        self.revoked.add(family)
        return JSONResponse({"ok": True, "revoked": True})


async def form_of(request: Request) -> dict[str, str]:
    """A form, as services take it."""
    assert request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    return dict(parse_qsl((await request.body()).decode()))


def _back(uri: str, **said: str) -> Response:
    return RedirectResponse(f"{uri}?{urlencode(said)}", 302)


def said_to(url: str) -> dict[str, str]:
    """The query of an address, as one value each."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
