"""GitHub: repositories, issues, pull requests, files. Over its REST API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pilothouse.adapters.toolbox.integrations.api import Reply, retry_after, words_of
from pilothouse.adapters.toolbox.integrations.github_files import GetFile, get_file
from pilothouse.adapters.toolbox.integrations.github_issues import (
    Comment,
    CreateIssue,
    GetIssue,
    ListIssues,
    comment,
    create_issue,
    get_issue,
    list_issues,
)
from pilothouse.adapters.toolbox.integrations.github_pulls import CreatePull, ListPulls, create_pull, list_pulls
from pilothouse.adapters.toolbox.integrations.github_repos import ListRepos, list_repos
from pilothouse.adapters.toolbox.integrations.tool import Makes, ServiceTool

_DEFAULT_WAIT_S = 60.0
_LIMITED = re.compile(r"rate limit|abuse", re.IGNORECASE)


class GitHubManners:
    service = "github"
    title = "GitHub"
    headers: Mapping[str, str] = {
        "accept": "application/vnd.github+json",
        "user-agent": "pilothouse",
        "x-github-api-version": "2022-11-28",
    }

    def refuses_token(self, reply: Reply) -> bool:
        return reply.status == 401

    def wait_s(self, reply: Reply, now: float) -> float | None:
        if reply.status not in (403, 429):
            return None
        if (wait := retry_after(reply)) is not None:
            return wait
        if reply.headers.get("x-ratelimit-remaining") == "0":
            reset = reply.headers.get("x-ratelimit-reset", "")
            return max(1.0, float(reset) - now) if reset.isdecimal() else _DEFAULT_WAIT_S
        limited = reply.status == 429 or _LIMITED.search(str(reply.table.get("message", "")))
        return _DEFAULT_WAIT_S if limited else None

    def refusal(self, reply: Reply) -> str:
        if 200 <= reply.status < 300:
            return ""
        if reply.status == 404:
            return "there is no such thing, or the account does not see it (404)"
        message = reply.table.get("message")
        if not isinstance(message, str):
            return words_of(reply.status)
        errors = reply.table.get("errors")
        details = [_detail(error) for error in errors[:10]] if isinstance(errors, list) else []
        return "; ".join([f"{message} ({reply.status})", *filter(None, details)])


def _detail(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)[:200]
    if isinstance(said := error.get("message"), str) and said:
        return said[:200]
    return " ".join(str(error[name]) for name in ("resource", "field", "code") if error.get(name))


def github_tools(make: Makes) -> tuple[ServiceTool[Any], ...]:
    return (
        make.looks("github_list_repos", ListRepos, list_repos, "List repositories the GitHub account has access to."),
        make.looks(
            "github_list_issues",
            ListIssues,
            list_issues,
            "List issues of a GitHub repository, the newest first; pull requests are not among them. "
            'Example: {"repo": "acme/site", "labels": ["bug"]}',
        ),
        make.looks("github_get_issue", GetIssue, get_issue, "Read an issue or a pull request with its comments."),
        make.acts("github_create_issue", CreateIssue, create_issue, "Open an issue in a GitHub repository."),
        make.acts("github_comment", Comment, comment, "Comment on an issue or a pull request."),
        make.looks(
            "github_get_file",
            GetFile,
            get_file,
            "Read a file of a GitHub repository, or list a directory, at a branch, tag or commit.",
        ),
        make.looks("github_list_prs", ListPulls, list_pulls, "List pull requests of a GitHub repository."),
        make.acts(
            "github_create_pr",
            CreatePull,
            create_pull,
            "Open a pull request from a branch that has been pushed. "
            'Example: {"repo": "acme/site", "title": "Fix it", "head": "fix", "base": "main"}',
        ),
    )
