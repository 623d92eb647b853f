"""Gmail's REST API over a mailbox in memory."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.outside.tokens import Tokens

ME = "/gmail/v1/users/me"


@dataclass
class Google:
    tokens: Tokens = field(default_factory=lambda: Tokens("google"))
    mail: list[dict[str, Any]] = field(default_factory=list)
    sent: list[tuple[Message, str]] = field(default_factory=list)
    """What was sent, and the thread it joined."""
    trouble: list[Response] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def add(self, subject: str, payload: dict[str, Any] | None = None, **headers: str) -> str:
        """A message; answers its id."""
        id = f"m{len(self.mail) + 1}"
        given = {"From": "ann@example.org", "To": "grace@example.org", "Subject": subject, **headers}
        heads = [{"name": name, "value": value} for name, value in given.items()]
        body = payload or {"mimeType": "text/plain", "body": {"size": 2, "data": encoded("hi")}}
        self.mail.append(
            {
                "id": id,
                "threadId": f"t-{id}",
                "labelIds": ["INBOX"],
                "snippet": subject.lower(),
                "payload": {"headers": heads, **body},
            }
        )
        return id

    def routes(self) -> list[Route]:
        return [
            *self.tokens.routes(),
            Route(f"{ME}/profile", self._profile),
            Route(f"{ME}/messages", self._list),
            Route(f"{ME}/messages/send", self._send, methods=["POST"]),
            Route(f"{ME}/messages/{{id}}", self._get),
        ]

    def _refused(self, request: Request) -> Response | None:
        self.asked.append(f"{request.method} {request.url.path}")
        if self.trouble:
            return self.trouble.pop(0)
        if self.tokens.accepts(request.headers.get("authorization", "").removeprefix("Bearer ")):
            return None
        return said("Request had invalid authentication credentials.", 401, "authError")

    async def _profile(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse({"emailAddress": "grace@example.org"})

    async def _list(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        given = request.query_params
        found = [one for one in reversed(self.mail) if given.get("q", "") in one["snippet"]]
        start, size = int(given.get("pageToken", 0)), int(given["maxResults"])
        answer: dict[str, Any] = {"resultSizeEstimate": len(found)}
        if page := found[start : start + size]:
            answer["messages"] = [{"id": one["id"], "threadId": one["threadId"]} for one in page]
        if start + size < len(found):
            answer["nextPageToken"] = str(start + size)
        return JSONResponse(answer)

    async def _get(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        found = next((one for one in self.mail if one["id"] == request.path_params["id"]), None)
        if found is None:
            return said("Requested entity was not found.", 404, "notFound")
        if request.query_params["format"] == "full":
            return JSONResponse(found)
        wanted = {name.lower() for name in request.query_params.getlist("metadataHeaders")}
        heads = [head for head in found["payload"]["headers"] if head["name"].lower() in wanted]
        return JSONResponse({**found, "payload": {"mimeType": "text/plain", "headers": heads}})

    async def _send(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        given = await request.json()
        message = message_from_bytes(base64.urlsafe_b64decode(given["raw"]), policy=default)
        if not message["To"]:
            return said("Recipient address required", 400, "invalidArgument")
        thread = given.get("threadId", f"t-s{len(self.sent)}")
        self.sent.append((message, thread))
        return JSONResponse({"id": f"s{len(self.sent)}", "threadId": thread, "labelIds": ["SENT"]})


def said(message: str, status: int, reason: str) -> Response:
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return JSONResponse({"error": {"code": status, "message": message, "errors": errors}}, status)


def encoded(text: str, charset: str = "utf-8") -> str:
    return base64.urlsafe_b64encode(text.encode(charset)).rstrip(b"=").decode()
