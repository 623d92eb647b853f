"""What an agent tells while it works, in one vocabulary for all agents, and how its work ended.

A driver's reader turns the lines of its agent into these values; a kind of run records them as events of its own. They
know neither nodes nor turns. Texts are for people and already bounded by whoever made them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec

from pilothouse.core.run.commands import Exit
from pilothouse.core.run.usage import NOTHING, Usage

MAX_TEXT = 16_384
"""Characters of a tool's input or output, or of a note, that are told; the raw lines keep more."""


class Permissions(StrEnum):
    """What becomes of an agent's requests to use its tools."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"
    """A person decides each time; unanswered requests are refused in the end."""


class ToolServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of tools that an agent is given for one piece of work: a program that speaks MCP over its standard
    input and output. ``env`` holds a secret, so it is that program's alone: it is neither printed nor kept."""

    name: str
    """What the agent knows it by; its reader passes over what the agent tells of calls to it, for whoever serves the
    tools tells of those."""
    command: tuple[str, ...]
    env: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"ToolServer(name={self.name!r}, command={self.command!r}, env={sorted(self.env)!r})"


class SessionStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="session"):
    """The agent's own id of the conversation, by which it can be resumed."""

    session_id: str
    model: str = ""


class Text(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A piece of what it says; pieces follow one another without anything between them."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    text: str


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="toolStarted"):
    """It uses a tool. ``input`` is what it gives it, as JSON text or as it is."""

    call_id: str
    tool: str
    title: str = ""
    input: str = ""


class ToolStatus(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    """It was not permitted."""


class ToolEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="toolEnded"):
    call_id: str
    tool: str = ""
    status: ToolStatus = ToolStatus.SUCCEEDED
    output: str = ""


class FileEdited(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="fileEdited"):
    """It says that it changed a file; git says what is so. ``path`` as the agent names it, relative where possible."""

    path: str
    change: str = "modified"
    """``created``, ``modified`` or ``deleted``."""
    lines_added: int = 0
    lines_removed: int = 0


class Used(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="used"):
    """More usage, since the last time this was told."""

    usage: Usage = NOTHING
    model: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="asked"):
    """It waits for permission to use a tool. One request at a time."""

    request_id: str
    """By which it finds the answer: at most 200 letters, digits, ``.``, ``_`` and ``-``, the first no dot."""
    tool: str
    title: str = ""
    input: str = ""
    can_remember: bool = False
    """Whether a yes can hold for the rest of the conversation."""


class Noted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="noted"):
    """Anything else worth knowing: a retry of its own, a warning, a line that is none of its events."""

    text: str
    level: str = "info"
    """``info``, ``warning`` or ``error``."""


News: TypeAlias = SessionStarted | Text | Reasoning | ToolStarted | ToolEnded | FileEdited | Used | Asked | Noted


class AgentEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent's work ended: what its process did, and what is to be made of that.

    ``ok``: its own final event says success *and* its exit agrees. Whether there is anything to show for it is for
    git to say. ``transient``: the same again may succeed (rate limit, 5xx, connection lost), not before
    ``retry_after_ms`` where that was told. ``news`` is what was known only at the end.
    """

    exit: Exit
    ok: bool
    error: str = ""
    transient: bool = False
    retry_after_ms: int = 0
    news: tuple[News, ...] = ()


class AgentReader(Protocol):
    """Reads one run of one agent. Deterministic: the same lines give the same news, so that an owner that takes over
    reads again from the start and leaves out what is recorded already."""

    @property
    def finished(self) -> bool:
        """Whether the agent has told its final event. A process that lingers after that is ended, and that is no
        failure."""
        ...

    def line(self, line: bytes) -> Iterable[News]:
        """News of one line of standard output, without its end. Never raises: a line that is not understood is a
        ``Noted``, or nothing."""
        ...

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        """The process has ended; ``errors`` is the tail of its standard error. May read small files that the agent
        left in its private directory. Never raises."""
        ...


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a user sets for one agent of this server, beside what a plan says.

    ``base_url`` sends it to a model endpoint of the user's own, which speaks ``api``: ``completions``, ``responses``,
    ``anthropic`` or ``gemini`` (empty: the agent's usual one).
    """

    command: tuple[str, ...] = ()
    """What to start, instead of what is found on the PATH."""
    acp: bool = False
    """It speaks the Agent Client Protocol: any name may be given to such an agent."""
    base_url: str = ""
    api: str = ""
    api_key_env: str = ""
    """The host variable that holds the key for ``base_url``; its value reaches this agent and nothing else."""
    model: str = ""
    """Used where a plan names none."""
    env: dict[str, str] = {}


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent as ``pilothouse agents`` shows it."""

    name: str
    title: str
    installed: bool
    version: str = ""
    path: str = ""
    logged_in: bool | None = None
    """None: not known without asking its service."""
    login: str = ""
    """How it would authenticate: which variable, which login; or what is missing."""
    resumes: bool = False
    asks: bool = False
    """Whether its requests for permission can be answered by a person."""
    acp: bool = False
    """Whether it is driven over the Agent Client Protocol."""
    models: int | None = None
    """How many models it offers; None when it does not tell."""
    install: str = ""
    """The command that installs it."""
    problem: str = ""
    """Why it cannot be used, if it cannot."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A model as ``pilothouse models`` shows it. ``tier`` and ``vendor`` (``openai``, ``google`` …) are told from its
    name."""

    id: str
    agent: str
    vendor: str = ""
    tier: str = "standard"
    default: bool = False
    priced: bool = False
