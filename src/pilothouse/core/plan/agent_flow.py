"""How the work of a phase ended, an agent's above all: success, failure, interruption, a budget, another try later.

An exit code alone says little of an agent; its driver's verdict counts, and what the log says was asked of it. Whether
there is anything to show for its work is judged in the commit phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from pilothouse.core.plan.agent_events import BudgetReached, agent_event
from pilothouse.core.plan.approvals import withdraw
from pilothouse.core.plan.budgets import reached_error, spent
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.events import AttemptEnded, NodeMoved, PhaseEnded
from pilothouse.core.plan.flow import fail, interrupt, judge_exit, out_of_budget, outcome, with_denied
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.recover import lost
from pilothouse.core.plan.resume import after_interruption
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.agents import AgentEnded, Asked, Used
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.events import Event, WaitClosed, WaitOpened
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.usage import NOTHING
from pilothouse.core.run.waits import Wait, WaitKind

TRANSIENT_TRIES = 3
"""Further tries after transient failures in a row."""
LONGEST_BACKOFF_MS = 24 * 60 * 60 * 1000
"""However long a service asks to be left alone."""


def work_ended(state: PlanState, effect: RunWork, result: msgspec.Struct) -> list[Event]:
    """What follows from the end of a command or an agent."""
    node = state.nodes[effect.node_id]
    news = _news(effect, result)
    exit = result.exit if isinstance(result, AgentEnded) else result
    over = node.attempt.over_budget
    if over and not _is_canceled(state, node):
        return [*news, *withdraw(node), *out_of_budget(node, effect.phase, over)]
    if isinstance(exit, Exit) and _unexplained(state, node, exit, done=isinstance(result, AgentEnded) and result.ok):
        return [*news, *lost(state, effect)]
    if isinstance(result, AgentEnded):
        return [*news, *withdraw(node), *_agent_ended(state, node, effect, result)]
    return [*withdraw(node), *outcome(state, effect, result)]


def _news(effect: RunWork, result: msgspec.Struct) -> list[Event]:
    if not isinstance(result, AgentEnded):
        return []
    spot: dict[str, Any] = {"node_id": effect.node_id, "attempt": effect.attempt, "phase": effect.phase}
    to = result.exit.output_to
    return [agent_event(news, **spot, to=to) for news in result.news if not isinstance(news, Asked)]


def _unwanted(state: PlanState, node: NodeState) -> bool:
    return node.canceling or state.common.lifecycle is Lifecycle.STOPPING


def _is_canceled(state: PlanState, node: NodeState) -> bool:
    return node.canceling or state.common.final


def _unexplained(state: PlanState, node: NodeState, exit: Exit, *, done: bool) -> bool:
    """Whether nobody knows how far it came: it was lost, or ended although the log says nothing of that, as by an
    owner that could not write any more. An agent that was ``done`` had only lingered."""
    if exit.reason is ExitReason.CANCELED:
        return not (done or _unwanted(state, node))
    return exit.reason is ExitReason.LOST


def _agent_ended(state: PlanState, node: NodeState, effect: RunWork, result: AgentEnded) -> Sequence[Event]:
    exit, unwanted = result.exit, _unwanted(state, node)
    if unwanted and exit.reason is ExitReason.CANCELED:
        ended = _ended(effect, exit, PhaseStatus.INTERRUPTED)
        return [ended, *interrupt(state, node, after_interruption(node, effect.phase))]
    more = sum((news.usage for news in result.news if isinstance(news, Used)), NOTHING)
    over = spent(state, node, more)
    if result.ok:
        # What it did is done and paid for: a budget that its last words used up keeps others from beginning.
        return [_ended(effect, exit, PhaseStatus.SUCCEEDED, note=reached_error(over) if over else "")]
    if exit.reason is ExitReason.TIMEOUT and _by_budget(effect):
        agent = node.attempt.phases[effect.phase].agent
        reason = over or (agent.time_budget if agent is not None else "")
        reached = BudgetReached(node_id=effect.node_id, attempt=effect.attempt, reason=reason)
        return [reached, *out_of_budget(node, effect.phase, reason)]
    error = judge_exit(effect.phase, exit, result.error)
    if result.transient and not over:
        if unwanted:
            failed = _ended(effect, exit, PhaseStatus.FAILED, error=error)
            return [failed, *interrupt(state, node, effect.phase)]
        if (tries := _retries_in_a_row(node)) < TRANSIENT_TRIES:
            return _back_off(state, effect, result, error, tries)
        error = f"{error} ({tries + 1} tries)"
    error = with_denied(error, node.attempt.denied)
    return [_ended(effect, exit, PhaseStatus.FAILED, error=error), *fail(node, effect.phase, error)]


def _ended(effect: RunWork, exit: Exit, status: PhaseStatus, *, error: str = "", note: str = "") -> Event:
    return PhaseEnded(
        node_id=effect.node_id,
        attempt=effect.attempt,
        phase=effect.phase,
        status=status,
        error=error,
        exit_code=exit.code,
        note=note,
    )


def _by_budget(effect: RunWork) -> bool:
    """Whether the time that was over is that of a budget, not that of the work itself."""
    left, own = effect.time_left_ms, effect.spec.timeout_ms
    return isinstance(effect.spec, AgentSpec) and left > 0 and (not own or left <= own)


# Another try later


def _retries_in_a_row(node: NodeState) -> int:
    return sum(1 for _ in takewhile(lambda attempt: attempt.trigger is Trigger.BACKOFF, reversed(node.attempts)))


def _back_off(state: PlanState, effect: RunWork, result: AgentEnded, error: str, tries: int) -> list[Event]:
    """The phase failed, the attempt goes on when the pause is over: until then the node holds no slot."""
    pause = min(max(state.facts.backoff_ms << tries, result.retry_after_ms), LONGEST_BACKOFF_MS)
    seconds = f"{pause / 1000:g} s"
    wait = Wait(
        id=f"{effect.key}/backoff".replace("/", "."),
        kind=WaitKind.BACKOFF,
        scope=effect.node_id,
        question=f"{effect.producer_id} is tried again after a pause of {seconds}: {error}",
        detail={
            "node": effect.producer_id,
            "phase": str(effect.phase),
            "attempt": effect.attempt,
            "try": tries + 1,
            "error": error,
        },
        lasts_ms=pause,
    )
    failed = _ended(effect, result.exit, PhaseStatus.FAILED, error=f"{error}; next try in {seconds}")
    return [failed, WaitOpened(wait=wait)]


def next_try(state: PlanState, wait: Wait, answer: str = "") -> list[Event]:
    """The pause is over, or somebody ended it (``answer``): the next attempt goes on in the same worktree."""
    node = state.nodes[wait.scope]
    phase, error = Phase(wait.detail["phase"]), wait.detail["error"]
    return [
        WaitClosed(wait_id=wait.id, answer=answer, scope=wait.scope),
        AttemptEnded(
            node_id=wait.scope,
            attempt=node.attempt.number,
            status=PhaseStatus.FAILED,
            error=error,
            failed_phase=phase,
            resume_from=phase,
        ),
        NodeMoved(node_id=wait.scope, old=node.status, new=NodeStatus.READY, reason="next try"),
    ]
