"""OAuth 2.0 with PKCE (RFC 6749, RFC 7636), as far as it is values: addresses and forms out, answers in.

Knows what services say that is not in the RFCs, but neither sends anything nor keeps it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from pilothouse.core.credentials.services import Service
from pilothouse.errors import BackendFailed, BadInput, PilothouseError, Refused

VERIFIER_BYTES = 48
"""Random bytes of a verifier: 64 characters, within the 43 to 128 of RFC 7636."""

_ERROR_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OUR_FAULT = frozenset(
    {
        "invalid_client",
        "unauthorized_client",
        "invalid_client_id",
        "bad_client_secret",
        "incorrect_client_credentials",
        "redirect_uri_mismatch",
        "bad_redirect_uri",
        "invalid_scope",
        "unsupported_grant_type",
    }
)
"""What the settings of this server are to blame for, not the account."""
_PASSES = frozenset(
    {"temporarily_unavailable", "server_error", "internal_error", "fatal_error", "ratelimited", "slow_down"}
)


class GrantRefused(Refused):
    """Raised when a service gives no token for what it was shown: a code or a token that ended or was revoked."""

    code = "grant_refused"

    def __init__(self, title: str, name: str) -> None:
        self.name = name
        """What the service calls it."""
        super().__init__(f"{title} gave no token: {name}")


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, as a service gave them. ``expires_at`` in milliseconds since 1970."""

    token: str
    refresh_token: str = ""
    expires_at: int | None = None
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Grant(…)"


def text_of(random: bytes) -> str:
    """Random bytes as a state or a verifier."""
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def challenge_of(verifier: str) -> str:
    """What is told of a verifier before it is shown (S256)."""
    return text_of(hashlib.sha256(verifier.encode("ascii")).digest())


def authorize_url(service: Service, *, redirect_uri: str, state: str, verifier: str) -> str:
    """Where a person is sent to agree. Raises ``BadInput`` when this server was never registered there."""
    if not service.client_id or not service.authorize_url or not service.token_url:
        raise BadInput(
            f"this server is not registered with {service.title}",
            field=f"oauth.{service.name}.clientId",
            fix="set PILOTHOUSE_OAUTH, see docs/credentials.md; or give a token of your own: "
            f"pilothouse credentials add {service.name}",
        )
    asked = {
        "response_type": "code",
        "client_id": service.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        **dict(service.extra),
    }
    if service.scopes:
        asked[service.scope_parameter] = service.scope_separator.join(service.scopes)
    scheme, host, path, query, _ = urlsplit(service.authorize_url)
    return urlunsplit((scheme, host, path, urlencode([*parse_qsl(query), *asked.items()]), ""))


def exchange_form(service: Service, *, code: str, verifier: str, redirect_uri: str) -> dict[str, str]:
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
        **_client(service),
    }


def refresh_form(service: Service, refresh_token: str) -> dict[str, str]:
    return {"grant_type": "refresh_token", "refresh_token": refresh_token, **_client(service)}


def _client(service: Service) -> dict[str, str]:
    secret = {"client_secret": service.client_secret} if service.client_secret else {}
    return {"client_id": service.client_id, **secret}


def read_grant(service: Service, status: int, body: Any, now: int) -> Grant:
    """What an answer of the token endpoint gives. Nothing of the answer but the name of an error is ever repeated.

    Raises ``GrantRefused``, ``BadInput`` for what this server is set to, ``BackendFailed``."""
    if not isinstance(body, Mapping):
        raise _failed(service, status)
    # Slack answers 200 and ok=false, GitHub 200 and an error; a person's tokens are deeper in Slack's answer.
    if status != 200 or "error" in body or body.get("ok") is False:
        raise _refusal(service, status, body)
    person = body.get("authed_user")
    given = person if "access_token" not in body and isinstance(person, Mapping) else body
    match given:
        case {"access_token": str(token)} if token:
            return Grant(
                token=token,
                refresh_token=_text(given.get("refresh_token")),
                expires_at=_expiry(given.get("expires_in"), now),
                scopes=tuple(filter(None, re.split(r"[\s,]+", _text(given.get("scope"))))),
            )
    raise _failed(service, status)


def _refusal(service: Service, status: int, body: Mapping[str, Any]) -> PilothouseError:
    said = body.get("error")
    name = said if isinstance(said, str) and _ERROR_NAME.fullmatch(said) else ""
    if not name or name in _PASSES or status >= 500 or status == 429:
        return _failed(service, status, name)
    if name in _OUR_FAULT:
        fix = f"see [oauth.{service.name}] in docs/credentials.md"
        return BadInput(f"{service.title} refuses this server: {name}", field=f"oauth.{service.name}", fix=fix)
    return GrantRefused(service.title, name)


def _failed(service: Service, status: int, name: str = "") -> BackendFailed:
    passes = status >= 500 or status == 429 or name in _PASSES
    words = f"{service.title} gave no token: {name or f'it answered {status}, which is no answer to that'}"
    return BackendFailed(words, transient=passes, status=status)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _expiry(seconds: Any, now: int) -> int | None:
    try:
        after = float(seconds)
    except (TypeError, ValueError):
        return None
    return now + round(after * 1000) if 0 < after < 1e10 else None
