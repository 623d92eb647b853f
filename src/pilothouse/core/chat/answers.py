"""The answers that a question about a tool call takes, and what each means."""

from __future__ import annotations

from pilothouse.core.chat.tool_events import ONCE

APPROVE, APPROVE_CHAT, APPROVE_ALWAYS = "approve", "approve-chat", "approve-always"
REFUSE, BACKGROUND = "refuse", "background"

OPTIONS = (APPROVE, APPROVE_CHAT, APPROVE_ALWAYS, REFUSE, BACKGROUND)

SCOPES = {APPROVE: ONCE, APPROVE_CHAT: "chat", APPROVE_ALWAYS: "always", BACKGROUND: ONCE}
"""Answers that allow, and for how long."""
ALLOWING = frozenset(SCOPES)

CONFIRMS = {
    "accepted": APPROVE,
    "success": APPROVE,
    "rejected": REFUSE,
    "error": REFUSE,
    "background": BACKGROUND,
}
"""The chat document's words for a decision."""
FOR_SCOPE = {scope: answer for answer, scope in reversed(SCOPES.items())}
"""What is answered by ``accepted`` for so long."""
