"""From a recorded intent to the effect that carries it out: all a performer needs, looked up once."""

from __future__ import annotations

import re
from typing import Any

from pilothouse.core.plan.effects import AddWorktree, CommitWork, MergeForward, MergeIntoTarget, PhaseEffect, RunWork
from pilothouse.core.plan.events import PhaseStarted
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, WorkSpec
from pilothouse.core.plan.state import AgentRun, NodeState, PlanState


def slug(name: str) -> str:
    """A plan's name as part of a branch name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "plan"


def made_branch(name: str, number: int = 1) -> str:
    """The branch a plan makes when none is asked for; ``number`` when earlier ones are taken."""
    stem = f"pilothouse/{slug(name)}"
    return stem if number == 1 else f"{stem}-{number}"


def phase_key(node: NodeState, phase: Phase) -> str:
    """The key of the next try of a phase of the present attempt. A further try is another effect: the first
    one's outcome is remembered for ever under its own key."""
    attempt = node.attempt
    tries = attempt.phases[phase].tries if phase in attempt.phases else 0
    return try_key(node.node.id, attempt.number, phase, tries + 1)


def try_key(node_id: str, attempt: int, phase: Phase, number: int) -> str:
    """The key of one try of a phase, from 1."""
    key = f"{node_id}/{attempt}/{phase}"
    return key if number == 1 else f"{key}.{number}"


def output_of(run_id: str, key: str) -> str:
    """Where what the command of a phase prints goes."""
    return f"{run_id}/{key}"


def phase_spec(node: NodeState, phase: Phase) -> WorkSpec | None:
    """What the user wants run in a phase."""
    if phase is Phase.WORK:
        return node.node.work
    return node.node.prechecks if phase is Phase.PRECHECKS else node.node.postchecks


def phase_effect(state: PlanState, event: PhaseStarted) -> PhaseEffect:
    """The effect of a phase whose intent was just recorded."""
    node = state.nodes[event.node_id]
    attempt = node.attempt
    facts = state.facts
    spot: dict[str, Any] = {
        "key": event.key,
        "node_id": event.node_id,
        "attempt": event.attempt,
        "phase": event.phase,
        "repo": facts.repo_path,
    }
    match event.phase:
        case Phase.MERGE_FI:
            parents = [state.nodes[parent] for parent in node.node.dependencies]
            return MergeForward(
                **spot,
                commits=tuple(parent.completed_commit or facts.base_commit for parent in parents),
                names=tuple(parent.node.producer_id for parent in parents),
                message=f"Merge the dependencies of {node.node.producer_id}",
                pin=state.pin(node.node, attempt.number) if node.node.is_coordination else None,
            )
        case Phase.SETUP:
            return AddWorktree(
                **spot,
                path=attempt.worktree_path,
                commit=attempt.base_commit or facts.base_commit,
                place_key=f"{state.common.run_id}/{event.node_id}/{event.attempt}",
            )
        case Phase.COMMIT:
            return CommitWork(
                **spot,
                path=attempt.worktree_path,
                baseline=attempt.base_commit or facts.base_commit,
                message=_commit_message(node),
                expects_no_changes=node.node.expects_no_changes or node.node.work is None,
                pin=state.pin(node.node, attempt.number),
            )
        case Phase.MERGE_RI:
            assert state.target is not None
            source = state.result_of(attempt)
            return MergeIntoTarget(
                **spot,
                branch=state.target.branch,
                base=facts.base_commit,
                source=source,
                name=node.node.producer_id,
                message=_merge_message(state, node, source),
                strategy=state.plan.merge_strategy,
                merged=tuple(state.merged),
                pin=state.merged_pin(node.node, source),
                update_checkout=facts.update_checkout,
            )
        case Phase.PRECHECKS | Phase.WORK | Phase.POSTCHECKS:
            spec = phase_spec(node, event.phase)
            assert spec is not None
            agent = attempt.phases[event.phase].agent
            return RunWork(
                **spot,
                spec=spec,
                place=attempt.place,
                path=attempt.worktree_path,
                output=output_of(state.common.run_id, event.key),
                plan_env={**state.plan.env, **node.node.env},
                inherit_env=state.plan.inherit_env,
                plan_id=state.common.run_id,
                producer_id=node.node.producer_id,
                task=node.node.task,
                instructions=node.node.instructions,
                sandbox=state.plan.sandbox,
                **({} if agent is None else _agent_fields(state, spec, agent)),
            )


def _agent_fields(state: PlanState, spec: WorkSpec, agent: AgentRun) -> dict[str, Any]:
    asked = spec.permissions if isinstance(spec, AgentSpec) else None
    return {
        "permissions": asked or state.plan.permissions,
        "approval_timeout_ms": state.plan.approval_timeout_ms,
        "session_id": agent.session_id,
        "trouble": agent.trouble,
        "time_left_ms": agent.time_left_ms,
    }


def _commit_message(node: NodeState) -> str:
    subject, _, rest = node.node.task.strip().partition("\n")
    return f"[Plan] {subject.strip()[:200]}\n\n{rest.strip()}".strip()


def _merge_message(state: PlanState, node: NodeState, commit: str) -> str:
    return (
        f"Plan {state.common.name}: merge {node.node.producer_id} (commit {commit[:8]})\n\n"
        f"{node.node.task.strip()}\n\n"
        f"Pilothouse-Plan: {state.common.run_id}\nPilothouse-Node: {node.node.producer_id}"
    )
