"""A GitHub, as far as issues, pull requests and files go. Refuses as the real one does."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.outside.tokens import Tokens

REPO = "/repos/{owner}/{repo}"


@dataclass
class Repo:
    issues: list[dict[str, Any]] = field(default_factory=list)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    branches: set[str] = field(default_factory=lambda: {"main"})


@dataclass
class GitHub:
    tokens: Tokens = field(default_factory=lambda: Tokens("github"))
    repos: dict[str, Repo] = field(default_factory=dict)
    trouble: list[Response] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def routes(self) -> list[Route]:
        return [
            *self.tokens.routes(),
            Route("/user", self._user),
            Route("/user/repos", self._repos),
            Route(f"{REPO}/issues", self._issues, methods=["GET", "POST"]),
            Route(f"{REPO}/issues/{{number:int}}", self._issue),
            Route(f"{REPO}/issues/{{number:int}}/comments", self._comments, methods=["GET", "POST"]),
            Route(f"{REPO}/pulls", self._pulls, methods=["GET", "POST"]),
            Route(f"{REPO}/contents", self._contents),
            Route(f"{REPO}/contents/{{path:path}}", self._contents),
        ]

    def _refused(self, request: Request) -> Response | None:
        self.asked.append(f"{request.method} {request.url.path}")
        if self.trouble:
            return self.trouble.pop(0)
        if not request.headers.get("user-agent") or request.headers.get("x-github-api-version") != "2022-11-28":
            return said("Request forbidden by administrative rules.", 403)
        if not self.tokens.accepts(request.headers.get("authorization", "").removeprefix("Bearer ")):
            return said("Bad credentials", 401)
        name = "/".join(request.path_params.get(part, "") for part in ("owner", "repo"))
        return None if name == "/" or name in self.repos else said("Not Found", 404)

    def _repo(self, request: Request) -> Repo:
        return self.repos[f"{request.path_params['owner']}/{request.path_params['repo']}"]

    async def _user(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return JSONResponse({"login": "grace"}) if self.tokens.accepts(token) else said("Bad credentials", 401)

    async def _repos(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        found = [{"full_name": name, "private": False, "default_branch": "main"} for name in sorted(self.repos)]
        return paged(request, found)

    async def _issues(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        repo, given = self._repo(request), request.query_params
        if request.method == "GET":
            labels = set(filter(None, given.get("labels", "").split(",")))
            found = [
                one
                for one in reversed(repo.issues)
                if given.get("state", "open") in ("all", one["state"])
                and labels <= {label["name"] for label in one["labels"]}
            ]
            return paged(request, found)
        body = await request.json()
        if not body.get("title"):
            return invalid({"resource": "Issue", "field": "title", "code": "missing_field"})
        return JSONResponse(self._made(request, repo, body), 201)

    def _made(self, request: Request, repo: Repo, body: dict[str, Any], **more: Any) -> dict[str, Any]:
        number = len(repo.issues) + 1
        made = {
            "number": number,
            "title": body["title"],
            "body": body.get("body"),
            "state": "open",
            "user": {"login": "grace"},
            "labels": [{"name": name} for name in body.get("labels", ())],
            "comments": 0,
            "created_at": "2026-01-02T03:04:05Z",
            "html_url": f"https://github.example{request.url.path}/{number}",
            **more,
        }
        repo.issues.append(made)
        return made

    async def _issue(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        found = self._find(request)
        return said("Not Found", 404) if found is None else JSONResponse(found)

    def _find(self, request: Request) -> dict[str, Any] | None:
        number = request.path_params["number"]
        return next((one for one in self._repo(request).issues if one["number"] == number), None)

    async def _comments(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        issue = self._find(request)
        if issue is None:
            return said("Not Found", 404)
        there = self._repo(request).comments.setdefault(issue["number"], [])
        if request.method == "GET":
            return paged(request, there)
        body = (await request.json())["body"]
        made = {"id": len(there) + 1, "body": body, "user": {"login": "grace"}, "html_url": "https://github.example/c"}
        there.append(made)
        issue["comments"] = len(there)
        return JSONResponse(made, 201)

    async def _pulls(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        repo = self._repo(request)
        if request.method == "GET":
            return paged(request, [one for one in reversed(repo.issues) if "pull_request" in one])
        body = await request.json()
        if body["head"] not in repo.branches:
            return invalid({"resource": "PullRequest", "field": "head", "code": "invalid"})
        ends = {end: {"ref": body[end]} for end in ("head", "base")}
        made = self._made(request, repo, body, **ends, draft=body.get("draft", False), pull_request={"url": "…"})
        return JSONResponse(made, 201)

    async def _contents(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        assert request.headers["accept"] == "application/vnd.github.object+json"
        repo, path = self._repo(request), request.path_params.get("path", "")
        if request.query_params.get("ref", "main") not in repo.branches:
            return said(f"No commit found for the ref {request.query_params['ref']}", 404)
        if path in repo.files:
            content = repo.files[path]
            answer = {"type": "file", "path": path, "size": len(content), "sha": "abc", "encoding": "base64"}
            return JSONResponse({**answer, "content": base64.encodebytes(content).decode()})
        inside = sorted(name for name in repo.files if name.startswith(f"{path}/" if path else ""))
        if not inside:
            return said("Not Found", 404)
        return JSONResponse({"type": "dir", "entries": [{"name": name, "type": "file", "size": 1} for name in inside]})


def paged(request: Request, rows: list[dict[str, Any]]) -> Response:
    size, page = int(request.query_params.get("per_page", 30)), int(request.query_params.get("page", 1))
    more = page * size < len(rows)
    url = request.url.include_query_params(page=page + 1)
    return JSONResponse(rows[(page - 1) * size : page * size], headers={"link": f'<{url}>; rel="next"'} if more else {})


def said(message: str, status: int) -> Response:
    return JSONResponse({"message": message, "documentation_url": "https://docs.github.com/rest"}, status)


def invalid(*errors: dict[str, Any]) -> Response:
    return JSONResponse({"message": "Validation Failed", "errors": errors}, 422)
