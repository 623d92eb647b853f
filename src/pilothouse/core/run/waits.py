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
    answers it takes; ``detail`` is what a person needs to know to give one. A wait that time ends says there when that
    is: ``until`` of a backoff, ``expiresAt`` of any other.
    """

    id: str
    kind: WaitKind
    scope: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    detail: dict[str, Any] = {}
    lasts_ms: int = 0
    """How long it is open at most; 0: until somebody answers."""
    opened_at: int = 0
    """When its event was recorded; the event itself cannot know."""

    @property
    def ends_at(self) -> int:
        """When time ends it, once it is open; 0: never."""
        return self.opened_at + self.lasts_ms if self.lasts_ms else 0

    def opened(self, at: int) -> Wait:
        opened = msgspec.structs.replace(self, opened_at=at)
        if not opened.ends_at:
            return opened
        told = "until" if self.kind is WaitKind.BACKOFF else "expiresAt"
        return msgspec.structs.replace(opened, detail={**self.detail, told: opened.ends_at})
