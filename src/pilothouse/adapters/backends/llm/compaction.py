"""Making a conversation short enough: when that is due, and what is asked for a summary of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.adapters.backends.llm.returns import return_of
from pilothouse.core.chat.message import Message, SteeringBlock, TextBlock, ToolBlock

CHARACTERS_PER_TOKEN = 3.5
"""Of English and of code; an estimate that errs on the side of too many tokens."""
FULL = 0.8
"""Of what a model takes at once, the part that a conversation may fill before it is shortened: answers need room."""
RESULT_SHOWN = 600
"""Characters of a tool's result that go into what is summarised."""
SMALLEST = 4_000
"""Characters: what is not summarised in so few is not worth trying again."""

PROMPT = (
    "Summarise the conversation below, so that it can be continued without it. Keep what was asked and decided, names, "
    "paths, ids and figures exactly, what was done by tools and what came of it, and what is still open. At most 500 "
    "words, no preamble."
)


def due(characters: int, context_tokens: int) -> bool:
    """Whether so much is, by estimate, too much for a model that takes so many tokens (0: not known)."""
    return bool(context_tokens) and characters / CHARACTERS_PER_TOKEN > context_tokens * FULL


def room(characters: int, context_tokens: int) -> int:
    """How many characters a request for a summary may have, when ``characters`` were too many."""
    fits = int(context_tokens * CHARACTERS_PER_TOKEN * FULL) if context_tokens else characters // 2
    return max(SMALLEST, min(fits, characters // 2 if not context_tokens else fits))


def transcript(messages: Sequence[Message], most: int) -> str:
    """The conversation as text of at most about ``most`` characters: its beginning, and the greater part of its end."""
    text = "\n\n".join(_lines(messages))
    if len(text) <= most:
        return text
    head = most // 4
    left_out = len(text) - most
    return f"{text[:head]}\n\n… {left_out:,} characters are left out …\n\n{text[len(text) - (most - head) :]}"


def _lines(messages: Iterable[Message]) -> Iterable[str]:
    for message in messages:
        who = "User" if message.role == "user" else "Assistant"
        if not message.blocks and message.content:
            yield f"{who}: {message.content}"
        for block in message.blocks:
            if isinstance(block, TextBlock) and not block.lane:
                yield f"{who}: {block.text}"
            elif isinstance(block, SteeringBlock):
                yield f"User: {block.text}"
            elif isinstance(block, ToolBlock) and not block.lane:
                arguments = msgspec.json.encode(block.arguments).decode()
                result = return_of(block).text
                yield f"Tool {block.name} {arguments[:RESULT_SHOWN]} → {result[:RESULT_SHOWN]}"
