"""What is unknown after a crash, and what follows from that.

* Git phases are simply performed again: they find out from refs and worktrees what has been done.
* A command the executor still knows is adopted: it is followed from there, and never started again.
* A command that this very life of the executor was given and does not know was never started: it is started now.
* Any other command is lost. Checks run again; an agent's work goes on where its conversation was; other work follows
  its ``onInterrupted``: it reruns in a clean worktree, or a person says what happened. None of that is repeated for
  ever, see ``LOST_OFTEN``.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from pilothouse.core.plan.approvals import withdraw
from pilothouse.core.plan.budgets import refusal
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.events import PhaseEnded
from pilothouse.core.plan.flow import fail, interrupt, out_of_budget, start
from pilothouse.core.plan.phases import Phase, PhaseStatus
from pilothouse.core.plan.resume import after_interruption, keeps_conversation
from pilothouse.core.plan.spec import OnInterrupted
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.run.events import Event, RunRecovered, WaitOpened
from pilothouse.core.run.inputs import Recover
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import Wait, WaitKind

REVIEW_ANSWERS = ("rerun", "accept", "fail")

LOST_OFTEN = 3
"""What is lost this often in a row may be what takes its executor down, so it is not simply begun once more."""


def recover(state: PlanState, given: Recover) -> list[Event]:
    """A new owner has the run: sort its open commands into adopted, never started and lost."""
    adopted: list[str] = []
    gone: list[RunWork] = []
    for effect in state.open.values():
        if not isinstance(effect, RunWork):
            continue
        if command_key(state.common.run_id, effect.key) in given.known:
            adopted.append(effect.key)
        elif state.nodes[effect.node_id].attempt.place != given.instance:
            gone.append(effect)
    recovered = RunRecovered(epoch=given.epoch, adopted=tuple(adopted), lost=tuple(effect.key for effect in gone))
    return [recovered, *(event for effect in gone for event in lost(state, effect))]


def _lost_in_a_row(node: NodeState) -> int:
    """How many attempts, this one included, were lost one after the other."""
    before = takewhile(lambda attempt: attempt.status is PhaseStatus.UNKNOWN, reversed(node.attempts[:-1]))
    return 1 + sum(1 for _ in before)


def command_key(run_id: str, key: str) -> str:
    """What the executor calls a command: unique over all runs."""
    return f"{run_id}/{key}"


def lost(state: PlanState, effect: RunWork) -> list[Event]:
    """Nobody knows how a command ended."""
    return [*withdraw(state.nodes[effect.node_id]), *_after_loss(state, effect)]


def _after_loss(state: PlanState, effect: RunWork) -> list[Event]:
    node = state.nodes[effect.node_id]
    spot: dict[str, Any] = {"node_id": effect.node_id, "attempt": effect.attempt, "phase": effect.phase}
    if (reason := node.attempt.over_budget) and not (node.canceling or state.common.final):
        return out_of_budget(node, effect.phase, reason)
    if node.canceling or state.common.lifecycle is Lifecycle.STOPPING:
        # It was to be ended, and it has: that is all there is to know.
        resume = after_interruption(node, effect.phase)
        return [PhaseEnded(**spot, status=PhaseStatus.INTERRUPTED), *interrupt(state, node, resume)]
    unknown = PhaseEnded(**spot, status=PhaseStatus.UNKNOWN, error="Outcome unknown: its executor was lost")
    if effect.phase is not Phase.WORK:
        if node.attempt.phases[effect.phase].tries >= LOST_OFTEN:
            return [unknown, *fail(node, effect.phase, f"Lost {LOST_OFTEN} times in a row; it may be the cause")]
        if refused := refusal(state, node, effect.spec):
            return [unknown, *fail(node, effect.phase, refused)]
        return [unknown, start(node, effect.phase)]
    if keeps_conversation(node, effect.phase) and _lost_in_a_row(node) < LOST_OFTEN:
        return [unknown, *interrupt(state, node, effect.phase, PhaseStatus.UNKNOWN)]
    if effect.spec.on_interrupted is OnInterrupted.RERUN and _lost_in_a_row(node) < LOST_OFTEN:
        return [unknown, *interrupt(state, node, None, PhaseStatus.UNKNOWN)]
    wait = Wait(
        id=f"{effect.key}/review".replace("/", "."),  # it stands in URLs
        kind=WaitKind.REVIEW,
        scope=effect.node_id,
        question=f"{node.node.producer_id} was interrupted and nobody knows how far it came. What now?",
        options=REVIEW_ANSWERS,
        detail={
            "phase": str(effect.phase),
            "node": node.node.producer_id,
            "attempt": effect.attempt,
            "worktreePath": node.attempt.worktree_path,
        },
    )
    return [unknown, WaitOpened(wait=wait)]
