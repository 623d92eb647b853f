"""What a program says to a tool call that a person has to allow, and what is asked of the server for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pilothouse.client import chats, runs
from pilothouse.client.events import ApprovalRequired
from pilothouse.client.flows import Flow, get, segment
from pilothouse.errors import BadInput, NotFound, Refused

_EDITED = {"approve": "once", "approve-chat": "chat", "approve-always": "always"}


@dataclass(frozen=True, slots=True)
class Decision:
    """``answer``: one of the approval's options, as ``approve`` or ``refuse``. ``arguments``: what the tool is to be
    called with instead."""

    answer: str
    arguments: dict[str, Any] | None = None


def decide(asked: ApprovalRequired, decision: Decision | str | None) -> Flow[bool]:
    """Answer; whether that counted: the first answer does. None leaves it to somebody else.

    Raises ``BadInput`` for what is none of its options."""
    if decision is None:
        return False
    said = Decision(decision) if isinstance(decision, str) else decision
    if said.answer not in asked.options:
        raise BadInput(f"{said.answer!r} is no answer to it", field="answer", fix=f"one of {', '.join(asked.options)}")
    try:
        if said.arguments is None:
            yield from runs.answer(asked.approval_id, said.answer)
        elif (scope := _EDITED.get(said.answer)) is not None:
            yield from chats.confirm(asked.tool_call_id, turn_id=asked.stream_id, scope=scope, arguments=said.arguments)
        else:
            raise BadInput("go with an approval only", field="arguments", fix=f"one of {', '.join(_EDITED)}")
    except (NotFound, Refused):
        return False
    return True


def workflow_of(asked: ApprovalRequired) -> Flow[dict[str, Any] | None]:
    """The workflow that a call names, in the version that it would use, as ``GET /api/workflows/{id}`` tells it; None
    for a call that names none, or one that is not there."""
    named, version = asked.arguments.get("workflowId"), asked.arguments.get("version")
    if not isinstance(named, str) or not named:
        return None
    try:
        found: dict[str, Any] = yield from get(
            f"/api/workflows/{segment(named)}", version=version if isinstance(version, int) else None
        )
    except (BadInput, NotFound):
        return None
    return found
