"""The way of one attempt through its phases: how it begins, what follows what, how it ends.

Every function answers events and changes nothing. What a node's end means to others is for ``propagate``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.core.plan.budgets import reached_error, refusal
from pilothouse.core.plan.effects import MergeRefused, PhaseEffect, WorktreeReady
from pilothouse.core.plan.events import (
    AttemptEnded,
    AttemptStarted,
    NodeMoved,
    PhaseEnded,
    PhaseQueued,
    PhaseSkipped,
    PhaseStarted,
    TargetLost,
)
from pilothouse.core.plan.integration import CheckedOut, Committed, Conflict, Merged, NoEvidence
from pilothouse.core.plan.intents import phase_key, phase_spec
from pilothouse.core.plan.phases import (
    COMMANDS,
    ORDER,
    PLACING,
    Phase,
    PhaseStatus,
    resume_after_failure,
)
from pilothouse.core.plan.resume import after_interruption
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import Ended, Failed, NotStarted
from pilothouse.core.run.events import Event
from pilothouse.core.run.lifecycle import Lifecycle

NO_EVIDENCE = (
    "No work evidence produced. The node must either modify files, create an evidence file, or declare expectsNoChanges"
)


def begin(state: PlanState, node: NodeState) -> list[Event]:
    """A node that was ready gets its next attempt; ``advance`` takes it from there."""
    before = node.attempts[-1] if node.attempts else None
    if node.resume_from is not None and before is not None:
        resume, path, base = node.resume_from, before.worktree_path, before.base_commit
    else:
        number = len(node.attempts) + 1
        resume, path, base = None, state.worktree_path(node.node, number), _known_base(state, node)
    return [
        NodeMoved(node_id=node.node.id, old=NodeStatus.READY, new=NodeStatus.SCHEDULED),
        AttemptStarted(
            node_id=node.node.id,
            attempt=len(node.attempts) + 1,
            trigger=node.next_trigger,
            resume_from=resume,
            worktree_path=path,
            base_commit=base,
        ),
    ]


def _known_base(state: PlanState, node: NodeState) -> str | None:
    """Where it starts when nothing has to be merged for that; None when its dependencies' commits differ."""
    facts = state.facts
    if node.node.is_root:
        return facts.bases.get(node.node.id, facts.base_commit)
    commits = {state.nodes[parent].completed_commit or facts.base_commit for parent in node.node.dependencies}
    return commits.pop() if len(commits) == 1 else None


def advance(state: PlanState) -> list[Event]:
    """One step of one node that is between two phases: enter the next phase that is not skipped, or end the attempt.
    One at a time, since what one node's end means to others must be folded before the next."""
    if state.common.lifecycle not in (Lifecycle.RUNNING, Lifecycle.PAUSING, Lifecycle.STOPPING):
        return []
    unwanted = state.common.lifecycle is Lifecycle.STOPPING
    for node_id in state.between:
        node = state.nodes[node_id]
        if unwanted or node.canceling:
            return _interrupt_between(state, node)
        return _step(state, node)
    for node_id in state.merge_queue:
        node = state.nodes[node_id]
        if unwanted or node.canceling:
            return interrupt(state, node, Phase.MERGE_RI)
        if state.target_error:
            return fail(node, Phase.MERGE_RI, f"the target branch: {state.target_error}")
        if not state.merging and not state.opening_target and not state.target_lost:
            return [start(node, Phase.MERGE_RI)]
    return []


def next_phase(node: NodeState) -> Phase | None:
    """The first phase the attempt has not been in; None when it is through."""
    return next(_phases_left(node), None)


def _phases_left(node: NodeState) -> Iterator[Phase]:
    attempt = node.attempt
    first = ORDER.index(attempt.resume_from or ORDER[0])
    return (phase for phase in ORDER[first:] if phase not in attempt.phases)


