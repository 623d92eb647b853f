"""Routes of what waits for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.waits import WaitKind
from pilothouse.engine.services import Services
from pilothouse.interfaces.http.bodies import AnswerWait
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.wire import Json, run_json

_WAIT = {
    "id": "0192f0c1-….review",
    "kind": "review",
    "runId": "0192f0c1-…",
    "runName": "hello",
    "scope": "0192f0c2-…",
    "question": "build was interrupted and nobody knows how far it came. What now?",
    "options": ["rerun", "fail"],
    "detail": {},
    "openedAt": 1767225600000,
}


def make_approvals(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/approvals", tags=["approvals"])
    runs = services.runs

    @router.get("", responses=answer({"approvals": [_WAIT]}))
    async def list_approvals(request: Request) -> Response:
        """Everything that waits for a person, the run that was created last first."""
        rows = await runs.waits(principal_of(request).only)
        return Json({"approvals": [wait for row in rows for wait in _waits(row)]})

    @router.post("/{wait_id:path}", responses=answer({"id": "0192f0c1-…", "status": "running"}))
    async def answer_wait(request: Request, wait_id: str, body: AnswerWait) -> Response:
        """Answer a wait with one of its options. One answer wins; a second finds nothing that waits (404)."""
        principal = principal_of(request)
        answered = await runs.answer(
            wait_id,
            body.answer,
            principal.name,
            owner=principal.only,
            arguments=body.arguments,
            message=body.message,
        )
        return Json(run_json(answered))

    return router


def _waits(row: RunRow) -> Iterator[dict[str, Any]]:
    for wait in row.waits:
        if wait.kind is not WaitKind.BACKOFF:  # time will answer that one
            yield {**msgspec.to_builtins(wait), "runId": row.id, "runName": row.name}
