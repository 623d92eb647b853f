"""What a plan wants done in the world, and what it is answered. Each effect carries all its performer needs.

Refs: a node's commit is pinned under ``refs/pilothouse/plans/<plan>/<node>/<attempt>``, its merge into the target
under ``…/merged/<commit>``, rescued edits under ``refs/pilothouse/rescue/<plan>/<node>/<attempt>``.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pilothouse.core.plan.integration import Strategy
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import SandboxSpec, WorkSpec
from pilothouse.core.run.agents import Permissions, ToolServer
from pilothouse.core.run.contract import Effect

TARGET_KEY = "target"


def errors_of(output: str) -> str:
    """The output beside ``output`` for the standard error of an agent."""
    return f"{output}.stderr"


class OpenTarget(Effect, frozen=True, kw_only=True):
    """Find or make the branch results are merged into, at ``base`` when it is new. ``taken`` was opened before and
    cannot be used any more: ``base`` is where it was left."""

    repo: str
    branch: str | None
    base: str
    name: str
    """Of the plan: what a branch that has to be made is called after."""
    update_checkout: bool
    taken: str | None = None


class PhaseEffect(Effect, frozen=True, kw_only=True):
    """An effect that is one phase of an attempt."""

    node_id: str
    attempt: int
    phase: Phase
    repo: str


class MergeForward(PhaseEffect, frozen=True, kw_only=True):
    """Merge ``commits`` into one base, in order. ``names`` are the dependencies they come from. ``pin``: keep the
    result under this ref, because no worktree will."""

    commits: tuple[str, ...]
    names: tuple[str, ...]
    message: str
    pin: str | None = None


class AddWorktree(PhaseEffect, frozen=True, kw_only=True):
    path: str
    commit: str
    place_key: str
    """What the executor calls the attempt."""


class RunWork(PhaseEffect, frozen=True, kw_only=True):
    """Run the user's command or agent in the worktree. ``output`` is where what it prints goes."""

    spec: WorkSpec
    path: str
    place: str
    """The executor's life that the attempt was placed on."""
    output: str
    plan_env: dict[str, str]
    inherit_env: tuple[str, ...]
    plan_id: str
    producer_id: str
    task: str
    instructions: str
    verbatim: bool = False
    """It is a message of a conversation: what an agent that remembers it is told is ``task`` as it stands, and what
    one that does not is told is ``instructions``."""
    adopted: bool = False
    """An owner before this one started it: it is followed, and never started again."""
    permissions: Permissions = Permissions.ALLOW
    approval_timeout_ms: int = 0
    """After this long an unanswered request of an agent counts as refused. 0: never."""
    sandbox: SandboxSpec | None = None
    session_id: str = ""
    """The conversation to resume; empty: a new one."""
    trouble: str = ""
    """Why the attempt before this one ended, for an agent that goes on with its work; empty for a first attempt."""
    time_left_ms: int = 0
    """What budgets leave for an agent, beside its own timeout; 0: no limit."""
    read_to: int = 0
    """Bytes of raw output whose news are in the log already: those are not recorded again."""
    tools: ToolServer | None = None
    """Tools that an agent is given beside its own: those of the conversation that it answers."""

    @property
    def errors(self) -> str:
        """Where an agent's standard error goes: its standard output is for its reader."""
        return errors_of(self.output)


class AnswerAgent(Effect, frozen=True, kw_only=True):
    """Hand an answer to the agent that waits for it. Idempotent; an agent that has ended meanwhile is no error."""

    gated: ClassVar[bool] = False

    output: str
    """Names the agent's run, as in ``RunWork``."""
    plan_id: str
    node_id: str
    request_id: str
    allowed: bool
    remember: bool = False
    """For the rest of the conversation."""


class CommitWork(PhaseEffect, frozen=True, kw_only=True):
    path: str
    baseline: str
    message: str
    expects_no_changes: bool
    pin: str


class MergeIntoTarget(PhaseEffect, frozen=True, kw_only=True):
    """Merge ``source`` into ``branch``. ``merged`` are (name, commit) of the plan's leaves that are in already."""

    branch: str
    base: str
    source: str
    name: str
    message: str
    strategy: Strategy
    merged: tuple[tuple[str, str], ...]
    pin: str
    update_checkout: bool


class Rescue(Effect, frozen=True, kw_only=True):
    """Save what an interrupted attempt left, then, with ``discard``, remove its worktree."""

    gated: ClassVar[bool] = False

    node_id: str
    attempt: int
    repo: str
    path: str
    ref: str
    discard: bool


class RemoveWorktree(Effect, frozen=True, kw_only=True):
    """Remove the worktree of a successful attempt; edits its checks made after the commit are saved under ``ref``."""

    gated: ClassVar[bool] = False

    node_id: str
    attempt: int
    repo: str
    path: str
    ref: str
    kept: str
    """The commit that is pinned already."""


# Answers that git's own values (see ``integration``) do not cover.


class TargetReady(msgspec.Struct, frozen=True, kw_only=True):
    branch: str
    commit: str
    note: str = ""


class WorktreeReady(msgspec.Struct, frozen=True, kw_only=True):
    """``place`` is the executor's life that will run the attempt's commands."""

    place: str


class MergeRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A conflict, said in full: which files, and which nodes."""

    error: str


class CleanedUp(msgspec.Struct, frozen=True, kw_only=True):
    """``ref`` is empty when there was nothing to save."""

    ref: str = ""
    commit: str = ""
    removed: bool = False
