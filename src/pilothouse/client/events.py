"""What a turn tells while it goes on, typed: one class per event of the interactive stream.

``match`` on them; what this version does not know is ``Unknown`` and can be passed over. Knows the wire's JSON and
nothing of how it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.tools.spec import Permit


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True):
    """``seq`` is its place in the turn's log: it grows, and numbers are left out. ``subagent`` is the name of the
    subagent that did it, for the tool call ``parent_tool_call_id``; both empty for the turn itself."""

    seq: int = 0
    stream_id: str = ""
    """The turn's id."""
    subagent: str = ""
    parent_tool_call_id: str = ""


class ChatKnown(ChatEvent, frozen=True, kw_only=True):
    """The first event: which conversation the turn belongs to."""

    chat_id: str


class Started(ChatEvent, frozen=True, kw_only=True):
    """A leg begins; the first is 1."""

    message_id: str = ""
    leg: int = 1


class Text(ChatEvent, frozen=True, kw_only=True):
    """A piece of the answer."""

    text: str


class Reasoning(ChatEvent, frozen=True, kw_only=True):
    """A piece of thought. ``phase``: ``start`` or ``end`` where its bounds are marked, else empty."""

    text: str = ""
    phase: str = ""


class ToolEvent(ChatEvent, frozen=True, kw_only=True):
    """Something about one tool call."""

    tool_call_id: str
    tool_name: str = ""


class ToolGenerating(ToolEvent, frozen=True, kw_only=True):
    """A call is on its way; its arguments are not whole."""


class ToolArguments(ToolEvent, frozen=True, kw_only=True):
    """More of a call's arguments, as JSON text."""

    delta: str = ""


class ToolCalled(ToolEvent, frozen=True, kw_only=True):
    """A whole call, and who is to execute it."""

    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    run_by: RunBy = RunBy.SERVER
    permit: Permit = Permit.ALLOW


class ApprovalRequired(ToolEvent, frozen=True, kw_only=True):
    """A person has to allow the call. ``options`` are the answers it takes; ``timeout`` is in seconds."""

    approval_id: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    question: str = ""
    options: tuple[str, ...] = ()
    preview: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout: float | None = None


class ApprovalResolved(ToolEvent, frozen=True, kw_only=True):
    """Somebody answered, or nobody did in time."""

    approval_id: str
    answer: str = ""
    by: str = ""


class ToolApproved(ToolEvent, frozen=True, kw_only=True):
    """The call was allowed, with other arguments where those are told."""

    scope: str = "once"
    by: str = ""
    arguments: dict[str, Any] | None = None


class ToolRunning(ToolEvent, frozen=True, kw_only=True):
    """The tool runs; ``attempt`` is more than 1 where it was interrupted by a restart."""

    attempt: int = 1


class ToolBackgrounded(ToolEvent, frozen=True, kw_only=True):
    """The model does not wait for it any more; it runs on."""


class ToolEnded(ToolEvent, frozen=True, kw_only=True):
    """A call is over. ``reason`` is a word for programs where the status alone does not say it."""

    ok: bool
    status: CallStatus = CallStatus.SUCCESS
    result: Any = None
    error: str = ""
    reason: str = ""
    workflow_id: str = ""
    runs: tuple[str, ...] = ()


class SubagentStarted(ChatEvent, frozen=True, kw_only=True):
    """A subagent begins to work for the call ``parent_tool_call_id``."""

    agent: str = ""


class SubagentEnded(ChatEvent, frozen=True, kw_only=True):
    pass


class Titled(ChatEvent, frozen=True, kw_only=True):
    """The conversation has a title."""

    title: str


class Structured(ChatEvent, frozen=True, kw_only=True):
    """The result of a subagent that was called directly."""

    kind: str = ""
    summary: str = ""
    data: Any = None
    ok: bool = True


class Used(ChatEvent, frozen=True, kw_only=True):
    """What one request to the model used; ``cost`` in US dollars, None where nobody knows the price."""

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None


class Notice(ChatEvent, frozen=True, kw_only=True):
    """Something to know that decides nothing."""

    kind: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class Steered(ChatEvent, frozen=True, kw_only=True):
    """Something was said meanwhile."""

    steering_id: str = ""
    content: str = ""


class SteeringApplied(ChatEvent, frozen=True, kw_only=True):
    """The model has heard it."""

    steering_ids: tuple[str, ...] = ()


