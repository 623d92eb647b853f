"""What every agent is to Pilothouse: a name, what it needs of this machine, and how it is launched for a piece of work.

Owns the port and the values that cross it. Knows no particular agent, and neither plans nor executors: what a driver
answers is a process to start, and who starts it, watches it and ends it is somebody else.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

AGENT_GRACE_MS = 300
"""Between the polite signal and the final one: an agent has a conversation to save."""


class AgentWork(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work for an agent, in plain values."""

    task: str
    instructions: str
    """What it is to do; the task again when the plan says nothing more."""
    context: str = ""
    """What the job tells every agent that works on it."""
    script: str = ""
    """The replies file of a scripted agent, relative to the worktree."""
    worktree: str
    """Where it works: an absolute path without symbolic links."""
    repo: str
    plan_id: str
    node: str
    """The node's producer id."""
    node_id: str
    attempt: int
    """From 1."""
    phase: str


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The process that is the agent. ``env`` is laid over what it inherits and under what the plan gives."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    stdin: str = ""
    grace_ms: int = AGENT_GRACE_MS


class AgentDriver(Protocol):
    """One agent. Its process works in the worktree, prints what people should see, and exits with 0 if it succeeded."""

    @property
    def name(self) -> str:
        """What plans call it."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of host variables it cannot do without, beyond ``commands.AGENT_VARIABLES``; secrets included."""
        ...

    def check(self) -> None:
        """Raises ``Unavailable``, saying what to install or to set, when this machine cannot run it."""
        ...

    def check_script(self, script: str) -> None:
        """Raises ``BadInput`` when this agent needs a replies file and has none, or has no use for one."""
        ...

    def launch(self, work: AgentWork) -> Launch:
        """Looks at nothing but ``work``. Raises ``BadInput``."""
        ...
