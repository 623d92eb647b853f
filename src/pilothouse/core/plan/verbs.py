"""What people ask of a plan's parts: cancel a node or a group, retry, answer a question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pilothouse.core.plan.agent_flow import next_try
from pilothouse.core.plan.approvals import withdraw
from pilothouse.core.plan.events import (
    AttemptEnded,
    NodeCancelRequested,
    NodeMoved,
    NodeRetried,
    PhaseEnded,
    WorktreeAbandoned,
)
from pilothouse.core.plan.flow import fail, interrupt
from pilothouse.core.plan.phases import Phase, PhaseStatus, following
from pilothouse.core.plan.state import NodeState, PlanState, rescue_key
from pilothouse.core.plan.states import ACTIVE, TERMINAL, NodeStatus
from pilothouse.core.run.events import Event, RunResumed, WaitClosed
from pilothouse.core.run.inputs import Answer, CancelPart, Retry
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import WaitKind
from pilothouse.errors import BadInput, NotFound, Refused

RETRYABLE = frozenset({NodeStatus.FAILED, NodeStatus.CANCELED})


def cancel_part(state: PlanState, given: CancelPart) -> list[Event]:
    """End a node, or every node of a group, for good. Raises ``NotFound``, ``Refused``."""
    nodes = [node for node in _in_scope(state, given.scope) if node.status not in TERMINAL]
    if not nodes:
        raise Refused(f"{_called(state, given.scope)} has ended already")
    if state.common.terminal:
        raise Refused("the plan is not running; cancel the plan as a whole instead")
    events: list[Event] = []
    for node in nodes:
        if node.status not in ACTIVE:
            events.append(_canceled(node))
        elif node.parked:
            events += _cancel_waiting(node)
        elif not node.canceling:
            events += [NodeCancelRequested(node_id=node.node.id), *withdraw(node)]
    return events


def cancel_all(state: PlanState) -> list[Event]:
    """Every node that has nothing in flight ends here; the others once their effects have."""
    events: list[Event] = []
    for node in state.nodes.values():
        if node.status not in TERMINAL and node.status not in ACTIVE:
            events.append(_canceled(node))
        elif node.parked:
            events += _cancel_waiting(node)
        else:
            events += withdraw(node)
    return events


def end_waits(state: PlanState) -> list[Event]:
    """A stop ends what only time or a living agent would have gone on with; what a person has to say can wait."""
    events: list[Event] = []
    for node_id in dict.fromkeys(wait.scope for wait in state.common.waits.values()):
        node = state.nodes[node_id]
        events += withdraw(node)
        for wait_id, kind in node.waits.items():
            if kind is WaitKind.BACKOFF:
                phase = Phase(state.common.waits[wait_id].detail["phase"])
                events += [WaitClosed(wait_id=wait_id, scope=node_id), *interrupt(state, node, phase)]
    return events


def abandon(state: PlanState) -> list[Event]:
    """The run is over for good: what its unsuccessful attempts left in worktrees is saved, and they are removed. Those
    that are being saved are left alone until that is done."""
    return [
        WorktreeAbandoned(node_id=node.node.id, attempt=attempt.number)
        for node in state.nodes.values()
        for attempt in node.attempts
        if attempt.worktree_exists
        and attempt.status is not PhaseStatus.SUCCEEDED
        and not attempt.abandoned
        and rescue_key(node.node.id, attempt.number) not in state.housekeeping
    ]


def _canceled(node: NodeState) -> Event:
    return NodeMoved(node_id=node.node.id, old=node.status, new=NodeStatus.CANCELED, reason="canceled")


def _cancel_waiting(node: NodeState) -> list[Event]:
    """Nothing of it is in flight, so it ends at once, and its question with it."""
    exists = node.attempt.worktree_exists
    return [
        *(WaitClosed(wait_id=wait_id, scope=node.node.id) for wait_id in node.waits),
        AttemptEnded(
            node_id=node.node.id,
            attempt=node.attempt.number,
            status=PhaseStatus.INTERRUPTED,
            rescue=exists,
            discard=exists,
        ),
        _canceled(node),
    ]


def _in_scope(state: PlanState, scope: str) -> list[NodeState]:
    node = state.find(scope)
    if node is not None:
        return [node]
    group = state.plan.find_group(scope)
    if group is None:
        raise NotFound(f"the plan has no node or group {scope!r}")
    return [node for node in state.nodes.values() if group.id in state.plan.ancestry(node.node.group)]


def _called(state: PlanState, scope: str) -> str:
    """What people call a part: clients may name it by an id that says nothing."""
    node, group = state.find(scope), state.plan.find_group(scope)
    return node.node.producer_id if node else group.path if group else scope


def retry(state: PlanState, given: Retry) -> list[Event]:
    """Try failed nodes again, or the named ones; one that backs off is tried now. Raises ``NotFound``, ``Refused``."""
    run = state.common
    if run.lifecycle not in (Lifecycle.RUNNING, Lifecycle.FAILED, Lifecycle.PARTIAL):
        raise Refused(f"only a running, failed or partial plan can be retried; this one is {run.lifecycle.lower()}")
    nodes = _to_retry(state, given)
    chosen = dict.fromkeys(node.node.id for node in nodes)
    for node in nodes:
        for parent in (state.nodes[name] for name in node.node.dependencies):
            if parent.status in TERMINAL - {NodeStatus.SUCCEEDED} and parent.node.id not in chosen:
                raise Refused(f"{node.node.producer_id} depends on {parent.node.producer_id}; retry that first")
    events: list[Event] = []
    if run.terminal:
        events.append(RunResumed(leg=run.leg + 1, reason="retry"))
    for node in nodes:
        retried = NodeRetried(node_id=node.node.id, fresh=given.fresh)
        if node.backing_off:
            *ended, moved = next_try(state, state.common.waits[node.wait_id or ""], "retry")
            events += [*ended, retried, moved]
        else:
            moved = NodeMoved(node_id=node.node.id, old=node.status, new=NodeStatus.PENDING, reason="retry")
            events += [retried, moved]
    return [*events, *_unblock(state, chosen)]


def _to_retry(state: PlanState, given: Retry) -> list[NodeState]:
    if not given.scopes:
        failed = [node for node in state.nodes.values() if node.status is NodeStatus.FAILED or node.backing_off]
        if not failed and not (state.common.lifecycle is Lifecycle.FAILED and state.target is None):
            raise Refused("No failed nodes to retry")
        return failed
    nodes: dict[str, NodeState] = {}
    for scope in given.scopes:
        found = _in_scope(state, scope)
        wanted = [node for node in found if node.status in RETRYABLE or node.backing_off]
        if not wanted:
            now = found[0].status if found else "empty"
            raise Refused(f"{_called(state, scope)} is {now}; only failed and canceled nodes can be retried")
        nodes.update((node.node.id, node) for node in wanted)
    return list(nodes.values())


def _unblock(state: PlanState, chosen: Iterable[str]) -> list[Event]:
    """Blocked nodes wait again, unless something else upstream of them has still failed."""
    waiting = set(chosen)
    events: list[Event] = []
    queue = [dependent for node_id in chosen for dependent in state.nodes[node_id].node.dependents]
    while queue:
        node = state.nodes[queue.pop(0)]
        if node.status is not NodeStatus.BLOCKED or node.node.id in waiting:
            continue
        parents = [state.nodes[parent] for parent in node.node.dependencies]
        if any(p.status in TERMINAL - {NodeStatus.SUCCEEDED} and p.node.id not in waiting for p in parents):
            continue
        waiting.add(node.node.id)
        events.append(NodeMoved(node_id=node.node.id, old=NodeStatus.BLOCKED, new=NodeStatus.PENDING, reason="retry"))
        queue.extend(node.node.dependents)
    return events


def answer(state: PlanState, given: Answer) -> list[Event]:
    """Answer an agent's request: it goes on at once, for it never ended. Or a review: ``rerun`` in a clean worktree,
    ``accept`` what is there and go on, or ``fail``; whatever goes on is a new attempt then: while it waited the node
    held no slot, and others may have taken them all.

    Raises ``NotFound`` for a wait that is not open (any more: one answer wins), ``BadInput`` for another answer."""
    wait = state.common.waits.get(given.wait_id)
    if wait is None:
        raise NotFound(f"nothing waits for an answer under {given.wait_id}")
    if wait.kind is WaitKind.BACKOFF:
        raise Refused("it waits for a time, not for an answer; retry the node to go on now")
    if given.answer not in wait.options:
        raise BadInput(
            f"{given.answer!r} is no answer to this", field="answer", fix=f"one of {', '.join(wait.options)}"
        )
    if state.common.terminal and given.answer != "fail":
        raise Refused(f"the plan is {state.common.lifecycle.lower()}; resume it first")
    closed = WaitClosed(wait_id=wait.id, answer=given.answer, by=given.by, scope=wait.scope)
    if wait.kind is WaitKind.APPROVAL:
        return [closed]
    node = state.nodes[wait.scope]
    phase = Phase(wait.detail["phase"])
    if given.answer == "rerun":
        return [closed, *interrupt(state, node, None, PhaseStatus.UNKNOWN)]
    spot: dict[str, Any] = {"node_id": node.node.id, "attempt": node.attempt.number, "phase": phase}
    if given.answer == "accept":
        note = f"accepted by {given.by}"
        done = PhaseEnded(**spot, status=PhaseStatus.SUCCEEDED, note=note)
        return [closed, done, *interrupt(state, node, following(phase))]
    error = f"Interrupted, and declared failed by {given.by}"
    return [closed, PhaseEnded(**spot, status=PhaseStatus.FAILED, error=error), *fail(node, phase, error)]
