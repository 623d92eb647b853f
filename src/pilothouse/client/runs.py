"""Calls about runs of every kind, and about what waits for a person."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.client.flows import Flow, ask, get, given, post, segment

Json = dict[str, Any]


class Approval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that waits for a person. ``options`` are the answers it takes; ``opened_at`` is milliseconds since the
    epoch."""

    id: str
    kind: str = "approval"
    run_id: str = ""
    run_name: str = ""
    scope: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    detail: dict[str, Any] = {}
    opened_at: int = 0


def list_runs(
    *,
    kind: str | None = None,
    status: str = "all",
    chat_id: str | None = None,
    waiting: bool | None = None,
    limit: int = 100,
    before: str | None = None,
) -> Flow[list[Json]]:
    """Newest first. ``status``: a lifecycle in lower case, or ``all``."""
    query = {
        "kind": kind,
        "status": status,
        "sessionId": chat_id,
        "waiting": waiting,
        "limit": limit,
        "before": before,
    }
    found: list[Json] = (yield from get("/api/runs", **query))["runs"]
    return found


def show(run_id: str) -> Flow[Json]:
    """A run at a glance. Raises ``NotFound``, ``Gone``."""
    row: Json = yield from get(_run(run_id))
    return row


def _control(run_id: str, verb: str) -> Flow[Json]:
    row: Json = yield from post(f"{_run(run_id)}/{verb}")
    return row


def stop(run_id: str) -> Flow[Json]:
    """End it cleanly; it can be resumed. Returns once nothing new happens any more. Raises ``Refused`` where it does
    not apply, as all verbs do."""
    return (yield from _control(run_id, "stop"))


def cancel(run_id: str) -> Flow[Json]:
    """End it for good."""
    return (yield from _control(run_id, "cancel"))


def pause(run_id: str) -> Flow[Json]:
    """Begin nothing new; what runs finishes."""
    return (yield from _control(run_id, "pause"))


def resume(run_id: str) -> Flow[Json]:
    """Let what was paused or stopped go on."""
    return (yield from _control(run_id, "resume"))


def retry(run_id: str) -> Flow[Json]:
    """Try what failed again."""
    return (yield from _control(run_id, "retry"))


def discard(run_id: str) -> Flow[Json]:
    """Give up what could still go on."""
    return (yield from _control(run_id, "discard"))


def delete(run_id: str) -> Flow[None]:
    """Delete an ended run."""
    yield from ask("DELETE", _run(run_id))


def stop_everything(*, chat_id: str | None = None) -> Flow[list[str]]:
    """Stop every live run, or those of a conversation; the ids of what was stopped."""
    stopped: list[str] = (yield from post("/api/stop-everything", given(sessionId=chat_id)))["stopped"]
    return stopped


def list_approvals() -> Flow[list[Approval]]:
    """Everything that waits for an answer."""
    found = yield from get("/api/approvals")
    return msgspec.convert(found["approvals"], list[Approval])


def answer(approval_id: str, answer: str) -> Flow[Json]:
    """Answer what waits; returns its run. The first answer counts: raises ``NotFound`` for a second."""
    row: Json = yield from post(f"/api/approvals/{segment(approval_id)}", {"answer": answer})
    return row


def _run(run_id: str) -> str:
    return f"/api/runs/{segment(run_id)}"
