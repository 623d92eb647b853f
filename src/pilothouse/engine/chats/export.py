"""A conversation to take along: as JSON, and as text for people."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.core.chat.calls import GivenResult
from pilothouse.core.chat.message import Block, Message, SteeringBlock, TextBlock, ThinkingBlock, ToolBlock
from pilothouse.engine.chats.values import ChatView, Feedback

_LONGEST_VALUE = 4000
"""Characters of one value in Markdown; JSON has all of it."""


def as_json(chat: ChatView, messages: Sequence[Message], feedback: Sequence[Feedback]) -> bytes:
    whole: dict[str, Any] = {"chat": chat, "messages": messages, "feedback": feedback}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def as_markdown(chat: ChatView, messages: Sequence[Message]) -> bytes:
    parts = [f"# {chat.title or 'Conversation'}"]
    for message in messages:
        parts.append("## You" if message.role == "user" else f"## Answer{_about(message)}")
        if message.role == "user":
            parts += [message.content] if message.content else []
            parts += [_given(result) for result in message.results]
        else:
            parts += [text for block in message.blocks if (text := _block(block, message))]
        if message.error:
            parts.append("> **Error:** " + "\n> ".join(message.error.splitlines()))
    return ("\n\n".join(parts).rstrip() + "\n").encode("utf-8", "replace")


def _about(message: Message) -> str:
    told = [text for text in (message.model, message.status if message.status != "succeeded" else "") if text]
    return f" ({', '.join(told)})" if told else ""


def _block(block: Block, message: Message) -> str:
    match block:
        case TextBlock():
            return block.text if not block.lane else _quoted(block.text, message.lanes.get(block.lane, "subagent"))
        case ThinkingBlock():
            return _quoted(block.text, "thinking")
        case SteeringBlock():
            return f"**You, meanwhile:** {block.text}"
        case ToolBlock():
            return _tool(block)


def _quoted(text: str, who: str) -> str:
    lines = "\n".join(f"> {line}" for line in text.strip().splitlines())
    return f"> *{who}*\n>\n{lines}" if lines else ""


def _tool(block: ToolBlock) -> str:
    parts = [f"**{block.name}** – {block.status}", _fenced(block.arguments)]
    if block.error:
        parts.append(block.error)
    elif block.result is not None:
        parts.append(_fenced(block.result))
    return "\n\n".join(parts)


def _given(result: GivenResult) -> str:
    """Of a call that was left to whoever sent the message."""
    shown = _fenced(result.result) if result.ok else result.error
    return f"**{result.name or result.id}** – {'success' if result.ok else 'error'}\n\n{shown}"


def _fenced(value: Any) -> str:
    """No content can close the fence early: it is longer than any run of backticks in it."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[:_LONGEST_VALUE]}…"
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
