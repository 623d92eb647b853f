"""Repositories on GitHub: naming one, listing them; and lists in general, page by page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api
from pilothouse.adapters.toolbox.integrations.tool import OfAccount
from pilothouse.errors import BadInput

PAGE = 100
MOST = 500
"""Of anything that is listed."""

_REPO = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9_.-]+/(?!\.{1,2}$)[A-Za-z0-9_.-]+")

Limit = Annotated[int, Meta(ge=1, le=MOST, description="At most so many.")]


class OfRepo(OfAccount, frozen=True, kw_only=True):
    repo: Annotated[str, Meta(description="owner/name")]


class ListRepos(OfAccount, frozen=True, kw_only=True):
    limit: Limit = 30


async def list_repos(api: Api, given: ListRepos) -> dict[str, Any]:
    found, more = await listed(api, "/user/repos", {"sort": "updated"}, given.limit)
    repos = [
        {
            "repo": one.get("full_name"),
            "description": one.get("description") or "",
            "private": bool(one.get("private")),
            "defaultBranch": one.get("default_branch"),
            "url": one.get("html_url"),
        }
        for one in found
    ]
    return {"repos": repos, "more": more}


def repo_path(repo: str) -> str:
    """Raises ``BadInput``."""
    if _REPO.fullmatch(repo) is None:
        raise BadInput(f"{repo!r} names no repository", field="repo", fix="as in owner/name")
    return f"/repos/{repo}"


async def listed(
    api: Api, path: str, params: Mapping[str, Any], limit: int, without: str = ""
) -> tuple[list[Mapping[str, Any]], bool]:
    """Up to ``limit`` of a list, and whether there are more. What has the field ``without`` is left out."""
    found: list[Mapping[str, Any]] = []
    for page in range(1, MOST // PAGE + 2):
        reply = await api.get(path, {**params, "per_page": min(PAGE, PAGE if without else limit), "page": page})
        rows = reply.body if isinstance(reply.body, list) else []
        found += [row for row in rows if isinstance(row, dict) and not (without and without in row)]
        last = 'rel="next"' not in reply.headers.get("link", "")
        if last or len(found) >= limit:
            return found[:limit], not last or len(found) > limit
    return found[:limit], True


def login_of(person: Any) -> str:
    return str(person.get("login", "")) if isinstance(person, dict) else ""