class Done(ChatEvent, frozen=True, kw_only=True):
    """The last event of a leg that did not fail. ``status``: ``complete``, ``stopped`` or ``cancelled``."""

    status: str = "complete"
    chat_id: str = ""
    conversation_id: str | None = None
    requires_action: bool = False
    """Calls are pending that somebody else has to execute: ``pending_tool_call_ids``."""
    pending_tool_call_ids: tuple[str, ...] = ()


class Failed(ChatEvent, frozen=True, kw_only=True):
    """The last event of a leg that failed. What it brought before stays. ``recoverable``: it can be retried."""

    message: str
    display_message: str = ""
    code: str = ""
    recoverable: bool = False


class Unknown(ChatEvent, frozen=True, kw_only=True):
    """An event of a newer server."""

    type: str
    raw: dict[str, Any] = msgspec.field(default_factory=dict)


_PLAIN: Mapping[str, type[ChatEvent]] = {
    "start": Started,
    "tool_generating": ToolGenerating,
    "tool_call_delta": ToolArguments,
    "tool_call": ToolCalled,
    "approval_required": ApprovalRequired,
    "approval_resolved": ApprovalResolved,
    "tool_approved": ToolApproved,
    "tool_executing": ToolRunning,
    "tool_background": ToolBackgrounded,
    "tool_result": ToolEnded,
    "tool_error": ToolEnded,
    "subagent_start": SubagentStarted,
    "subagent_end": SubagentEnded,
    "structured_result": Structured,
    "usage": Used,
    "steered": Steered,
    "steering_applied": SteeringApplied,
    "done": Done,
    "error": Failed,
}
"""Events that say everything in ``data``."""

_NAMES = {
    "toolCallId": "tool_call_id",
    "id": "tool_call_id",
    "toolName": "tool_name",
    "name": "tool_name",
    "argumentsDelta": "delta",
    "success": "ok",
    "result_type": "kind",
    "parentToolCallId": "parent_tool_call_id",
    "messageId": "message_id",
    "runBy": "run_by",
    "approvalId": "approval_id",
    "workflowId": "workflow_id",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedTokens": "cached_tokens",
    "steeringId": "steering_id",
    "steeringIds": "steering_ids",
    "chatId": "chat_id",
    "conversationId": "conversation_id",
    "requiresAction": "requires_action",
    "pendingToolCallIds": "pending_tool_call_ids",
    "displayMessage": "display_message",
}
"""The wire's names where ours differ."""

_READERS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "chat_id": lambda said: {"chat_id": said["chatId"]},
    "content": lambda said: {"text": said["data"]},
    "reasoning": lambda said: {"text": said["data"], "phase": said.get("phase", "")},
    "title_updated": lambda said: {"title": said["title"]},
    "notice": lambda said: {"kind": said["kind"], "data": said["data"]},
}
_KINDS: Mapping[str, type[ChatEvent]] = {
    **_PLAIN,
    "chat_id": ChatKnown,
    "content": Text,
    "reasoning": Reasoning,
    "title_updated": Titled,
    "notice": Notice,
}

ENDS = (Done, Failed)
"""The last event of a leg is one of these."""


def read_event(data: bytes) -> ChatEvent:
    """The event in one message of the stream. What is none of ours, or not as we know it, is ``Unknown``. Raises
    ``ValueError`` for what is no JSON object."""
    said = msgspec.json.decode(data)
    if not isinstance(said, dict):
        raise ValueError("an event that is no JSON object")
    name = str(said.get("type", ""))
    common = {
        "seq": said.get("eventId", 0),
        "stream_id": said.get("streamId", ""),
        "subagent": said.get("subagent") or "",
        "parent_tool_call_id": said.get("parentToolCallId") or "",
    }
    kind = _KINDS.get(name)
    try:
        if kind is not None:
            return msgspec.convert(_fields(name, said) | common, kind)
        return msgspec.convert({**common, "type": name, "raw": said}, Unknown)
    except (msgspec.ValidationError, KeyError, TypeError):
        return Unknown(type=name, raw=said)


def _fields(name: str, said: dict[str, Any]) -> dict[str, Any]:
    if (reader := _READERS.get(name)) is not None:
        return reader(said)
    return {_NAMES.get(key, key): value for key, value in said["data"].items() if value is not None}
