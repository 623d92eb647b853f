"""What a backend says during a turn, in one vocabulary for both wires, language models and agents.

A wire's reader turns payloads into these values; what a turn makes of them is ``decide``'s. ``lane`` is the tool call
whose subagent says it: empty for the turn itself.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Said(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str
    lane: str = ""


class Thought(msgspec.Struct, frozen=True, gc=False):
    """A piece of reasoning. ``begins`` and ``ends``: where the source marks a thought's bounds."""

    text: str = ""
    lane: str = ""
    begins: bool = False
    ends: bool = False


class ToolGenerating(msgspec.Struct, frozen=True, kw_only=True):
    """A call is on its way; nothing is to be done yet."""

    id: str
    name: str
    lane: str = ""


class ToolCalled(msgspec.Struct, frozen=True, kw_only=True):
    """A call. ``partial``: its arguments are not complete, so it must not be executed. ``executor`` and ``ui`` are the
    strict wire's: who is meant to run it, and how it is shown. Of an agent's call that came to the server's tools,
    ``executor`` says so (``routing.SERVER``)."""

    id: str
    name: str = ""
    arguments: dict[str, Any] | None = None
    """None: not told here."""
    partial: bool = False
    lane: str = ""
    executor: str = ""
    asynchronous: bool = False
    ui: dict[str, Any] = {}


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True):
    """More of a call's arguments, as JSON text."""

    id: str
    delta: str
    name: str = ""
    lane: str = ""


class ToolAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """The backend knows how a call ended: it ran it itself, or repeats what it was told."""

    id: str
    name: str = ""
    success: bool
    result: Any = None
    error: str = ""
    status: str = ""
    """The strict wire's own word, where it has one."""
    lane: str = ""


class LaneOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A subagent begins to work for the call ``id``; ``lane`` is where that call was made."""

    id: str
    agent: str = ""
    lane: str = ""


class LaneClosed(msgspec.Struct, frozen=True, kw_only=True):
    """``id`` is empty where the wire does not say which: the one opened last."""

    id: str = ""
    agent: str = ""


class Structured(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a subagent that was called directly."""

    kind: str = ""
    summary: str = ""
    data: Any = None
    success: bool = True
    lane: str = ""


class ConversationKnown(msgspec.Struct, frozen=True):
    """The backend's own id of the conversation."""

    id: str


class ChatKnown(msgspec.Struct, frozen=True):
    id: str


class Titled(msgspec.Struct, frozen=True):
    title: str


class Paused(msgspec.Struct, frozen=True, kw_only=True):
    """The backend waits for the results of ``pending``; it goes on in another leg that brings them all."""

    checkpoint_id: str
    run_id: str = ""
    pending: tuple[str, ...] = ()
    frames: tuple[dict[str, Any], ...] = ()


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that changes nothing that is decided: a compaction, a resource, steering that was applied."""

    kind: str
    data: dict[str, Any] = {}


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the backend counts them (input includes cached), and its price in US dollars where it tells one."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    model: str = ""
    cost: float | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An agent waits for permission to use one of its own tools; ``request_id`` is how it finds the answer."""

    request_id: str
    tool: str
    title: str = ""
    input: str = ""
    can_remember: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """It cannot go on. ``shown`` is meant for people where it differs from ``message``."""

    message: str
    code: str = ""
    shown: str = ""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The backend's last word. ``status``: ``complete``, ``error`` or ``cancelled``."""

    status: str = "complete"
    reason: str = ""


class NotUnderstood(msgspec.Struct, frozen=True, kw_only=True):
    """A payload that is none of these. It is told and passed over on either wire: neither does one unknown event end
    a turn, nor does one that was lost stay hidden."""

    why: str
    payload: str = ""
    """Its beginning."""


BackendEvent: TypeAlias = (
    Said | Thought | ToolGenerating | ToolCalled | ToolArguments | ToolAnswered | LaneOpened | LaneClosed | Structured
    | ConversationKnown | ChatKnown | Titled | Paused | Noticed | Spent | Asked | Failed | Completed | NotUnderstood
)  # fmt: skip
