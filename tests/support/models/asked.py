"""What a client asked, read from a request of any wire: the conversation so far, and the tools it offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Any
"""Decoded JSON that somebody else made."""


@dataclass(frozen=True)
class Tool:
    """``schema``: JSON schema of the arguments. ``freeform``: takes text instead of arguments. ``namespace``: on the
    one wire that has such."""

    name: str
    schema: Mapping[str, Json] = field(default_factory=dict)
    freeform: bool = False
    namespace: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Asked:
    """One question to the model.

    ``turns`` counts the answers of the model that the conversation holds already, whatever their number of messages.
    """

    model: str
    system: str = ""
    prompts: tuple[str, ...] = ()
    """Texts of the user, oldest first; clients add context of their own to them."""
    results: tuple[str, ...] = ()
    """What tools have answered, oldest first."""
    turns: int = 0
    tools: tuple[Tool, ...] = ()
    stream: bool = True

    @property
    def text(self) -> str:
        """All that the user and the client's system prompt said."""
        return "\n".join((self.system, *self.prompts))


def count_turns(from_model: Iterable[bool]) -> int:
    """How many answers lie in a list of messages, each from the model or not: neighbours are of one answer."""
    turns, before = 0, False
    for now in from_model:
        turns += now and not before
        before = now
    return turns


def text_of(content: Json) -> str:
    """The text in a message's content: a string, a block, or a list of either."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content") or "")
    return ""
