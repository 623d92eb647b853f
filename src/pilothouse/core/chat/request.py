"""What a backend is asked: one request of a turn, with everything a stateless backend needs.

Put together from the turn's state and its conversation; knows no backend's own format.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.calls import CallReason, GivenResult
from pilothouse.core.chat.message import Block, Message
from pilothouse.core.tools.spec import ToolSpec


class BackendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``blocks`` are what this turn has brought so far, with the results of its calls; ``history`` is what was said
    before it, oldest first. ``results`` are those of an earlier turn's pending calls."""

    turn_id: str
    chat_id: str
    message_id: str
    call: int
    reason: CallReason
    owner: str
    message: str
    mode: str = "chat"
    model: str = ""
    instructions: str = ""
    """What the mode, the workspace and the workflow say to the model, for backends that take such."""
    history: tuple[Message, ...] = ()
    blocks: tuple[Block, ...] = ()
    results: tuple[GivenResult, ...] = ()
    answered: tuple[str, ...] = ()
    """The calls of this turn whose results this request brings."""
    steering: tuple[str, ...] = ()
    """What was said meanwhile and goes with this request."""
    checkpoint_id: str = ""
    conversation_id: str = ""
    tools: tuple[ToolSpec, ...] = ()
    workflow_id: str = ""
    workspace: str = ""
    attachments: tuple[dict[str, Any], ...] = ()
    context: tuple[dict[str, Any], ...] = ()
    headless: bool = False
    adopted: bool = False
    """It was made by an earlier owner of the turn, and what it began still goes on: to be followed, not asked again."""


class ToolReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, for a backend that waits for it. ``status`` as of HTTP: 200 success, 202 in the background, 400
    rejected, 408 nobody answered, 499 aborted, 500 failed."""

    turn_id: str
    tool_call_id: str
    name: str
    status: int
    message: str = ""
    data: Any = None


class ChatModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A model that a backend can answer with."""

    id: str
    name: str = ""
    context_tokens: int | None = None
    reasoning: bool | None = None
    default: bool = False