def _step(state: PlanState, node: NodeState) -> list[Event]:
    node_id, number = node.node.id, node.attempt.number
    events: list[Event] = []
    for phase in _phases_left(node):
        if (reason := _why_skip(state, node, phase)) is None:
            break
        events.append(PhaseSkipped(node_id=node_id, attempt=number, phase=phase, reason=reason))
    else:
        phase = None
    if phase in COMMANDS and (refused := refusal(state, node, phase_spec(node, phase))):
        return [*events, *fail(node, phase, refused)]
    if node.status is NodeStatus.SCHEDULED and phase not in PLACING:
        events.append(NodeMoved(node_id=node_id, old=NodeStatus.SCHEDULED, new=NodeStatus.RUNNING))
    if phase is None:
        return [*events, *_succeed(state, node)]
    if phase is Phase.MERGE_RI:
        return [*events, PhaseQueued(node_id=node_id, attempt=number, phase=phase)]
    return [*events, start(node, phase)]


def start(node: NodeState, phase: Phase) -> Event:
    """The intent to perform a phase of the present attempt."""
    key = phase_key(node, phase)
    return PhaseStarted(node_id=node.node.id, attempt=node.attempt.number, phase=phase, key=key)


def _why_skip(state: PlanState, node: NodeState, phase: Phase) -> str | None:
    """Why there is nothing to do in a phase; None when there is."""
    if phase in COMMANDS:
        return None if phase_spec(node, phase) is not None else "nothing to run"
    if phase is Phase.MERGE_FI:
        return None if node.attempt.base_commit is None else "nothing to merge"
    if phase in (Phase.SETUP, Phase.COMMIT):
        return "only joins its dependencies" if node.node.is_coordination else None
    if not node.node.is_leaf:
        return "only leaves are merged"
    return "nothing changed" if state.result_of(node.attempt) == state.facts.base_commit else None


def _interrupt_between(state: PlanState, node: NodeState) -> list[Event]:
    """What is through all its phases has succeeded, whatever was asked meanwhile."""
    phase = next_phase(node)
    if phase is None and node.status is NodeStatus.RUNNING:
        return _succeed(state, node)
    return interrupt(state, node, None if phase in PLACING else phase)


def outcome(state: PlanState, effect: PhaseEffect, result: msgspec.Struct) -> list[Event]:
    """A phase came to its end. One that came to a good end although it was no longer wanted has still been done:
    ``advance`` sees to the rest of the attempt."""
    node = state.nodes[effect.node_id]
    if isinstance(result, CheckedOut) and state.target is not None:
        return [
            TargetLost(branch=state.target.branch, path=result.path),
            PhaseQueued(node_id=effect.node_id, attempt=effect.attempt, phase=effect.phase),
        ]
    ended = judge(effect, result, node.attempt.denied)
    if ended.status is PhaseStatus.SUCCEEDED:
        return [ended]
    if ended.status is PhaseStatus.INTERRUPTED:
        return [ended, *interrupt(state, node, after_interruption(node, effect.phase))]
    return [ended, *fail(node, effect.phase, ended.error)]


def judge(effect: PhaseEffect, result: msgspec.Struct, denied: Sequence[str] = ()) -> PhaseEnded:
    """What an effect's answer means for its phase; ``denied`` are tools its agents may not use. An end nobody can
    explain does not come here: see ``recover``."""
    status, error, values = PhaseStatus.SUCCEEDED, "", dict[str, Any]()
    match result:
        case Ended() | NotStarted():
            status = PhaseStatus.INTERRUPTED
        case Failed():
            status, error = PhaseStatus.FAILED, result.error
        case MergeRefused():
            status, error = PhaseStatus.FAILED, result.error
        case Conflict():
            status, error = PhaseStatus.FAILED, f"Conflict in {', '.join(result.files)}"
        case NoEvidence():
            status, error = PhaseStatus.FAILED, with_denied(NO_EVIDENCE, denied)
        case Merged():
            values = {"commit": result.commit, "note": "" if result.moved else "nothing new to merge"}
        case Committed():
            values = {"commit": result.commit, "note": result.evidence or ("" if result.changed else "no changes")}
        case WorktreeReady():
            values = {"place": result.place}
        case Exit():
            values = {"exit_code": result.code}
            if result.reason is ExitReason.CANCELED:
                status = PhaseStatus.INTERRUPTED
            elif not result.ok:
                status, error = PhaseStatus.FAILED, judge_exit(effect.phase, result)
        case _:
            raise TypeError(f"{effect.key} was answered with {type(result).__name__}")
    spot: dict[str, Any] = {"node_id": effect.node_id, "attempt": effect.attempt, "phase": effect.phase}
    return PhaseEnded(**spot, status=status, error=error, **values)


