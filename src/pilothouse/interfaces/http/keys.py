"""Routes of API keys."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.principals import read_scopes
from pilothouse.engine.services import Services
from pilothouse.interfaces.http.bodies import CreateKey
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.wire import Json

_KEY: dict[str, Any] = {
    "id": "4hK0vQ2mYtB",
    "name": "nightly",
    "user": "local",
    "scopes": ["run"],
    "createdAt": 1767225600000,
    "lastUsedAt": None,
}


def make_keys(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/keys", tags=["keys"])
    keys = services.keys

    @router.get("", responses=answer({"keys": [_KEY]}))
    async def list_keys(request: Request) -> Response:
        """API keys that were not revoked, the oldest first; what they hide is kept nowhere."""
        return Json({"keys": await keys.list(principal_of(request).only)})

    @router.post("", status_code=201, responses=answer({**_KEY, "key": "pk_4hK0vQ2mYtB_…"}, "Made; shown once", 201))
    async def create(request: Request, body: CreateKey) -> Response:
        """Make an API key. The answer is the only place where `key` is ever shown."""
        user = principal_of(request).name if body.user is None else body.user
        made = await keys.create(body.name, user, read_scopes(body.scopes))
        return Json({**msgspec.to_builtins(made.info), "key": made.key}, 201)

    @router.delete("/{key_id}", status_code=204)
    async def revoke(key_id: str) -> Response:
        """Revoke a key, at once: streams it opened end too."""
        await keys.revoke(key_id)
        return Response(status_code=204)

    return router
