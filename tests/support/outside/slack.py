"""A Slack workspace, as far as channels and messages go: it answers 200 and says ``ok``, as the real one does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.outside.tokens import Tokens


@dataclass
class Slack:
    tokens: Tokens = field(default_factory=lambda: Tokens("slack"))
    channels: list[dict[str, Any]] = field(default_factory=list)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    page: int = 2
    """Channels on a page, whatever was asked for: the real one may give fewer too."""
    trouble: list[Response] = field(default_factory=list)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, id: str, name: str, *, member: bool = True) -> None:
        self.channels.append(
            {"id": id, "name": name, "is_private": False, "is_member": member, "purpose": {"value": f"about {name}"}}
        )
        self.messages[id] = []

    def routes(self) -> list[Route]:
        return [
            *self.tokens.routes(),
            Route("/auth.test", self._auth_test),
            Route("/conversations.list", self._list),
            Route("/conversations.history", self._history),
            Route("/conversations.replies", self._replies),
            Route("/chat.postMessage", self._post, methods=["POST"]),
        ]

    def _refused(self, request: Request, given: dict[str, Any]) -> Response | None:
        self.asked.append((request.url.path, given))
        if self.trouble:
            return self.trouble.pop(0)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not token:
            return no("not_authed")
        if not self.tokens.accepts(token):
            return no("token_expired" if token in self.tokens.access else "invalid_auth")
        return None

    async def _auth_test(self, request: Request) -> Response:
        return self._refused(request, {}) or JSONResponse(
            {"ok": True, "team": "Acme Inc", "user": "grace", "team_id": "T1", "user_id": "U1"}
        )

    async def _list(self, request: Request) -> Response:
        given = dict(request.query_params)
        if refused := self._refused(request, given):
            return refused
        start = int(given.get("cursor") or 0)
        end = start + min(self.page, int(given["limit"]))
        cursor = str(end) if end < len(self.channels) else ""
        return JSONResponse(
            {"ok": True, "channels": self.channels[start:end], "response_metadata": {"next_cursor": cursor}}
        )

    async def _history(self, request: Request) -> Response:
        given = dict(request.query_params)
        if refused := self._refused(request, given) or self._no_channel(given.get("channel", "")):
            return refused
        found = [one for one in self.messages[given["channel"]] if one["ts"] > given.get("oldest", "")][::-1]
        start = int(given.get("cursor") or 0)
        end = start + int(given.get("limit", 100))
        more = end < len(found)
        answer: dict[str, Any] = {"ok": True, "messages": found[start:end], "has_more": more}
        return JSONResponse(answer | ({"response_metadata": {"next_cursor": str(end)}} if more else {}))

    async def _replies(self, request: Request) -> Response:
        given = dict(request.query_params)
        if refused := self._refused(request, given) or self._no_channel(given.get("channel", "")):
            return refused
        there = self.messages[given["channel"]]
        found = [one for one in there if given["ts"] in (one["ts"], one.get("thread_ts"))]
        return JSONResponse({"ok": True, "messages": found, "has_more": False}) if found else no("thread_not_found")

    async def _post(self, request: Request) -> Response:
        assert request.headers["content-type"] == "application/json"
        given = await request.json()
        if refused := self._refused(request, given):
            return refused
        name = given["channel"].removeprefix("#")
        channel = next((one for one in self.channels if name in (one["id"], one["name"])), None)
        if channel is None:
            return no("channel_not_found")
        if not channel["is_member"]:
            return no("not_in_channel")
        there = self.messages[channel["id"]]
        message = {"type": "message", "user": "U1", "text": given["text"], "ts": f"{1700000000 + len(there)}.000100"}
        if "thread_ts" in given:
            message["thread_ts"] = given["thread_ts"]
        there.append(message)
        return JSONResponse({"ok": True, "channel": channel["id"], "ts": message["ts"], "message": message})

    def _no_channel(self, id: str) -> Response | None:
        return None if id in self.messages else no("channel_not_found")


def no(error: str, **more: str) -> Response:
    return JSONResponse({"ok": False, "error": error, **more})
