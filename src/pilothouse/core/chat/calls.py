"""What a turn is made of that is neither an event nor a message: who runs a tool call and where it stands, what a
backend can do, why it was asked and how that ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from pilothouse.core.tools.spec import Permit, ToolSpec


class RunBy(StrEnum):
    """Who executes a tool call."""

    SERVER = "server"
    BACKEND = "backend"
    """The backend does, or it is none of ours: its subagents, its respond tools, an agent's own tools."""
    CLIENT = "client"
    """Whoever shows the turn; its result arrives as an answer."""


class OnApproval(StrEnum):
    """What becomes of a call that a person has to allow."""

    WAIT = "wait"
    REFUSE = "refuse"
    """It is skipped, and the answer says so."""
    RUN = "run"
    """Whoever sent the message may decide, and has."""


class CallStatus(StrEnum):
    """Where a tool call stands."""

    GENERATING = "generating"
    """Its arguments are still arriving."""
    PENDING = "pending"
    """To be executed, or for somebody else to execute."""
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    BACKGROUND = "background"
    """The backend was told not to wait; it goes on."""
    SUCCESS = "success"
    ERROR = "error"
    SKIPPED = "skipped"
    """It was not permitted, and nobody was asked."""
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    """The turn was ended while it ran, or before."""


class Offered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as a turn has it: what is decided about its calls must not change under a turn."""

    name: str
    permit: Permit = Permit.ALLOW
    repeatable: bool = False
    timeout_ms: int = 60_000
    workflow: str = ""
    """The parameter that names a workflow, where it has one."""
    spec: ToolSpec | None = None
    """A tool of whoever sent the message, who executes it: the turn ends with its calls pending."""


class Features(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a backend can do, as far as a turn has to know."""

    reports: bool = False
    """It waits, with its stream open, to be told each tool's end (mark-complete)."""
    steers: bool = False
    """It takes steering while it works; another one gets it with its next request."""
    aborts: bool = False
    """It wants to be told of an abort."""
    titles: bool = False
    """It can make titles."""
    repeats: bool = False
    """A request that brought nothing yet may be made again."""
    own_tools: bool = False
    """Every call it tells of is executed by itself."""


class GivenResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an earlier turn's pending call, by whoever executed it."""

    id: str
    name: str = ""
    ok: bool = True
    result: Any = None
    error: str = ""


class CallReason(StrEnum):
    """Why the backend is asked."""

    FIRST = "first"
    RESULTS = "results"
    """It paused for the results of its tool calls, and here they are."""
    STEERING = "steering"
    """Something was said that it has not heard yet."""
    AGAIN = "again"
    """The request before brought nothing, for a reason that passes."""
    RESUMED = "resumed"
    """The turn was stopped, or failed, and goes on."""


class BackendEnd(StrEnum):
    """How a request to the backend ended."""

    COMPLETE = "complete"
    PAUSED = "paused"
    """It waits for results."""
    ERROR = "error"
    """It said so itself."""
    FAILED = "failed"
    """It could not be reached, or refused."""
    EOF = "eof"
    """Its stream ended before it was finished."""
    ENDED = "ended"
    """By us."""
    LOST = "lost"
    """The server was restarted meanwhile."""
