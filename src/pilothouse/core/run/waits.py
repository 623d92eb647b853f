"""Open waits: what a run, or one part of it, waits for while the rest goes on."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class WaitKind(StrEnum):
    APPROVAL = "approval"
    """A person must allow an action."""
    TAKEOVER = "takeover"
    """A person has the controls."""
    REVIEW = "review"
    """The outcome of something is unknown; a person must say what happened."""
    BACKOFF = "backoff"
    """A pause before the next try."""


class Wait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One open wait. It holds no capacity.

    ``scope`` names the part that waits (a node's id; empty for the run as a whole); ``options`` are the
    answers it takes; ``detail`` is what a person needs to know to give one.
    """

    id: str
    kind: WaitKind
    scope: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    detail: dict[str, Any] = {}
    opened_at: int = 0
    """When its event was recorded; the event itself cannot know."""

    def opened(self, at: int) -> Wait:
        return msgspec.structs.replace(self, opened_at=at)
