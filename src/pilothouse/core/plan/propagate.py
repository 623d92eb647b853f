"""What the end of one node means for the others.

The fold keeps two worklists: ``met`` (nodes whose last dependency has succeeded) and ``doomed`` (nodes right below one
that failed, was canceled or is blocked). Emptying them, move by move, is the breadth-first propagation of the document;
nodes that have ended or are at work are never in them.
"""

from __future__ import annotations

from pilothouse.core.plan.events import NodeMoved
from pilothouse.core.plan.state import PlanState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.events import Event

_VERBS = {NodeStatus.FAILED: "failed", NodeStatus.CANCELED: "was canceled", NodeStatus.BLOCKED: "is blocked"}


def propagate(state: PlanState) -> list[Event]:
    events: list[Event] = [
        NodeMoved(node_id=node_id, old=NodeStatus.PENDING, new=NodeStatus.READY) for node_id in state.met
    ]
    for node_id, cause_id in state.doomed.items():
        cause = state.nodes[cause_id]
        reason = f"Blocked: dependency '{cause.node.producer_id}' {_VERBS[cause.status]}"
        old = state.nodes[node_id].status
        events.append(NodeMoved(node_id=node_id, old=old, new=NodeStatus.BLOCKED, reason=reason))
    return events
