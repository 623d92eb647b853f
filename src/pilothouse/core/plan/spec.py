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

DEFAULT_MAX_PARALLEL = 4
DEFAULT_AGENT = "copilot"
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
    """Hand the job to an agent. Empty ``instructions`` mean that the job's task says it all; ``script`` is the
    replies file of a scripted agent, relative to the repository."""

    agent: str = DEFAULT_AGENT
    instructions: str = ""
    script: str = ""
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


class PlanSpec(PlanOptions, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A plan as it was written, defaults filled in, nested groups flattened into ``JobSpec.group``."""

    jobs: tuple[JobSpec, ...]
