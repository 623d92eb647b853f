"""Routes of registered repositories."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.engine.services import Services
from pilothouse.interfaces.http.bodies import RegisterRepo
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.wire import Json

_REPO = {"path": "/home/me/project", "owner": "local", "registeredAt": 1767225600000}


def make_repos(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/repos", tags=["repositories"])
    repos = services.repos

    @router.get("", responses=answer({"repos": [_REPO]}))
    async def list_repos(request: Request) -> Response:
        """The repositories that one may run plans in over TCP: one's own, and those of the owner of the server."""
        return Json({"repos": await repos.list(principal_of(request))})

    @router.post("", status_code=201, responses=answer(_REPO, "Registered, now or before", 201))
    async def register(request: Request, body: RegisterRepo) -> Response:
        """Register a repository."""
        return Json(await repos.add(body.path, principal_of(request).name), 201)

    @router.delete("", status_code=204)
    async def remove(request: Request, path: Annotated[str, Query(min_length=1, description="As listed.")]) -> Response:
        """Forget a repository. Plans that run there go on."""
        await repos.remove(path, principal_of(request))
        return Response(status_code=204)

    return router
