"""Where a request carries an API key: ``X-API-Key``, or ``Authorization: Bearer``. Values in, values out."""

from __future__ import annotations

from starlette.datastructures import Headers

from pilothouse.interfaces.http.problems import NoCredential

HEADER = "x-api-key"


def key_in(headers: Headers) -> str | None:
    """The key as it was sent, None without one. Raises ``NoCredential`` for two that differ."""
    found = {key.strip() for key in headers.getlist(HEADER)}
    for given in headers.getlist("authorization"):
        scheme, _, token = given.strip().partition(" ")
        if scheme.lower() == "bearer":  # anything else, such as what a browser says to a proxy, is not for us
            found.add(token.strip())
    if len(found) > 1:
        raise NoCredential("this request carries two API keys; send one")
    return found.pop() if found else None
