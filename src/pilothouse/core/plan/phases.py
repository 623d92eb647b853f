"""The phases of an attempt, their order, and where the next attempt begins when one broke off.

The document has postchecks before the commit; here they come after it, as a gate before the merge: a commit that
its checks reject is kept on its ref and never merged, so nothing is lost when they fail.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    MERGE_FI = "merge-fi"
    """Forward integration: the dependencies' commits become one base."""
    SETUP = "setup"
    """The worktree comes into being at that base."""
    PRECHECKS = "prechecks"
    WORK = "work"
    COMMIT = "commit"
    """What the work left is committed and pinned, or its absence judged."""
    POSTCHECKS = "postchecks"
    MERGE_RI = "merge-ri"
    """Reverse integration: a leaf's commit is merged into the target branch."""


ORDER: tuple[Phase, ...] = tuple(Phase)

COMMANDS = frozenset({Phase.PRECHECKS, Phase.WORK, Phase.POSTCHECKS})
"""Phases that run something of the user's. The others are git's and are safe to perform again."""

PLACING = frozenset({Phase.MERGE_FI, Phase.SETUP})
"""Phases of a node that is scheduled but not running yet."""


class PhaseStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    """Ended because it was no longer wanted: a stop or a cancel."""
    UNKNOWN = "unknown"
    """Nobody knows how it ended."""


class Trigger(StrEnum):
    """Why an attempt was made."""

    INITIAL = "initial"
    RETRY = "retry"
    RESUMED = "resumed"
    """The run went on after a stop."""
    RERUN = "rerun"
    """The attempt before it was lost."""
    BACKOFF = "backoff"
    """The attempt before it failed for a reason that passes, and its pause is over."""


def resume_after_failure(failed: Phase) -> Phase | None:
    """Where a retry begins, in the same worktree; None: from the start, in a clean one.

    A commit fails for want of evidence, so it is the work that has to be done again."""
    if failed in PLACING:
        return None
    return Phase.WORK if failed is Phase.COMMIT else failed


def resume_after_interruption(at: Phase) -> Phase | None:
    """Where work goes on after a stop or a loss. Half-done work starts in a clean worktree; what comes before and after
    it goes on where it was."""
    return None if at in PLACING or at is Phase.WORK else at


def following(phase: Phase) -> Phase | None:
    index = ORDER.index(phase) + 1
    return ORDER[index] if index < len(ORDER) else None
