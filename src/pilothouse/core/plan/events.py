"""What happens in a plan, as recorded. ``node_id`` and ``attempt`` (from 1, without gaps) say where.

Output is not here: what a command prints lies in attempt files, and LOG_APPENDED says how far they have grown.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pilothouse.core.plan.build import Plan
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.states import TERMINAL, NodeStatus, initial_status
from pilothouse.core.run.events import Event
from pilothouse.core.run.rows import RunRow


class PlanBuilt(Event, frozen=True, kw_only=True, tag="PLAN_BUILT"):
    """The whole of what will be executed. Commits are resolved here, once: a plan never follows a branch that moves
    under it. ``bases`` are the commits of roots with a base branch of their own, by node id."""

    plan: Plan
    repo_path: str
    base_branch: str
    base_commit: str
    bases: dict[str, str] = msgspec.field(default_factory=dict)
    target_branch: str | None = None
    """As asked for; None lets one be made."""
    update_checkout: bool = False
    worktree_root: str
    backoff_ms: int = 30_000
    """The pause before the first try after a transient failure; every further one is twice as long."""

    def project(self, row: RunRow) -> RunRow:
        counts: dict[str, int] = {}
        for node in self.plan.nodes.values():
            status = initial_status(is_root=node.is_root)
            counts[status] = counts.get(status, 0) + 1
        detail = {
            "repoPath": self.repo_path,
            "baseCommit": self.base_commit,
            "baseBranch": self.base_branch,
            "targetBranch": self.target_branch,
            "nodes": len(self.plan.nodes),
            "progress": 0,
        }
        return msgspec.structs.replace(row, counts=counts, detail=detail)


class TargetOpened(Event, frozen=True, kw_only=True, tag="TARGET_OPENED"):
    """The branch that results are merged into, at ``commit``. Another than asked for is explained in ``note``. May
    happen again when a person checks the branch out in the middle."""

    branch: str
    commit: str
    note: str = ""

    def project(self, row: RunRow) -> RunRow:
        return msgspec.structs.replace(row, detail={**row.detail, "targetBranch": self.branch, "note": self.note})


class TargetLost(Event, frozen=True, kw_only=True, tag="TARGET_LOST"):
    """The target was checked out at ``path`` in the middle of the plan; another one is needed."""

    branch: str
    path: str


class TargetFailed(Event, frozen=True, kw_only=True, tag="TARGET_FAILED"):
    """No target could be opened (``error``), or a stop came first (empty)."""

    error: str = ""


class NodeMoved(Event, frozen=True, kw_only=True, tag="NODE_MOVED"):
    """A node went from one state to another."""

    durable: ClassVar[bool] = False

    node_id: str
    old: NodeStatus = msgspec.field(name="from")
    new: NodeStatus = msgspec.field(name="to")
    reason: str = ""

    def project(self, row: RunRow) -> RunRow:
        counts = dict(row.counts)
        counts[self.old] = counts.get(self.old, 0) - 1
        counts[self.new] = counts.get(self.new, 0) + 1
        counts = {status: count for status, count in counts.items() if count}
        total = row.detail.get("nodes", 0)
        done = sum(count for status, count in counts.items() if status in TERMINAL)
        progress = done * 100 // total if total else 0
        return msgspec.structs.replace(row, counts=counts, detail={**row.detail, "progress": progress})


class AttemptStarted(Event, frozen=True, kw_only=True, tag="ATTEMPT_STARTED"):
    """One more try of a node. ``resume_from``: the phase it begins with, in the worktree of the try before."""

    node_id: str
    attempt: int
    trigger: Trigger
    resume_from: Phase | None = None
    worktree_path: str
    base_commit: str | None = None
    """Known at once for a root, a single dependency, or a resumed attempt."""


class PhaseStarted(Event, frozen=True, kw_only=True, tag="PHASE_STARTED"):
    """The intent to perform a phase; ``key`` names the effect for ever."""

    node_id: str
    attempt: int
    phase: Phase
    key: str


class PhaseQueued(Event, frozen=True, kw_only=True, tag="PHASE_QUEUED"):
    """A merge into the target waits its turn: a plan merges one leaf at a time."""

    durable: ClassVar[bool] = False

    node_id: str
    attempt: int
    phase: Phase


class PhaseSkipped(Event, frozen=True, kw_only=True, tag="PHASE_SKIPPED"):
    durable: ClassVar[bool] = False

    node_id: str
    attempt: int
    phase: Phase
    reason: str


class PhaseEnded(Event, frozen=True, kw_only=True, tag="PHASE_ENDED"):
    """How a phase ended. ``commit`` is what it made: the base (merge-fi), the node's commit (commit) or the target's
    new head (merge-ri). ``place`` is the executor's life that runs the attempt (setup)."""

    node_id: str
    attempt: int
    phase: Phase
    status: PhaseStatus
    error: str = ""
    exit_code: int | None = None
    commit: str | None = None
    place: str = ""
    note: str = ""


