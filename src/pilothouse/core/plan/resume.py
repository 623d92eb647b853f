"""Where an agent that was broken off goes on: with which conversation, knowing what, in which worktree.

A conversation speaks of files as it left them, so it goes on only in the worktree it was held in.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger, resume_after_interruption
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.plan.state import Attempt, NodeState, PhaseState


def conversation(node: NodeState, phase: Phase, spec: AgentSpec) -> str:
    """The conversation the next try of a phase resumes; empty for a new one."""
    if not spec.resume_session:
        return ""
    for attempt in _in_this_worktree(node):
        before = attempt.phases.get(phase)
        if before is not None and before.agent is not None and before.agent.name == spec.agent:
            if _is_dead(node, attempt, before):
                return ""
            if before.agent.session_id:
                return before.agent.session_id
    return ""


def _in_this_worktree(node: NodeState) -> Iterator[Attempt]:
    """The present attempt and those whose work it goes on with, last first."""
    for attempt in reversed(node.attempts):
        yield attempt
        if attempt.resume_from is None:
            return


def _is_dead(node: NodeState, attempt: Attempt, before: PhaseState) -> bool:
    """It could not be resumed, so it would fail for ever; unless the failure is one that passes."""
    assert before.agent is not None
    passing = Trigger.BACKOFF in (node.attempt.trigger, attempt.trigger)
    return before.status is PhaseStatus.FAILED and not before.agent.spoke and not passing


def trouble(node: NodeState, phase: Phase) -> str:
    """Why the try before ended, for work that goes on in the same worktree: the phase, and what was wrong."""
    attempt = node.attempt
    if (before := attempt.phases.get(phase)) is not None:
        return f"{phase}: {before.error}"
    if attempt.resume_from is not phase or len(node.attempts) < 2:
        return ""
    last = node.attempts[-2]
    if last.status is PhaseStatus.FAILED:
        return f"{last.failed_phase}: {last.error}"
    return f"{phase}: it was interrupted"


def after_interruption(node: NodeState, phase: Phase) -> Phase | None:
    """Where the next attempt begins when this one is broken off. Half-done work of an agent goes on where its
    conversation can; any other begins in a clean worktree."""
    return phase if keeps_conversation(node, phase) else resume_after_interruption(phase)


def keeps_conversation(node: NodeState, phase: Phase) -> bool:
    spec = node.node.work if phase is Phase.WORK else None
    state = node.attempt.phases.get(phase)
    return (
        isinstance(spec, AgentSpec)
        and spec.resume_session
        and state is not None
        and state.agent is not None
        and bool(state.agent.session_id)
    )
