"""Clients that come in with an API key."""

from __future__ import annotations

import httpx
from tests.interfaces.http.doors import Inside, client_of

from pilothouse.core.auth.principals import Scope


async def key_of(at: Inside, user: str, *scopes: Scope) -> str:
    """A new key. Without scopes it may nothing, which no door lets anybody make."""
    return (await at.services.keys.create("test", user, scopes)).key


def showing(at: Inside, key: str) -> httpx.AsyncClient:
    """A client at the TCP door that shows a key."""
    at.guard.listening("127.0.0.1", 80)
    client = client_of(at.guard.tcp(at.app), "http://127.0.0.1")
    client.headers["x-api-key"] = key
    return client


async def keyed(at: Inside, user: str, *scopes: Scope) -> httpx.AsyncClient:
    return showing(at, await key_of(at, user, *scopes))