class AttemptEnded(Event, frozen=True, kw_only=True, tag="ATTEMPT_ENDED"):
    """How a try ended, and where the next one would begin. ``rescue``: its worktree may hold edits that are saved
    nowhere else yet; ``discard``: and nobody will need the worktree once they are."""

    node_id: str
    attempt: int
    status: PhaseStatus
    error: str = ""
    failed_phase: Phase | None = None
    completed_commit: str | None = None
    resume_from: Phase | None = None
    rescue: bool = False
    discard: bool = False

    def project(self, row: RunRow) -> RunRow:
        return _count_owed(row, 1) if self.rescue or self.discard else row


class WorkRescued(Event, frozen=True, kw_only=True, tag="WORK_RESCUED"):
    """The edits of an interrupted attempt are safe under ``ref`` (empty: there were none), or could not be saved, and
    then its worktree stays."""

    node_id: str
    attempt: int
    ref: str = ""
    commit: str = ""
    error: str = ""
    removed: bool = False
    """The worktree is gone."""

    def project(self, row: RunRow) -> RunRow:
        return _count_owed(row, -1)


class WorktreeAbandoned(Event, frozen=True, kw_only=True, tag="WORKTREE_ABANDONED"):
    """The run is over for good: what an attempt that did not succeed left behind is to be saved and cleaned up."""

    node_id: str
    attempt: int

    def project(self, row: RunRow) -> RunRow:
        return _count_owed(row, 1)


class WorktreeRemoved(Event, frozen=True, kw_only=True, tag="WORKTREE_REMOVED"):
    """The worktree of a successful attempt is gone, or could not be removed (``error``) and stays."""

    durable: ClassVar[bool] = False

    node_id: str
    attempt: int
    error: str = ""

    def project(self, row: RunRow) -> RunRow:
        return _count_owed(row, -1)


class NodeCancelRequested(Event, frozen=True, kw_only=True, tag="NODE_CANCEL_REQUESTED"):
    """A running node is to end for good; it is canceled once nothing of it is left alive."""

    node_id: str


class NodeRetried(Event, frozen=True, kw_only=True, tag="NODE_RETRIED"):
    """A person asked for one more try. ``fresh``: from the start, in a clean worktree."""

    node_id: str
    fresh: bool = False


class LogAppended(Event, frozen=True, kw_only=True, tag="LOG_APPENDED"):
    """The output of a phase has grown: bytes ``from`` to ``to``. At most five times a second per attempt."""

    durable: ClassVar[bool] = False

    node_id: str
    attempt: int
    phase: Phase
    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")


def _count_owed(row: RunRow, step: int) -> RunRow:
    """``owed``: clean-ups that are still to be done, which a run owes also when it has ended."""
    return msgspec.structs.replace(row, detail={**row.detail, "owed": row.detail.get("owed", 0) + step})


PLAN_EVENTS: tuple[type[Event], ...] = (
    PlanBuilt,
    TargetOpened,
    TargetLost,
    TargetFailed,
    NodeMoved,
    AttemptStarted,
    PhaseStarted,
    PhaseQueued,
    PhaseSkipped,
    PhaseEnded,
    AttemptEnded,
    WorkRescued,
    WorktreeAbandoned,
    WorktreeRemoved,
    NodeCancelRequested,
    NodeRetried,
    LogAppended,
)