def with_denied(error: str, denied: Sequence[str]) -> str:
    """Why an agent's work failed, and which tools it may not use."""
    return f"{error}; it was not permitted to use: {', '.join(denied)}" if denied else error


def judge_exit(phase: Phase, result: Exit, told: str = "") -> str:
    """Why a command that ended by itself failed; ``told`` is what it said of that."""
    if result.reason is ExitReason.TIMEOUT:
        what = result.error or "Timed out"
    elif result.reason is ExitReason.NOT_STARTED:
        what = result.error or told or "Could not be started"
    elif told:
        what = told
    elif result.signal is not None:
        what = f"Killed by signal {result.signal}"
    else:
        what = f"Exit code {result.code}"
    prefix = {Phase.PRECHECKS: "Prechecks failed: ", Phase.POSTCHECKS: "Postchecks failed: "}.get(phase, "")
    return prefix + what


def _succeed(state: PlanState, node: NodeState) -> list[Event]:
    ended = AttemptEnded(
        node_id=node.node.id,
        attempt=node.attempt.number,
        status=PhaseStatus.SUCCEEDED,
        completed_commit=state.result_of(node.attempt),
        discard=node.attempt.worktree_exists and state.plan.clean_up_successful_work,
    )
    return [ended, NodeMoved(node_id=node.node.id, old=node.status, new=NodeStatus.SUCCEEDED)]


def fail(node: NodeState, phase: Phase, error: str, *, rescue: bool = False) -> list[Event]:
    """The attempt failed; its worktree stays as it is for a retry, and for whoever wants to look. ``rescue``: what is
    in it is saved besides."""
    ended = AttemptEnded(
        node_id=node.node.id,
        attempt=node.attempt.number,
        status=PhaseStatus.FAILED,
        error=error,
        failed_phase=phase,
        resume_from=resume_after_failure(phase),
        rescue=rescue and node.attempt.worktree_exists,
    )
    return [ended, NodeMoved(node_id=node.node.id, old=node.status, new=NodeStatus.FAILED, reason=error)]


def out_of_budget(node: NodeState, phase: Phase, reason: str) -> list[Event]:
    """Its agent was ended for want of budget. Nobody will go on with that soon, so its edits are saved besides."""
    error = reached_error(reason)
    ended = PhaseEnded(
        node_id=node.node.id, attempt=node.attempt.number, phase=phase, status=PhaseStatus.FAILED, error=error
    )
    return [ended, *fail(node, phase, error, rescue=True)]


def interrupt(
    state: PlanState, node: NodeState, resume: Phase | None, status: PhaseStatus = PhaseStatus.INTERRUPTED
) -> list[Event]:
    """The attempt ends before its end: the node goes back to ready, or is canceled when that is what was asked.
    ``resume`` is where the next attempt goes on, None for the start."""
    final = node.canceling or state.common.final
    exists = node.attempt.worktree_exists
    ended = AttemptEnded(
        node_id=node.node.id,
        attempt=node.attempt.number,
        status=status,
        resume_from=None if final else resume,
        rescue=exists,
        discard=exists and (final or resume is None),
    )
    new, reason = (NodeStatus.CANCELED, "canceled") if final else (NodeStatus.READY, "interrupted")
    return [ended, NodeMoved(node_id=node.node.id, old=node.status, new=new, reason=reason)]
