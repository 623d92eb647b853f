"""The fold of a plan's events. One small function per event type; the table at the end is the whole of it.

Nothing is decided here: what an event says happened, happened. Effects are built here, once, when their intent is
recorded, so that ``todo`` costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pilothouse.core.plan.agent_fold import FOLDS as AGENT_FOLDS
from pilothouse.core.plan.agent_fold import agent_begins, phase_over
from pilothouse.core.plan.effects import RemoveWorktree, Rescue
from pilothouse.core.plan.events import (
    AttemptEnded,
    AttemptStarted,
    LogAppended,
    NodeCancelRequested,
    NodeMoved,
    NodeRetried,
    PhaseEnded,
    PhaseQueued,
    PhaseSkipped,
    PhaseStarted,
    PlanBuilt,
    WorkRescued,
    WorktreeAbandoned,
    WorktreeRemoved,
)
from pilothouse.core.plan.groups import GroupStates
from pilothouse.core.plan.intents import phase_effect
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger, resume_after_failure
from pilothouse.core.plan.state import Attempt, NodeState, PhaseState, PlanState, removal_key, rescue_key
from pilothouse.core.plan.states import TERMINAL, NodeStatus, check_move, initial_status
from pilothouse.core.plan.target_fold import FOLDS as TARGET_FOLDS
from pilothouse.core.plan.target_fold import need_target
from pilothouse.core.run.events import Event, Recorded

E = TypeVar("E", bound=Event)


def evolve(state: PlanState, recorded: Recorded) -> PlanState:
    """Changes ``state`` and answers it. Raises ``IllegalMove`` or ``IllegalNodeMove`` for what cannot follow."""
    state.common.evolve(recorded)
    fold = _FOLDS.get(type(recorded.event))
    if fold is not None:
        fold(state, recorded.event, recorded.at)
    return state


def _built(state: PlanState, event: PlanBuilt, at: int) -> None:
    state.built = event
    for node in event.plan.nodes.values():
        status = initial_status(is_root=node.is_root)
        state.nodes[node.id] = NodeState(node=node, status=status, missing=len(node.dependencies))
        state.counts[status] = state.counts.get(status, 0) + 1
        if status is NodeStatus.READY:
            state.ready.add(node)
    state.groups = GroupStates(event.plan, {node.node.id: node.status for node in state.nodes.values()})


def _node_moved(state: PlanState, event: NodeMoved, at: int) -> None:
    node = state.nodes[event.node_id]
    check_move(node.status, event.new)
    held = node.holds_slot
    old, node.status = node.status, event.new
    state.slots += node.holds_slot - held
    state.counts[old] -= 1
    state.counts[event.new] = state.counts.get(event.new, 0) + 1
    if state.groups is not None:
        state.groups.move(event.node_id, old, event.new, at)
    if event.new is NodeStatus.READY:
        state.ready.add(node.node, retry=bool(node.attempts))
    elif old is NodeStatus.READY:
        state.ready.discard(node.node.id)
    if event.new is NodeStatus.RUNNING:
        node.started_at = node.started_at or at
    ended = event.new in TERMINAL
    node.ended_at = at if ended else None
    node.canceling = node.canceling and not ended
    node.error = event.reason if ended and event.new is not NodeStatus.SUCCEEDED else ""
    _note_consequences(state, node)


def _note_consequences(state: PlanState, node: NodeState) -> None:
    """Keep the worklists of ``propagate``: what this move makes ready, what it dooms, and itself out of both."""
    state.met.pop(node.node.id, None)
    state.doomed.pop(node.node.id, None)
    if node.status is NodeStatus.PENDING and node.missing == 0:
        state.met[node.node.id] = None
    for dependent_id in node.node.dependents:
        dependent = state.nodes[dependent_id]
        if node.status is NodeStatus.SUCCEEDED:
            dependent.missing -= 1
            if dependent.missing == 0 and dependent.status is NodeStatus.PENDING:
                state.met[dependent_id] = None
        elif node.status in TERMINAL and dependent.status in (NodeStatus.PENDING, NodeStatus.READY):
            state.doomed.setdefault(dependent_id, node.node.id)


def _attempt_started(state: PlanState, event: AttemptStarted, at: int) -> None:
    node = state.nodes[event.node_id]
    before = node.attempts[-1] if node.attempts else None
    attempt = Attempt(
        number=event.attempt,
        trigger=event.trigger,
        worktree_path=event.worktree_path,
        started_at=at,
        resume_from=event.resume_from,
        base_commit=event.base_commit,
    )
    if event.resume_from is not None and before is not None:
        # It goes on in the worktree of the try before, with what that one had established.
        attempt.worktree_exists, before.worktree_exists = before.worktree_exists, False
        attempt.completed_commit, attempt.place = before.completed_commit, before.place
    node.attempts.append(attempt)
    node.resume_from = None
    node.error = ""
    state.between[event.node_id] = None


def _phase_started(state: PlanState, event: PhaseStarted, at: int) -> None:
    node = state.nodes[event.node_id]
    attempt = node.attempt
    tries = attempt.phases[event.phase].tries if event.phase in attempt.phases else 0
    attempt.phases[event.phase] = PhaseState(
        status=PhaseStatus.RUNNING, tries=tries + 1, started_at=at, agent=agent_begins(state, node, event.phase)
    )
    _leave(state, event.node_id)
    state.merging = state.merging or event.phase is Phase.MERGE_RI
    if event.phase is Phase.SETUP:
        attempt.worktree_exists = True  # from here on there may be one to clean up
    state.open[event.key] = phase_effect(state, event)


def _phase_queued(state: PlanState, event: PhaseQueued, at: int) -> None:
    state.between.pop(event.node_id, None)
    if (effect := state.open_effect(event.node_id)) is not None:  # its turn came, but the target was lost
        del state.open[effect.key]
        state.merging = False
    state.merge_queue.append(event.node_id)


def _leave(state: PlanState, node_id: str) -> None:
    """The node is no longer between two phases, nor waiting for its turn."""
    state.between.pop(node_id, None)
    if node_id in state.merge_queue:
        state.merge_queue.remove(node_id)


def _phase_skipped(state: PlanState, event: PhaseSkipped, at: int) -> None:
    attempt = state.nodes[event.node_id].attempt
    attempt.phases[event.phase] = PhaseState(status=PhaseStatus.SKIPPED, started_at=at, ended_at=at, note=event.reason)


def _phase_ended(state: PlanState, event: PhaseEnded, at: int) -> None:
    node = state.nodes[event.node_id]
    attempt = node.attempt
    phase = attempt.phases[event.phase]
    phase.status, phase.ended_at = event.status, at
    phase.error, phase.exit_code, phase.note = event.error, event.exit_code, event.note
    effect = state.open_effect(event.node_id)
    if effect is not None and effect.phase is event.phase:
        del state.open[effect.key]
    phase_over(state, node, phase)
    if event.phase is Phase.MERGE_RI:
        state.merging = False
    if event.status is PhaseStatus.SUCCEEDED:
        state.between[event.node_id] = None
    if event.place:
        attempt.place = event.place
    if event.commit is not None and event.status is PhaseStatus.SUCCEEDED:
        if event.phase is Phase.MERGE_FI:
            attempt.base_commit = event.commit
        elif event.phase is Phase.COMMIT:
            attempt.completed_commit = event.commit
        elif event.phase is Phase.MERGE_RI:
            attempt.target_commit = event.commit
            state.merged.append((node.node.producer_id, state.result_of(attempt)))
            if state.target is not None:
                state.target.commit = event.commit


def _attempt_ended(state: PlanState, event: AttemptEnded, at: int) -> None:
    node = state.nodes[event.node_id]
    attempt = node.attempt
    attempt.status, attempt.ended_at = event.status, at
    attempt.error, attempt.failed_phase = event.error, event.failed_phase
    _leave(state, event.node_id)
    if event.completed_commit is not None:
        attempt.completed_commit = node.completed_commit = event.completed_commit
    node.resume_from = event.resume_from
    if event.status is PhaseStatus.UNKNOWN:
        node.next_trigger = Trigger.RERUN
    elif event.status is PhaseStatus.INTERRUPTED:
        node.next_trigger = Trigger.RESUMED
    if event.rescue:
        _owe_rescue(state, node, attempt, event.discard)
    elif event.discard:
        key = removal_key(node.node.id, attempt.number)
        state.housekeeping[key] = RemoveWorktree(
            key=key, **_clean_up(state, node, attempt), kept=attempt.completed_commit or ""
        )


def _clean_up(state: PlanState, node: NodeState, attempt: Attempt) -> dict[str, Any]:
    """What the clean-up of any attempt has to know: where, and under which ref edits are saved."""
    return {
        "node_id": node.node.id,
        "attempt": attempt.number,
        "repo": state.facts.repo_path,
        "path": attempt.worktree_path,
        "ref": state.rescue_ref(node.node, attempt.number),
    }


def _owe_rescue(state: PlanState, node: NodeState, attempt: Attempt, discard: bool) -> None:
    key = rescue_key(node.node.id, attempt.number)
    state.housekeeping[key] = Rescue(key=key, **_clean_up(state, node, attempt), discard=discard)


def _work_rescued(state: PlanState, event: WorkRescued, at: int) -> None:
    attempt = state.nodes[event.node_id].attempts[event.attempt - 1]
    attempt.rescue_ref = event.ref
    attempt.worktree_exists = attempt.worktree_exists and not event.removed
    state.housekeeping.pop(rescue_key(event.node_id, event.attempt), None)


def _worktree_removed(state: PlanState, event: WorktreeRemoved, at: int) -> None:
    attempt = state.nodes[event.node_id].attempts[event.attempt - 1]
    attempt.worktree_exists = bool(event.error)
    state.housekeeping.pop(removal_key(event.node_id, event.attempt), None)


def _node_cancel_requested(state: PlanState, event: NodeCancelRequested, at: int) -> None:
    state.nodes[event.node_id].canceling = True


def _node_retried(state: PlanState, event: NodeRetried, at: int) -> None:
    node = state.nodes[event.node_id]
    node.next_trigger = Trigger.RETRY
    failed = node.attempt.failed_phase if node.attempts else None
    node.resume_from = None if event.fresh or failed is None else resume_after_failure(failed)
    node.canceling = False
    if state.target_error:
        need_target(state)


def _log_appended(state: PlanState, event: LogAppended, at: int) -> None:
    phase = state.nodes[event.node_id].attempts[event.attempt - 1].phases.get(event.phase)
    if phase is not None:
        phase.output_to = max(phase.output_to, event.end)


def _worktree_abandoned(state: PlanState, event: WorktreeAbandoned, at: int) -> None:
    node = state.nodes[event.node_id]
    attempt = node.attempts[event.attempt - 1]
    attempt.abandoned = True
    _owe_rescue(state, node, attempt, discard=True)


_FOLDS: dict[type[Event], Callable[[PlanState, Any, int], None]] = {
    PlanBuilt: _built,
    NodeMoved: _node_moved,
    AttemptStarted: _attempt_started,
    PhaseStarted: _phase_started,
    PhaseQueued: _phase_queued,
    PhaseSkipped: _phase_skipped,
    PhaseEnded: _phase_ended,
    AttemptEnded: _attempt_ended,
    WorkRescued: _work_rescued,
    WorktreeRemoved: _worktree_removed,
    NodeCancelRequested: _node_cancel_requested,
    NodeRetried: _node_retried,
    LogAppended: _log_appended,
    WorktreeAbandoned: _worktree_abandoned,
    **TARGET_FOLDS,
    **AGENT_FOLDS,
}
