"""What a tool is: its name, its parameters, what it touches, and what came of a call.

A tool is found by its name in a registry of the engine, wherever its code lives. This knows neither who calls it nor
how it is done.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Touches(StrEnum):
    """What a call can change: what decides whether it is asked about."""

    NOTHING = "nothing"
    """It only looks."""
    DOCUMENTS = "documents"
    """Pilothouse's own versioned documents; every change can be reverted."""
    FILES = "files"
    """Files of a registered workspace."""
    RUNS = "runs"
    """It starts or controls runs."""
    WORLD = "world"
    """Commands, other people's services: whatever cannot be taken back."""


class Permit(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"
    ASK = "ask"
    """A person decides, see ``on_approval`` of a turn."""
    DENY = "deny"


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as models and people see it. ``parameters`` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]
    touches: Touches = Touches.NOTHING
    idempotent: bool = False
    """The same call twice is as good as once, so that one whose outcome was lost is made again. What touches nothing
    is."""
    timeout_ms: int = 60_000
    """How long a call may take before it alone is given up."""
    permit: Permit | None = None
    """Where it differs from what its mode and what it touches say."""
    of_workspace: bool = False
    """It works in the workspace of its conversation, for which agents have tools of their own."""
    workflow: str = ""
    """The parameter that names a workflow; where it is not given, that of the conversation is meant."""
    service: str = ""
    """The outside service whose credentials it uses."""
    secrets: tuple[str, ...] = ()
    """The parameters in which ``{{NAME}}`` stands for a value that no model sees. Never what people will read."""

    @property
    def repeatable(self) -> bool:
        return self.idempotent or self.touches is Touches.NOTHING


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a tool works. ``call_id`` is unique within ``turn_id`` only; together they name the call for ever."""

    owner: str
    turn_id: str = ""
    chat_id: str = ""
    message_id: str = ""
    call_id: str = ""
    mode: str = "chat"
    workflow_id: str = ""
    workspace: str = ""
    """The absolute path of a registered repository or workspace; empty: there is none."""
    asked_at: int | None = None
    """When a person was asked whether the call may be made, in milliseconds since 1970; None: nobody was. What they
    were not shown because it came later is not what they allowed."""


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of a call: a JSON value for the model, or why there is none. ``workflow_id`` and ``runs`` are what the
    call made, for what follows in the same turn and for links."""

    ok: bool
    result: Any = None
    error: str = ""
    workflow_id: str = ""
    runs: tuple[str, ...] = ()
