"""What an agent is told that answers a conversation: the message, and before it what it cannot know by itself.

An agent that remembers the conversation is told the message alone, and what its mode asks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.core.chat.calls import CallReason
from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.mode_words import NOBODY_THERE, words_of_mode

GO_ON = "Your last answer did not come to its end. Go on where you stopped."
MAX_HISTORY = 60_000
"""Characters of what was said before that an agent is told, from its end."""
MAX_PIECE = 20_000
"""Characters of one message, attachment or piece of context."""
_ONLY_LOOKS = "Only look around: change no files, and run nothing that changes anything."
_TOOLS = (
    "You also have the tools of the server named `{server}`, which belong to this conversation: use them for whatever"
    " is about workflows, plans and their runs (to look at, make, change, run or follow them), and for the services"
    " that they name, rather than doing that by hand. Some of them wait until a person has allowed the call."
)


def message_of(call: CallBackend) -> str:
    """What is said with this request."""
    if call.reason is CallReason.STEERING:
        return "\n\n".join(call.steering)
    if call.reason is CallReason.RESUMED and call.blocks:
        return "\n\n".join((GO_ON, *call.steering))
    words = words_of_mode(call.mode)  # each time: an agent that remembers may have been in another the last time
    return "\n\n".join([*_beside(call), *([words] if words else []), call.message, *call.steering])


def opening_of(call: CallBackend, history: Sequence[Message], folder: str, *, looks: bool, server: str = "") -> str:
    """The same for an agent that has heard nothing yet. ``server``: the name of the one with this conversation's
    tools."""
    told = [f"You answer a person in a conversation. Your working directory is `{folder}`; change files only there."]
    if looks:
        told.append(_ONLY_LOOKS)
    if server:
        told.append(_TOOLS.format(server=server))
    if call.headless:
        told.append(NOBODY_THERE)
    said = _said(history)
    if call.reason is not CallReason.FIRST and call.message:
        said.append(f"User: {_cut(call.message)}")
    before = "\n\n".join(said)
    if len(before) > MAX_HISTORY:
        before = f"…{before[-MAX_HISTORY:]}"
    sections = [" ".join(told), f"# What was said before\n\n{before}" if before else "", f"# Now\n\n{message_of(call)}"]
    return "\n\n".join(section for section in sections if section)


def _said(history: Iterable[Message]) -> list[str]:
    said: list[str] = []
    for message in history:
        if message.compaction:
            said.append(f"In short: {message.compaction}")
        if message.content:
            said.append(f"{'User' if message.role == 'user' else 'You'}: {_cut(message.content)}")
    return said


def _beside(call: CallBackend) -> Iterator[str]:
    for piece in call.context:
        yield f"<context>\n{_cut(_text(piece, 'content', 'text'))}\n</context>"
    for attachment in call.attachments:
        name = attachment.get("name") or attachment.get("filename") or "attachment"
        text = attachment.get("text") or attachment.get("content")
        if isinstance(text, str):
            yield f'<attachment name="{name}">\n{_cut(text)}\n</attachment>'
        else:
            yield f"[An attachment that cannot be shown: {name}]"


def _text(piece: Mapping[str, Any], *names: str) -> str:
    found = next((piece[name] for name in names if isinstance(piece.get(name), str)), None)
    return found if found is not None else msgspec.json.encode(piece).decode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PIECE else f"{text[:MAX_PIECE]}\n… {len(text) - MAX_PIECE:,} more characters"
