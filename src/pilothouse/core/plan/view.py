"""What a plan looks like from outside: the JSON of ``plan show``, of the HTTP routes and of MCP.

Values in, plain JSON data out (camelCase keys, times in milliseconds since the epoch, states in lower case).
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.plan.groups import GroupState
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, WorkSpec
from pilothouse.core.plan.state import AgentRun, Attempt, NodeState, PlanState
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.usage import Tally, usage_view

Json = dict[str, Any]


def plan_view(state: PlanState, row: RunRow) -> Json:
    """The whole of a plan."""
    facts, target, plan = state.facts, state.target, state.plan
    return {
        **plan_brief(row),
        "baseCommit": facts.base_commit,
        "targetBranch": target.branch if target else facts.target_branch,
        "targetCommit": target.commit if target else None,
        "note": target.note if target else "",
        "maxParallel": plan.max_parallel,
        "mergeStrategy": plan.merge_strategy,
        "groups": [_group(state, group_id) for group_id in plan.groups],
        "usage": usage_view(state.usage),
        "nodes": [node_view(state, node) for node in state.nodes.values()],
    }


def plan_brief(row: RunRow) -> Json:
    """A plan in a list, from its row alone."""
    return {
        "planId": row.id,
        "id": row.id,
        "name": row.name,
        "status": row.lifecycle.lower(),
        "counts": {str(status): row.counts.get(status, 0) for status in NodeStatus},
        "progress": row.detail.get("progress", 0),
        "repoPath": row.detail.get("repoPath"),
        "baseBranch": row.detail.get("baseBranch"),
        "baseCommit": row.detail.get("baseCommit"),
        "targetBranch": row.detail.get("targetBranch"),
        "note": row.detail.get("note", ""),
        "error": row.error or None,
        "waits": [msgspec.to_builtins(wait) for wait in row.waits],
        "usage": row.detail.get("usage", {}),
        "createdAt": row.created_at,
        "startedAt": row.started_at,
        "endedAt": row.ended_at,
    }


def _group(state: PlanState, group_id: str) -> Json:
    group = state.plan.groups[group_id]
    value: GroupState | None = state.groups[group_id] if state.groups is not None else None
    return {
        "id": group.id,
        "path": group.path,
        "name": group.name,
        "parent": group.parent,
        "status": value.status if value else "pending",
        "counts": {k: v for k, v in msgspec.to_builtins(value.nodes).items() if v} if value else {},
        "startedAt": value.started_at if value else None,
        "endedAt": value.ended_at if value else None,
    }


def node_view(state: PlanState, node: NodeState) -> Json:
    """One node; ``phases`` are those of its last attempt, ``dependencies`` producer ids."""
    value, last = node.node, node.attempts[-1] if node.attempts else None
    return {
        "id": value.id,
        "producerId": value.producer_id,
        "name": value.name,
        "task": value.task,
        "group": state.plan.groups[value.group].path if value.group else None,
        "status": node.status,
        "dependencies": [state.nodes[parent].node.producer_id for parent in value.dependencies],
        "attempts": len(node.attempts),
        "phases": _phases(last) if last else {},
        "error": node.error or None,
        "waits": [msgspec.to_builtins(state.common.waits[wait_id]) for wait_id in node.waits],
        "startedAt": node.started_at,
        "endedAt": node.ended_at,
        "baseCommit": last.base_commit if last else None,
        "completedCommit": node.completed_commit or (last.completed_commit if last else None),
        "mergedToTarget": last is not None and last.target_commit is not None,
        "worktreePath": last.worktree_path if last and last.worktree_exists else None,
        "rescueRef": next((a.rescue_ref for a in reversed(node.attempts) if a.rescue_ref), None),
        **_agent(value.work, last),
        "usage": usage_view(node.usage),
    }


def _agent(work: WorkSpec | None, attempt: Attempt | None) -> Json:
    """Which agent works, or worked last: of several in one attempt the one that does the work."""
    agents = {phase: state.agent for phase, state in attempt.phases.items() if state.agent} if attempt else {}
    agent = agents.get(Phase.WORK) or next(reversed(agents.values()), None)
    planned = work.agent if isinstance(work, AgentSpec) else None
    return {
        "agent": agent.name if agent else planned,
        "model": (agent.model or None) if agent else None,
        "sessionId": (agent.session_id or None) if agent else None,
        "denied": list(attempt.denied) if attempt else [],
    }


def node_detail(state: PlanState, node: NodeState) -> Json:
    """One node with what it does and every attempt."""
    value = node.node
    return {
        **node_view(state, node),
        "dependents": [state.nodes[child].node.producer_id for child in value.dependents],
        "isLeaf": value.is_leaf,
        "work": _spec(value.work),
        "prechecks": _spec(value.prechecks),
        "postchecks": _spec(value.postchecks),
        "instructions": value.instructions,
        "attemptHistory": [_attempt(value.work, attempt) for attempt in node.attempts],
    }


def _spec(spec: msgspec.Struct | None) -> Any:
    return msgspec.to_builtins(spec) if spec is not None else None


def _attempt(work: WorkSpec | None, attempt: Attempt) -> Json:
    usage = Tally()
    for agent in attempt.agents:
        usage.include(agent.usage)
    phases = _phases(attempt)
    for phase, value in attempt.phases.items():
        if value.agent is not None:
            phases[str(phase)] |= _agent_of(value.agent)
    return {
        "attemptNumber": attempt.number,
        "triggerType": attempt.trigger,
        "status": attempt.status,
        "startedAt": attempt.started_at,
        "endedAt": attempt.ended_at,
        "resumeFromPhase": attempt.resume_from,
        "failedPhase": attempt.failed_phase,
        "error": attempt.error or None,
        "worktreePath": attempt.worktree_path,
        "worktreeExists": attempt.worktree_exists,
        "baseCommit": attempt.base_commit,
        "completedCommit": attempt.completed_commit,
        "targetCommit": attempt.target_commit,
        "rescueRef": attempt.rescue_ref or None,
        **_agent(work, attempt),
        "usage": usage_view(usage),
        "phases": phases,
    }


def _agent_of(agent: AgentRun) -> Json:
    return {
        "agent": agent.name,
        "model": agent.model or None,
        "sessionId": agent.session_id or None,
        "denied": list(agent.denied),
        "usage": usage_view(agent.usage),
    }


def _phases(attempt: Attempt) -> Json:
    return {
        str(phase): {
            "status": value.status,
            "startedAt": value.started_at,
            "endedAt": value.ended_at,
            "error": value.error or None,
            "exitCode": value.exit_code,
            "note": value.note,
            "outputTo": value.output_to,
        }
        for phase, value in attempt.phases.items()
    }


def mermaid(state: PlanState) -> str:
    """The plan as a Mermaid graph, one class per state."""
    lines = ["flowchart TB"]
    for node in state.nodes.values():
        label = node.node.name.replace('"', "'")
        lines.append(f'    n{node.node.order}["{label}"]:::{node.status}')
    lines += [
        f"    n{state.nodes[parent].node.order} --> n{node.node.order}"
        for node in state.nodes.values()
        for parent in node.node.dependencies
    ]
    return "\n".join(lines) + "\n"
