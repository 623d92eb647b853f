"""How a plan ended, from how its nodes did."""

from __future__ import annotations

from typing import Any

from pilothouse.core.plan.state import PlanState
from pilothouse.core.plan.states import TERMINAL, NodeStatus
from pilothouse.core.run.events import Event, RunCanceled, RunFailed, RunFinished


def verdict(state: PlanState) -> Event | None:
    """The terminal event once every node has ended and nothing is owed any more; None before.

    All succeeded: SUCCEEDED. Some did: PARTIAL. None did: FAILED, or CANCELED when nothing failed either.
    """
    if state.open or state.housekeeping or state.count(*TERMINAL) < len(state.nodes):
        return None
    succeeded, failed = state.count(NodeStatus.SUCCEEDED), state.count(NodeStatus.FAILED)
    if succeeded == len(state.nodes):
        return RunFinished(status="SUCCEEDED", summary=summary(state))
    if succeeded:
        return RunFinished(status="PARTIAL", summary=summary(state))
    if failed:
        return RunFailed(error=_why(state), summary=summary(state))
    return RunCanceled(reason="every node was canceled", summary=summary(state))


def summary(state: PlanState) -> dict[str, Any]:
    """What the end of a run says of its plan."""
    target = state.target
    return {
        "counts": {str(status): count for status, count in state.counts.items() if count},
        "targetBranch": target.branch if target else None,
        "targetCommit": target.commit if target else None,
        "note": target.note if target else "",
    }


def _why(state: PlanState) -> str:
    failed = list(state.in_status(NodeStatus.FAILED))
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{first.node.producer_id}: {first.error}{more}"
