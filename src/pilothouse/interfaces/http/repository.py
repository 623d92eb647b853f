"""Which repository a request may have a plan work in."""

from __future__ import annotations

from starlette.requests import Request

from pilothouse.engine.access.repos import Repos
from pilothouse.errors import BadInput
from pilothouse.interfaces.http.guard import at_home, principal_of


async def repository_for(request: Request, repos: Repos, asked: str | None) -> str:
    """The repository that was asked for, as an absolute path; for all but the local user at home a registered one.

    Raises ``BadInput``."""
    if asked is None:
        raise BadInput("is missing", field="repoPath", fix="say which repository to work in")
    if not asked.startswith("/"):
        raise BadInput(f"{asked!r} is not an absolute path", field="repoPath", fix="begin with '/'")
    return asked if at_home(request) else await repos.require(asked, principal_of(request))
