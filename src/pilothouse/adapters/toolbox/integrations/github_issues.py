"""Issues on GitHub, and what is said about them. A pull request is an issue too, as far as comments go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from pilothouse.adapters.toolbox.integrations.api import Api
from pilothouse.adapters.toolbox.integrations.github_repos import Limit, OfRepo, listed, login_of, repo_path

_LONGEST = 20_000
"""Characters of a text that are shown."""

Number = Annotated[int, Meta(ge=1, description="The number of the issue or pull request.")]
Text = Annotated[str, Meta(max_length=65_536, description="In Markdown.")]
Words = Annotated[tuple[str, ...], Meta(max_length=50)]


class ListIssues(OfRepo, frozen=True, kw_only=True):
    state: Literal["open", "closed", "all"] = "open"
    labels: Annotated[Words, Meta(description="Only with all of these labels.")] = ()
    assignee: Annotated[str, Meta(description="Only of this login; none: of nobody.")] = ""
    limit: Limit = 30


class GetIssue(OfRepo, frozen=True, kw_only=True):
    number: Number
    comments: Annotated[int, Meta(ge=0, le=100, description="At most so many comments, the oldest first.")] = 30


class CreateIssue(OfRepo, frozen=True, kw_only=True):
    title: Annotated[str, Meta(min_length=1, max_length=256)]
    body: Text = ""
    labels: Words = ()
    assignees: Words = ()


class Comment(OfRepo, frozen=True, kw_only=True):
    number: Number
    body: Annotated[str, Meta(min_length=1, max_length=65_536, description="In Markdown.")]


async def list_issues(api: Api, given: ListIssues) -> dict[str, Any]:
    params = {"state": given.state, "labels": ",".join(given.labels), "assignee": given.assignee}
    found, more = await listed(api, f"{repo_path(given.repo)}/issues", params, given.limit, without="pull_request")
    return {"issues": [_shown(issue) for issue in found], "more": more}


async def get_issue(api: Api, given: GetIssue) -> dict[str, Any]:
    path = f"{repo_path(given.repo)}/issues/{given.number}"
    issue = (await api.get(path)).table
    comments: list[Mapping[str, Any]] = []
    more = False
    if given.comments and issue.get("comments"):
        comments, more = await listed(api, f"{path}/comments", {}, given.comments)
    return {
        **_shown(issue),
        "body": _cut(issue.get("body")),
        "pullRequest": "pull_request" in issue,
        "comments": [
            {
                "author": login_of(comment.get("user")),
                "createdAt": comment.get("created_at"),
                "body": _cut(comment.get("body")),
            }
            for comment in comments
        ],
        "moreComments": more,
    }


async def create_issue(api: Api, given: CreateIssue) -> dict[str, Any]:
    body = {"title": given.title, "body": given.body, "labels": given.labels, "assignees": given.assignees}
    issue = (await api.post(f"{repo_path(given.repo)}/issues", body)).table
    return {"number": issue.get("number"), "url": issue.get("html_url")}


async def comment(api: Api, given: Comment) -> dict[str, Any]:
    path = f"{repo_path(given.repo)}/issues/{given.number}/comments"
    made = (await api.post(path, {"body": given.body})).table
    return {"id": made.get("id"), "url": made.get("html_url")}


def _shown(issue: Mapping[str, Any]) -> dict[str, Any]:
    labels = issue.get("labels")
    return {
        "number": issue.get("number"),
        "title": issue.get("title"),
        "state": issue.get("state"),
        "author": login_of(issue.get("user")),
        "labels": [one.get("name") for one in labels if isinstance(one, dict)] if isinstance(labels, list) else [],
        "createdAt": issue.get("created_at"),
        "url": issue.get("html_url"),
    }


def _cut(text: Any) -> str:
    text = text if isinstance(text, str) else ""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
