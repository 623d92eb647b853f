"""What a plan says, as frozen values: the result of reading a plan file, and what the log keeps of it.

Knows nothing of YAML, of files or of graphs: ``spec_parse`` reads a plan file into these values, ``build``
turns them into nodes. Every value survives ``msgspec.json`` unchanged; its JSON spells fields in camelCase, as
plan files do. Durations are milliseconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from pilothouse.core.plan.integration import Strategy
from pilothouse.core.run.agents import Permissions
from pilothouse.core.run.usage import Budget

DEFAULT_MAX_PARALLEL = 4
DEFAULT_AGENT = "copilot"
DEFAULT_APPROVAL_TIMEOUT_MS = 60 * 60 * 1000
DEFAULT_INSTRUCTIONS = "Complete the task as specified"


class OnInterrupted(StrEnum):
    """What to do with work whose outcome is unknown after a crash."""

    REVIEW = "review"
    """Ask a person."""
    RERUN = "rerun"
    """Run it again in a clean worktree."""


class Shell(StrEnum):
    """The shells a command may ask for; both are called with ``-c``."""

    SH = "sh"
    BASH = "bash"


class Tier(StrEnum):
    """How capable a model is to be, when none is named."""

    FAST = "fast"
    STANDARD = "standard"
    PREMIUM = "premium"


class Effort(StrEnum):
    """How long a model is to think, where the agent can be told."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


class Network(StrEnum):
    """What a sandboxed command may reach."""

    FULL = "full"
    LIMITED = "limited"
    """The model's endpoint and the ``allowedUrls`` of the agent."""
    OFF = "off"


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the commands and agents of a plan may touch beyond their worktree. Folders are absolute."""

    network: Network = Network.FULL
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()


class ProcessSpec(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="process"
):
    """Start ``executable`` directly; no shell sees the arguments. ``cwd`` is relative to the worktree,
    ``env`` overlays the environment of the job and the plan."""

    executable: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    timeout_ms: int = msgspec.field(default=0, name="timeout")
    """0 means none."""
    on_interrupted: OnInterrupted = OnInterrupted.REVIEW


class ShellSpec(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="shell"
):
    """Run ``command`` through a shell. The other fields are those of ``ProcessSpec``."""

    command: str
    shell: Shell = Shell.SH
    env: dict[str, str] = {}
    cwd: str = ""
    timeout_ms: int = msgspec.field(default=0, name="timeout")
    """0 means none."""
    on_interrupted: OnInterrupted = OnInterrupted.REVIEW


class AgentSpec(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="agent"
):
    """Hand the job to an agent. Without ``instructions`` or ``instructions_file`` the job's task says it all.

    Files are relative to the repository and read in the worktree; folders are absolute."""

    agent: str = DEFAULT_AGENT
    instructions: str = ""
    instructions_file: str = ""
    context: str = ""
    """More to know, beside the instructions."""
    context_files: tuple[str, ...] = ()
    """Files the agent is told to read first."""
    model: str = ""
    model_tier: Tier | None = None
    """Which model to choose when none is named."""
    effort: Effort | None = None
    max_turns: int | None = None
    resume_session: bool = True
    """Go on with the conversation of the attempt before, where the agent can."""
    allowed_folders: tuple[str, ...] = ()
    allowed_urls: tuple[str, ...] = ()
    permissions: Permissions | None = None
    """None: the plan's."""
    script: str = ""
    """The replies file of a scripted agent."""
    env: dict[str, str] = {}
    timeout_ms: int = msgspec.field(default=0, name="timeout")
    """0 means none."""
    on_interrupted: OnInterrupted = OnInterrupted.REVIEW


WorkSpec: TypeAlias = ProcessSpec | ShellSpec | AgentSpec


class JobBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a job and the node made of it have in common.

    ``producer_id`` is unique in its plan. A job inside a nested group has ``<group path>/<id>``, so it may hold
    slashes and spaces: it is a name for people, never a path or a ref.
    """

    producer_id: str
    name: str
    task: str
    work: WorkSpec | None = None
    prechecks: WorkSpec | None = None
    postchecks: WorkSpec | None = None
    """Checks always have ``on_interrupted`` RERUN."""
    instructions: str = ""
    """More context for agents, beside the task."""
    expects_no_changes: bool = False
    base_branch: str | None = None
    """Where a root starts instead of the plan's base. Only roots may have one."""
    env: dict[str, str] = {}
    budget: Budget | None = None
    """Of this job over all its attempts."""


class JobSpec(JobBody, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One job of a plan. ``dependencies`` are producer ids in declared order; ``group`` is a path (``a/b``)."""

    dependencies: tuple[str, ...] = ()
    group: str | None = None


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What holds for a plan as a whole. ``None`` means: not said, the engine chooses."""

    name: str
    repo_path: str | None = None
    base_branch: str | None = None
    target_branch: str | None = None
    max_parallel: int = DEFAULT_MAX_PARALLEL
    """0 means that only the global cap applies."""
    merge_strategy: Strategy = Strategy.SQUASH
    clean_up_successful_work: bool = True
    start_paused: bool = False
    env: dict[str, str] = {}
    inherit_env: tuple[str, ...] = ()
    """Names of variables to hand on although they look like secrets."""
    budget: Budget | None = None
    """Of all jobs together."""
    permissions: Permissions = Permissions.ALLOW
    """What agents may do unasked, where a job does not say otherwise."""
    approval_timeout_ms: int = msgspec.field(default=DEFAULT_APPROVAL_TIMEOUT_MS, name="approvalTimeout")
    """After this long an unanswered request counts as refused. 0: never."""
    sandbox: SandboxSpec | None = None
    """None: commands and agents run as this user."""


class PlanSpec(PlanOptions, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A plan as it was written, defaults filled in, nested groups flattened into ``JobSpec.group``."""

    jobs: tuple[JobSpec, ...]
