"""What every agent is to Pilothouse: facts about its program, how it is launched for a piece of work, what it prints.

Owns the port and the values that cross it. Knows no particular agent, and neither plans nor executors: what a driver
answers is a process to start, and who starts it, watches it and ends it is somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import AgentConfig, AgentReader, Permissions, ToolServer

AGENT_GRACE_MS = 300
"""Between the polite signal and the final one: an agent has a conversation to save."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for an agent whatever it is given to do."""

    name: str
    """What plans call it."""
    title: str
    """What people call it."""
    install: str = ""
    """The command that installs it; empty when there is nothing to install."""
    programs: tuple[str, ...] = ()
    """What its program may be called on the PATH; the first that is found is taken. Empty: it needs none."""
    minimum: tuple[int, ...] = ()
    """The oldest version that speaks what its driver reads."""
    tells_version: bool = True
    """Whether it answers ``--version``."""
    variables: tuple[str, ...] = ()
    """Names of host variables it is given beyond ``environment.AGENT_VARIABLES``; secrets included, the driver's own
    choice and never more than its service needs."""
    quiet: dict[str, str] = {}
    """Variables that keep its program from updating itself and from telling others, set whenever it is started: also
    when it is only asked for its version. ``launch`` need not repeat them."""
    resumes: bool = False
    asks: bool = False
    """Whether a person can answer its requests for permission (only over ACP)."""
    acp: bool = False
    asking: str = ""
    """The driver to use instead when a plan wants to be asked and this one cannot."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's program as it was found on this machine."""

    argv: tuple[str, ...]
    """What to start: the program itself rather than a loader that would stand between us and it."""
    version: tuple[int, ...] = ()


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an agent could authenticate. ``ok``: None when that is not known without asking its service."""

    ok: bool | None
    how: str


class AgentWork(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work for an agent, in plain values."""

    task: str
    instructions: str
    """What it is to do; the task again when the plan says nothing more."""
    context: str = ""
    """What the job tells every agent that works on it."""
    prompt: str = ""
    """All it is told, ready to be handed over: task, instructions, context, files to read, rules, past trouble. When
    it goes on with a conversation, only what is new."""
    opening: str = ""
    """What ``prompt`` is for a new conversation: for when the one that is to be resumed turns out to be gone."""
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
    program: Program = Program(argv=())
    config: AgentConfig = AgentConfig()
    env: dict[str, str] = {}
    """The variables it will be given, before the driver's own: from the host as far as its driver lists them, and the
    plan's."""
    private: str = ""
    """A directory of this node's own, outside the worktree, that lives as long as the plan: for conversations, settings
    and reports. It exists."""
    run: str = ""
    """A directory of this one run of the agent, outside of ``private``: for reports and answers. It exists."""
    model: str = ""
    """Empty: the agent's own choice."""
    effort: Effort | None = None
    max_turns: int | None = None
    allowed_folders: tuple[str, ...] = ()
    allowed_urls: tuple[str, ...] = ()
    permissions: Permissions = Permissions.ALLOW
    tools: ToolServer | None = None
    """Tools it is given beside its own. They are asked about where they are run, so the agent asks nobody."""
    session_id: str = ""
    """The conversation to resume; empty: begin a new one."""
    new_session_id: str = ""
    """A UUID for a new conversation, the same whenever this run is asked for again."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The process that is the agent. ``env`` is laid over what it inherits and under what the plan gives."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    stdin: str = ""
    grace_ms: int = AGENT_GRACE_MS
    hosts: tuple[str, ...] = ()
    """``host:port`` of its model's endpoint, as far as that is known: what a limited network must let through."""


class AgentDriver(Protocol):
    """One agent. Stateless: everything it answers follows from what it is given."""

    @property
    def facts(self) -> Facts: ...

    def native(self, found: str) -> tuple[str, ...]:
        """What to start when ``found`` (an absolute path) is its program on the PATH. May look at files beside it."""
        ...

    def login(self, env: Mapping[str, str], config: AgentConfig) -> Login:
        """May look at files in the home directory that ``env`` names; never runs anything."""
        ...

    def check(self, spec: AgentSpec, permissions: Permissions) -> None:
        """Raises ``BadInput`` naming the field of a spec that this agent cannot do anything with."""
        ...

    def models_command(self, program: Program) -> tuple[str, ...]:
        """What to run to learn which models it offers; empty when it does not tell."""
        ...

    def models_from(self, output: str) -> tuple[str, ...]:
        """The models in what that command printed, the agent's default first where it says so."""
        ...

    def launch(self, work: AgentWork) -> Launch:
        """May write into ``work.private`` and ``work.run``; looks at nothing else but ``work``. Raises ``BadInput``."""
        ...

    def reader(self, work: AgentWork) -> AgentReader:
        """A fresh reader for what this run prints."""
        ...
