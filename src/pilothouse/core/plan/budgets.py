"""Budgets of nodes and of the plan: what is left of them, and whose agents are to be ended because nothing is.

They bind agents alone: commands go on. Nothing here costs more than the node it is about, whatever the plan's size.
"""

from __future__ import annotations

from pilothouse.core.plan.agent_events import BudgetReached
from pilothouse.core.plan.approvals import withdraw
from pilothouse.core.plan.spec import AgentSpec, WorkSpec
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.run.events import Event
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.usage import NOTHING, Budget, Tally, Usage, exceeded


def node_spent(node: NodeState, more: Usage = NOTHING) -> str:
    """Which of the node's own limits is reached, as a person reads it; empty when none is. ``more`` has been used
    beside what is recorded."""
    return _spent("the node's budget", node.node.budget, node.used, more, node.usage)


def plan_spent(state: PlanState, more: Usage = NOTHING) -> str:
    return _spent("the plan's budget", state.plan.budget, state.used, more, state.usage)


def spent(state: PlanState, node: NodeState, more: Usage = NOTHING) -> str:
    """Why no agent of a node may go on."""
    return node_spent(node, more) or plan_spent(state, more)


def _spent(whose: str, budget: Budget | None, used: Usage, more: Usage, tally: Tally) -> str:
    what = exceeded(budget, used + more if more is not NOTHING else used, tally) if budget is not None else ""
    return f"{whose}: {what}" if what else ""


def refusal(state: PlanState, node: NodeState, spec: WorkSpec | None) -> str:
    """Why work may not even begin; empty when it may."""
    return reached_error(why) if isinstance(spec, AgentSpec) and (why := spent(state, node)) else ""


def reached_error(reason: str) -> str:
    return f"Budget reached: {reason}"


def too_many_turns(spec: AgentSpec, turns: int) -> str:
    """Agents whose command line cannot be told a limit are ended by the first turn beyond it."""
    if spec.max_turns is None or turns <= spec.max_turns:
        return ""
    return f"maxTurns: {spec.max_turns:,} turns are used"


def time_left(state: PlanState, node: NodeState) -> tuple[int, str]:
    """Milliseconds an agent may run, and what is to be said when they are over; (0, "") without a limit."""
    left: list[tuple[int, str]] = []
    owners = (("the node's budget", node.node.budget, node.used), ("the plan's budget", state.plan.budget, state.used))
    for whose, budget, used in owners:
        if budget is not None and budget.time_ms is not None:
            said = f"{whose}: {budget.time_ms / 1000:,.0f} s are used"
            left.append((max(1, budget.time_ms - used.wall_ms), said))
    return min(left, default=(0, ""))


def end_spenders(state: PlanState) -> list[Event]:
    """The agents that go on although their budget, or the plan's, is used up are ended."""
    if not state.over or state.common.lifecycle not in (Lifecycle.RUNNING, Lifecycle.PAUSING):
        return []
    events: list[Event] = []
    for node_id, reason in state.over.items():
        node = state.nodes[node_id]
        if not node.canceling:
            events.append(BudgetReached(node_id=node_id, attempt=node.attempt.number, reason=reason))
            events += withdraw(node)
    return events
