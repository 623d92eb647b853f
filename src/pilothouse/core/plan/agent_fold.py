"""The fold of what agents tell, of what they use, and of what is waited for.

Nothing is decided here; whose budget is used up is only noted, for ``budgets`` to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.core.plan.agent_events import (
    AgentAnswered,
    AgentEvent,
    AgentFileEdited,
    AgentNoted,
    AgentReasoning,
    AgentSessionStarted,
    AgentText,
    AgentToolEnded,
    AgentToolStarted,
    AgentUsed,
    BudgetReached,
)
from pilothouse.core.plan.approvals import REFUSE, answered, question_of
from pilothouse.core.plan.budgets import node_spent, plan_spent, spent, time_left, too_many_turns
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.intents import phase_spec
from pilothouse.core.plan.phases import COMMANDS, Phase, PhaseStatus, Trigger
from pilothouse.core.plan.resume import conversation, trouble
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.plan.state import AgentRun, NodeState, PhaseState, PlanState, answer_key, timer_key
from pilothouse.core.run.agents import ToolStatus
from pilothouse.core.run.contract import Timer
from pilothouse.core.run.events import Event, NeedsApproval, RunRecovered, WaitClosed, WaitOpened
from pilothouse.core.run.usage import Tally
from pilothouse.core.run.waits import WaitKind

Fold = Callable[[PlanState, Any, int], None]


def agent_begins(state: PlanState, node: NodeState, phase: Phase) -> AgentRun | None:
    """What there is of an agent when its phase begins, also when it may not go on; None where none works."""
    spec = phase_spec(node, phase) if phase in COMMANDS else None
    if not isinstance(spec, AgentSpec):
        return None
    before = node.attempt.phases.get(phase)
    used = before.agent.usage if before is not None and before.agent is not None else Tally()
    time_left_ms, time_budget = time_left(state, node)
    if reason := spent(state, node):
        state.over[node.node.id] = reason  # by what was told together with the intent to begin
    return AgentRun(
        name=spec.agent,
        session_id=conversation(node, phase, spec),
        model=spec.model,
        usage=used,
        trouble=trouble(node, phase),
        time_left_ms=time_left_ms,
        time_budget=time_budget,
    )


def _phase_of(state: PlanState, event: AgentEvent) -> PhaseState | None:
    return state.nodes[event.node_id].attempts[event.attempt - 1].phases.get(event.phase)


def _told(state: PlanState, event: AgentEvent, at: int) -> None:
    _read(state, event)


def _read(state: PlanState, event: AgentEvent) -> AgentRun | None:
    phase = _phase_of(state, event)
    if phase is None or phase.agent is None:
        return None
    phase.agent.read_to = max(phase.agent.read_to, event.to)
    return phase.agent


def _session_started(state: PlanState, event: AgentSessionStarted, at: int) -> None:
    if (agent := _read(state, event)) is not None:
        agent.session_id, agent.spoke = event.session_id, True
        agent.model = event.model or agent.model


def _tool_started(state: PlanState, event: AgentToolStarted, at: int) -> None:
    if (agent := _read(state, event)) is not None:
        agent.tools[event.call_id] = event.tool


def _tool_ended(state: PlanState, event: AgentToolEnded, at: int) -> None:
    if (agent := _read(state, event)) is not None:
        tool = agent.tools.pop(event.call_id, "") or event.tool
        if event.status is ToolStatus.DENIED and tool:
            agent.denied[tool] = None


def _used(state: PlanState, event: AgentUsed, at: int) -> None:
    node = state.nodes[event.node_id]
    agent = _read(state, event)
    if agent is not None:
        agent.usage.add(event.model, event.usage)
        agent.turns += event.usage.turns
        agent.model = agent.model or event.model  # small helpers of the agent have models of their own
    node.usage.add(event.model, event.usage)
    node.used += event.usage
    state.usage.add(event.model, event.usage)
    state.used += event.usage
    _note_spenders(state, node, event.phase)


def _note_spenders(state: PlanState, node: NodeState, phase: Phase) -> None:
    """The plan's budget is noted once, for every agent at work: none begins after that."""
    if _at_work(node, phase) and (reason := node_spent(node) or _turns_spent(node, phase)):
        state.over.setdefault(node.node.id, reason)
    if not state.budget_spent and (reason := plan_spent(state)):
        state.budget_spent = True
        for effect in state.open.values():
            if isinstance(effect, RunWork) and _at_work(state.nodes[effect.node_id], effect.phase):
                state.over.setdefault(effect.node_id, reason)


