"""Pull requests on GitHub."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api
from pilothouse.adapters.toolbox.integrations.github_repos import Limit, OfRepo, listed, login_of, repo_path


class ListPulls(OfRepo, frozen=True, kw_only=True):
    state: Literal["open", "closed", "all"] = "open"
    base: Annotated[str, Meta(description="Only into this branch.")] = ""
    limit: Limit = 30


class CreatePull(OfRepo, frozen=True, kw_only=True):
    title: Annotated[str, Meta(min_length=1, max_length=256)]
    head: Annotated[str, Meta(min_length=1, description="The branch with the changes; owner:branch of a fork.")]
    base: Annotated[str, Meta(min_length=1, description="The branch they are to go into.")]
    body: Annotated[str, Meta(max_length=65_536, description="In Markdown.")] = ""
    draft: bool = False


async def list_pulls(api: Api, given: ListPulls) -> dict[str, Any]:
    params = {"state": given.state, "base": given.base}
    found, more = await listed(api, f"{repo_path(given.repo)}/pulls", params, given.limit)
    pulls = [
        {
            "number": pull.get("number"),
            "title": pull.get("title"),
            "state": pull.get("state"),
            "draft": bool(pull.get("draft")),
            "author": login_of(pull.get("user")),
            "head": _branch(pull.get("head")),
            "base": _branch(pull.get("base")),
            "url": pull.get("html_url"),
        }
        for pull in found
    ]
    return {"pullRequests": pulls, "more": more}


async def create_pull(api: Api, given: CreatePull) -> dict[str, Any]:
    body = {
        "title": given.title,
        "head": given.head,
        "base": given.base,
        "body": given.body,
        "draft": given.draft or None,
    }
    pull = (await api.post(f"{repo_path(given.repo)}/pulls", body)).table
    return {"number": pull.get("number"), "url": pull.get("html_url")}


def _branch(end: Any) -> str:
    return str(end.get("ref", "")) if isinstance(end, dict) else ""
