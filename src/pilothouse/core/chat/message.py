"""What a conversation consists of, as models and people read it: messages of content blocks.

A message is folded from a turn's events. Text that follows text of the same lane is one block, however many chunks it
came in.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from pilothouse.core.chat.calls import CallStatus, GivenResult, RunBy


class TextBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="text"):
    """``call``: with which request to the backend it came, from 1."""

    text: str
    call: int = 1
    lane: str = ""


class ThinkingBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="thinking"):
    text: str
    call: int = 1
    lane: str = ""
    ended: bool = False


class ToolBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="tool_call"):
    """Times are milliseconds since the epoch."""

    id: str
    name: str = ""
    status: CallStatus = CallStatus.GENERATING
    arguments: dict[str, Any] = {}
    result: Any = None
    error: str = ""
    reason: str = ""
    call: int = 1
    lane: str = ""
    run_by: RunBy = RunBy.SERVER
    started_at: int | None = None
    ended_at: int | None = None
    runs: tuple[str, ...] = ()


class SteeringBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="steering"):
    """Something the user said meanwhile. ``call``: the request that it went with; 0: it has not been heard yet."""

    id: str
    text: str
    call: int = 0


Block: TypeAlias = TextBlock | ThinkingBlock | ToolBlock | SteeringBlock


class Message(msgspec.Struct, kw_only=True, rename="camel"):
    """One message. ``status`` of an assistant's is its turn's lifecycle in lower case; a partial one keeps what there
    is. ``lanes`` are the names of subagents by the tool calls they worked for."""

    id: str
    role: str
    """``user`` or ``assistant``."""
    content: str
    turn_id: str
    at: int
    blocks: tuple[Block, ...] = ()
    status: str = ""
    error: str = ""
    model: str = ""
    mode: str = ""
    lanes: dict[str, str] = {}
    attachments: tuple[dict[str, Any], ...] = ()
    results: tuple[GivenResult, ...] = ()
    """What the user's message brought for calls that an earlier turn had left pending."""
    compaction: str = ""
    """The summary that stands for everything before this message, where the backend had to make one."""
