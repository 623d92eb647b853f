"""What happens in a plan, in one line each: for pipes, logs of CI and dumb terminals.

Values in, text out. Only what a person would want to know of later is told: not every phase, not what waits its turn.
"""

from __future__ import annotations

from typing import IO

from pilothouse.core.plan.agent_events import BudgetReached
from pilothouse.core.plan.events import AttemptStarted, NodeMoved, TargetOpened
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.events import (
    CancelRequested,
    Paused,
    PauseRequested,
    Recorded,
    RunRecovered,
    RunResumed,
    RunStarted,
    StopDelayed,
    StopRequested,
    WaitOpened,
)
from pilothouse.core.run.waits import Wait
from pilothouse.interfaces.cli.words import duration, how_to_answer, one_line, short

_TOLD = frozenset(
    {NodeStatus.RUNNING, NodeStatus.SUCCEEDED, NodeStatus.FAILED, NodeStatus.BLOCKED, NodeStatus.CANCELED}
)


def tell(state: PlanState, recorded: Recorded) -> str | None:
    """The line about an event that has just been folded into ``state``; None for one that is not worth a line."""
    match recorded.event:
        case RunStarted():
            nodes = len(state.nodes)
            return f"started: {nodes} node{'' if nodes == 1 else 's'}"
        case TargetOpened(branch=branch, note=note):
            return f"target: {branch}" + (f" ({one_line(note)})" if note else "")
        case AttemptStarted(node_id=node_id, attempt=number, trigger=trigger) if number > 1:
            return f"{name_of(state, node_id)}: attempt {number} ({trigger})"
        case NodeMoved(node_id=node_id, new=new) if new in _TOLD:
            return f"{name_of(state, node_id)}: {_moved(state.nodes[node_id])}"
        case WaitOpened(wait=wait):
            return waiting(state, wait)
        case BudgetReached(node_id=node_id, reason=reason):
            return f"{name_of(state, node_id)}: its agent is ended: {one_line(reason)}"
        case PauseRequested():
            return "pausing: what runs finishes first"
        case Paused():
            return f"paused: `pilothouse plan resume {short(state.common.run_id)}` goes on"
        case RunResumed():
            return "goes on"
        case RunRecovered(lost=lost):
            return "the server was restarted" + (f"; unknown: {', '.join(lost)}" if lost else "")
        case StopRequested():
            return "stopping"
        case CancelRequested():
            return "canceling"
        case StopDelayed(waiting_for=what):
            return f"the stop waits for {', '.join(map(one_line, what))}"
    return None


def _moved(node: NodeState) -> str:
    if node.status is NodeStatus.SUCCEEDED and node.attempt.ended_at is not None:
        return f"succeeded in {duration(node.attempt.ended_at - node.attempt.started_at)}"
    if not node.error:
        return str(node.status)
    error = one_line(node.error)
    return error[:1].lower() + error[1:] if error.lower().startswith(node.status) else f"{node.status}: {error}"


def name_of(state: PlanState, node_id: str) -> str:
    """What people call a node when they ask for it."""
    node = state.nodes.get(node_id)
    return node.node.producer_id if node else node_id


def waiting(state: PlanState, wait: Wait) -> str:
    """What waits for a person, and how to answer."""
    who = f"{name_of(state, wait.scope)}: " if wait.scope else ""
    question = one_line(wait.question)
    answer = how_to_answer(wait.id, wait.options) if wait.options else ""  # some are for time to answer
    said = " ".join(part for part in (question, answer) if part)
    return f"{who}waits for {_A[wait.kind]}{': ' if said else ''}{said}"


_A = {
    "approval": "an approval",
    "takeover": "somebody at the controls",
    "review": "a review",
    "backoff": "its next try",
}


class LineScreen:
    """Progress as lines; each begins with the time since the plan was made."""

    redraws = False

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def show(self, state: PlanState, recorded: Recorded) -> None:
        text = tell(state, recorded)
        if text is not None:
            self._print(f"[{duration(recorded.at - state.common.created_at):>7}] {text}")

    def draw(self, state: PlanState) -> None:
        """Nothing moves between lines."""

    def visible(self, state: PlanState) -> list[str]:
        return []

    def say(self, text: str) -> None:
        self._print(text)

    def output(self, node_id: str, line: str) -> None:
        """The output of nodes is not told."""

    def close(self, state: PlanState) -> None:
        """Nothing is left open."""

    def _print(self, text: str) -> None:
        print(one_line(text), file=self._out, flush=True)