def _at_work(node: NodeState, phase: Phase) -> bool:
    if not node.attempts or node.attempt.over_budget:
        return False
    now = node.attempt.phases.get(phase)
    return now is not None and now.agent is not None and now.status is PhaseStatus.RUNNING


def _turns_spent(node: NodeState, phase: Phase) -> str:
    agent = node.attempt.phases[phase].agent
    spec = phase_spec(node, phase)
    return too_many_turns(spec, agent.turns) if agent is not None and isinstance(spec, AgentSpec) else ""


def _budget_reached(state: PlanState, event: BudgetReached, at: int) -> None:
    state.over.pop(event.node_id, None)
    state.nodes[event.node_id].attempt.over_budget = event.reason


def _wait_opened(state: PlanState, event: WaitOpened, at: int) -> None:
    wait = state.common.waits[event.wait.id]
    node = state.nodes.get(wait.scope)
    if node is not None:
        held = node.holds_slot
        node.waits[wait.id] = wait.kind
        state.slots += node.holds_slot - held
    if wait.ends_at:
        key = timer_key(wait.id)
        state.timers[key] = Timer(key=key, until=wait.ends_at)


def _needs_approval(state: PlanState, event: NeedsApproval, at: int) -> None:
    effect = state.open_effect(event.wait.scope)
    assert isinstance(effect, RunWork)
    agent = state.nodes[effect.node_id].attempt.phases[effect.phase].agent
    assert agent is not None
    agent.read_to = max(agent.read_to, event.to)
    agent.asked[event.wait.id] = event.action
    state.questions[event.wait.id] = question_of(effect, event)
    _wait_opened(state, event, at)


def _wait_closed(state: PlanState, event: WaitClosed, at: int) -> None:
    state.timers.pop(timer_key(event.wait_id), None)
    node = state.nodes.get(event.scope)
    if node is not None:
        held = node.holds_slot
        kind = node.waits.pop(event.wait_id, None)
        state.slots += node.holds_slot - held
        if kind is WaitKind.BACKOFF:
            node.next_trigger = Trigger.BACKOFF
    question = state.questions.pop(event.wait_id, None)
    if question is not None and event.answer:
        state.housekeeping[question.key] = answered(question, event.answer)
        if event.answer == REFUSE and node is not None:
            for agent in node.attempt.agents:
                if event.wait_id in agent.asked:
                    agent.denied[agent.asked[event.wait_id]] = None


def _agent_answered(state: PlanState, event: AgentAnswered, at: int) -> None:
    state.housekeeping.pop(answer_key(event.wait_id), None)


def phase_over(state: PlanState, node: NodeState, phase: PhaseState) -> None:
    """Its agent, if it had one, has ended: nothing has to end it, and nobody waits for answers any more."""
    state.over.pop(node.node.id, None)
    if phase.agent is not None:
        phase.agent.tools.clear()
        for wait_id in phase.agent.asked:
            state.housekeeping.pop(answer_key(wait_id), None)


def _recovered(state: PlanState, event: RunRecovered, at: int) -> None:
    for key in event.adopted:
        effect = state.open.get(key)
        if isinstance(effect, RunWork):
            agent = state.nodes[effect.node_id].attempt.phases[effect.phase].agent
            read_to = agent.read_to if agent is not None else 0
            state.open[key] = msgspec.structs.replace(effect, adopted=True, read_to=read_to)


FOLDS: dict[type[Event], Fold] = {
    AgentSessionStarted: _session_started,
    AgentText: _told,
    AgentReasoning: _told,
    AgentToolStarted: _tool_started,
    AgentToolEnded: _tool_ended,
    AgentFileEdited: _told,
    AgentNoted: _told,
    AgentUsed: _used,
    BudgetReached: _budget_reached,
    NeedsApproval: _needs_approval,
    AgentAnswered: _agent_answered,
    WaitOpened: _wait_opened,
    WaitClosed: _wait_closed,
    RunRecovered: _recovered,
}
