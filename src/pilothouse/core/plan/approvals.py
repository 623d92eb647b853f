"""What an agent may not do unasked: from its request to a question for a person, and from the answer back to the agent.

The question is a wait like any other. It knows neither how agents ask nor how an answer reaches them.
"""

from __future__ import annotations

import hashlib
import re

from pilothouse.core.plan.agent_events import NeedsApproval
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.run.agents import Asked
from pilothouse.core.run.waits import Wait, WaitKind

APPROVE, APPROVE_ALWAYS, REFUSE = "approve", "approve-always", "refuse"

_SAFE_IN_URLS = re.compile(r"[A-Za-z0-9_-]{1,64}")


def approval(effect: RunWork, asked: Asked, to: int) -> NeedsApproval:
    """The event that records a request of the agent of ``effect``. ``to``: see ``AgentEvent``. Deterministic: whoever
    reads the same output again makes the same one."""
    options = (APPROVE, APPROVE_ALWAYS, REFUSE) if asked.can_remember else (APPROVE, REFUSE)
    what = f": {asked.title}" if asked.title else ""
    wait = Wait(
        id=_wait_id(effect.key, asked.request_id),
        kind=WaitKind.APPROVAL,
        scope=effect.node_id,
        question=f"{effect.producer_id} asks to use {asked.tool}{what}",
        options=options,
        detail={
            "node": effect.producer_id,
            "tool": asked.tool,
            "title": asked.title,
            "input": asked.input,
            "phase": str(effect.phase),
            "attempt": effect.attempt,
        },
        lasts_ms=effect.approval_timeout_ms,
    )
    return NeedsApproval(
        wait=wait,
        action=asked.tool,
        preview={"title": asked.title, "input": asked.input},
        timeout=effect.approval_timeout_ms or None,
        request_id=asked.request_id,
        to=to,
    )


def _wait_id(key: str, request_id: str) -> str:
    """It stands in URLs, whatever an agent calls its requests."""
    if not _SAFE_IN_URLS.fullmatch(request_id):
        request_id = hashlib.sha256(request_id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{key.replace('/', '.')}.ask.{request_id}"
