"""A conversation's messages as AG-UI 1.0 has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pilothouse.core.chat.call_states import OVER
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.message import Message, TextBlock, ThinkingBlock, ToolBlock
from pilothouse.core.chat.tool_events import ToolEnded


def messages_snapshot(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """In order; what subagents said is left out."""
    return [each for message in messages for each in _messages(message)]


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "user":
        yield {"id": message.id, "role": "user", "content": message.content}
        return
    for index, block in enumerate(message.blocks):
        name = f"{message.turn_id}.b{index}"
        match block:
            case TextBlock(text=text, lane=""):
                yield {"id": name, "role": "assistant", "content": text}
            case ThinkingBlock(text=text, lane=""):
                yield {"id": name, "role": "reasoning", "content": text}
            case ToolBlock(lane=""):
                arguments = json.dumps(block.arguments, ensure_ascii=False)
                call = {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": arguments}}
                yield {"id": name, "role": "assistant", "toolCalls": [call]}
                if block.status in OVER:
                    yield {"id": f"{name}.result", "role": "tool", "toolCallId": block.id, "content": answer_of(block)}


def answer_of(ended: ToolBlock | ToolEnded) -> str:
    """What came of a call, as text."""
    if ended.status is CallStatus.SUCCESS:
        return ended.result if isinstance(ended.result, str) else json.dumps(ended.result, ensure_ascii=False)
    return json.dumps({"error": ended.error or ended.reason, "status": ended.status}, ensure_ascii=False)
