"""What goes into the conversations of a server and what comes out of them, apart from messages and results.

Values only; ``Chats`` says what is done with them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.calls import GivenResult, OnApproval
from pilothouse.core.tools.spec import Permit, ToolSpec


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a conversation, as whoever sends it says it. None: not said.

    ``message_id`` makes sending idempotent: the same owner and id name the same turn for ever, whatever else is sent
    with it. ``mode`` is ``agent``, ``ask``, ``plan`` or a command (empty: the chat's, at first agent); ``command``
    outranks it. Times are in milliseconds. ``workspace`` is an absolute path within a registered repository.
    ``workflow_name`` is looked at only where there is no ``workflow_id``."""

    message: str
    chat_id: str | None = None
    message_id: str | None = None
    mode: str = ""
    command: str | None = None
    model: str | None = None
    workflow_id: str | None = None
    workflow_name: str | None = None
    workspace: str | None = None
    attachments: tuple[dict[str, Any], ...] = ()
    context: tuple[dict[str, Any], ...] = ()
    auto_execute: bool = True
    on_approval: OnApproval | None = None
    timeout_ms: int = 300_000
    headless: bool = False
    tool_results: tuple[GivenResult, ...] = ()
    client_tools: tuple[ToolSpec, ...] = ()
    """Tools that whoever sends it executes; their results come as ``tool_results`` of the next message."""


class Sent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``turn_id`` is a run's id and the ``streamId`` of the wire. ``created``: False when this message was sent
    before."""

    turn_id: str
    chat_id: str
    message_id: str
    created: bool


class ChatView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A conversation without its messages. Times are milliseconds since the epoch; ``active_stream_id`` is the turn
    that is going on."""

    id: str
    owner: str
    title: str = ""
    model: str = ""
    mode: str = ""
    workflow_id: str | None = None
    workspace: str | None = None
    conversation_id: str = ""
    permits: dict[str, Permit] = {}
    archived: bool = False
    forked_from: str | None = None
    """``CHAT/TURN`` of the conversation it was forked from."""
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    active_stream_id: str | None = None


class ChatChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be changed of a conversation; None: nothing. ``permits`` are merged into those it has: None takes one
    back."""

    title: str | None = None
    model: str | None = None
    mode: str | None = None
    workflow_id: str | None = None
    workspace: str | None = None
    permits: dict[str, Permit | None] | None = None
    archived: bool | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of a workflow that a conversation made. Reverting to it goes back to what stood *before* it. ``id`` is
    ``WORKFLOW@VERSION``; ``at`` is milliseconds since the epoch."""

    id: str
    workflow_id: str
    workflow_name: str
    version: int
    message_id: str | None
    why: str
    at: int


class Feedback(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What somebody thinks of an answer: ``rating`` is ``up`` or ``down``."""

    turn_id: str
    chat_id: str
    rating: str
    text: str = ""
    by: str = ""
    at: int = 0
