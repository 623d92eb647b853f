"""What a turn can be told beyond what every run can."""

from __future__ import annotations

from typing import Any

from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.run.events import RunCreated
from pilothouse.core.run.inputs import Input


class Say(Input, frozen=True, kw_only=True):
    """A message was accepted: everything in it has been checked. It creates the turn and starts it."""

    created: RunCreated
    received: TurnReceived


class Heard(Input, frozen=True, kw_only=True):
    """What the backend said with one network chunk, in order; ``key`` is the effect that listens."""

    key: str
    said: tuple[BackendEvent, ...]


class Steer(Input, frozen=True, kw_only=True):
    """Something was said while the turn goes on. The same id twice is one steering."""

    steering_id: str
    content: str
    by: str = ""


class Confirm(Input, frozen=True, kw_only=True):
    """A person decides about a tool call: ``accepted``, ``rejected`` or ``background``. Also ends a call that the
    client executes: with ``result`` or ``error``."""

    tool_call_id: str
    status: str
    by: str
    arguments: dict[str, Any] | None = None
    scope: str = "once"
    message: str = ""
    result: Any = None
    error: str = ""
    may_decide: bool = True
    """False: whoever says it may tell what their own execution brought, but not answer for a person."""
