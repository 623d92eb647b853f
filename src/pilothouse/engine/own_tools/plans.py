"""The tools for plans: how they stand, what their nodes printed, stopping and retrying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from pilothouse.core.auth.policy import Action
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.engine.access.access import Access
from pilothouse.engine.chat_ports import Tool
from pilothouse.engine.own_tools.acting import acting_for
from pilothouse.engine.plans.plans import Plans
from pilothouse.engine.plans.shown import brief_shown, plan_shown
from pilothouse.engine.queries import Queries
from pilothouse.engine.runs import Runs
from pilothouse.errors import NotFound

MOST_CHARS = 30_000
"""Of the output of a node in one answer: its end."""

_PlanId = Annotated[str, Meta(description="The id of a plan; the runId of a workflow is one.")]


class ListPlans(Parameters, frozen=True, kw_only=True):
    status: Annotated[str, Meta(description="Only those that are running, stopped, failed, succeeded …")] = "all"
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class GetPlanStatus(Parameters, frozen=True, kw_only=True):
    plan_id: _PlanId


class GetPlanLogs(Parameters, frozen=True, kw_only=True):
    plan_id: _PlanId
    node: Annotated[str, Meta(description="The id of the job.")]
    phase: Annotated[
        Literal["all", "merge-fi", "setup", "prechecks", "work", "commit", "postchecks", "merge-ri"],
        Meta(description="Of it."),
    ] = "all"
    attempt: Annotated[int | None, Meta(description="By default the last one.")] = None
    tail: Annotated[int, Meta(description="How many lines from the end.", ge=1, le=2_000)] = 200


class StopPlan(Parameters, frozen=True, kw_only=True):
    plan_id: _PlanId


class RetryPlan(Parameters, frozen=True, kw_only=True):
    plan_id: _PlanId
    nodes: Annotated[tuple[str, ...], Meta(description="By default all that failed.")] = ()
    fresh: Annotated[bool, Meta(description="Forget what the agent did before.")] = False


class _PlanTool:
    def __init__(self, plans: Plans, runs: Runs, queries: Queries, access: Access) -> None:
        self._plans = plans
        self._runs = runs
        self._queries = queries
        self._access = access

    async def _require(self, plan_id: str, action: Action, context: ToolContext) -> None:
        """Raises ``NotFound`` for what is no plan of this user."""
        await self._access.require(acting_for(context), action, plan_id)
        if (await self._queries.run(plan_id)).kind != PlanKind.name:
            raise NotFound(f"there is no plan {plan_id}")

    async def _shown(self, plan_id: str) -> ToolAnswer:
        return ToolAnswer(ok=True, result=plan_shown(await self._queries.plan(plan_id)))


class ListPlansTool(_PlanTool):
    spec = ToolSpec(
        name="list_plans",
        description='List the user\'s plans, newest first. Example: {"status": "running"}',
        parameters=schema_of(ListPlans),
        touches=Touches.NOTHING,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(ListPlans, arguments)
        found = await self._queries.plans(status=given.status, owner=context.owner, limit=given.limit)
        return ToolAnswer(ok=True, result={"plans": [brief_shown(one) for one in found]})


class GetPlanStatusTool(_PlanTool):
    spec = ToolSpec(
        name="get_plan_status",
        description='How a plan stands: its status, and each node\'s with its error. Example: {"planId": "0192f0c1-…"}',
        parameters=schema_of(GetPlanStatus),
        touches=Touches.NOTHING,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(GetPlanStatus, arguments)
        await self._require(given.plan_id, Action.READ_RUNS, context)
        return await self._shown(given.plan_id)


class GetPlanLogsTool(_PlanTool):
    spec = ToolSpec(
        name="get_plan_logs",
        description=(
            "The last lines that a node of a plan printed, or what its agent told. "
            'Example: {"planId": "0192f0c1-…", "node": "test", "tail": 50}'
        ),
        parameters=schema_of(GetPlanLogs),
        touches=Touches.NOTHING,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(GetPlanLogs, arguments)
        await self._require(given.plan_id, Action.READ_RUNS, context)
        found = await self._queries.node_logs(
            given.plan_id, given.node, phase=given.phase, attempt=given.attempt, tail=given.tail
        )
        text = found["text"]
        cut = f"… ({len(text) - MOST_CHARS:,} characters before)\n" if len(text) > MOST_CHARS else ""
        return ToolAnswer(ok=True, result={"node": given.node, "text": f"{cut}{text[-MOST_CHARS:]}"})


class StopPlanTool(_PlanTool):
    spec = ToolSpec(
        name="stop_plan",
        description='Stop a plan: whatever it runs is ended. It can be retried. Example: {"planId": "0192f0c1-…"}',
        parameters=schema_of(StopPlan),
        touches=Touches.RUNS,
        idempotent=True,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(StopPlan, arguments)
        await self._require(given.plan_id, Action.CONTROL_RUNS, context)
        await self._runs.control(given.plan_id, "stop")
        return await self._shown(given.plan_id)


class RetryPlanTool(_PlanTool):
    spec = ToolSpec(
        name="retry_plan",
        description='Retry failed nodes of a plan, and what they block. Example: {"planId": "…", "nodes": ["test"]}',
        parameters=schema_of(RetryPlan),
        touches=Touches.RUNS,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(RetryPlan, arguments)
        await self._require(given.plan_id, Action.CONTROL_RUNS, context)
        await self._plans.retry(given.plan_id, given.nodes, fresh=given.fresh)
        return await self._shown(given.plan_id)


def plan_tools(plans: Plans, runs: Runs, queries: Queries, access: Access) -> Iterable[Tool]:
    """All of them."""
    kinds = (ListPlansTool, GetPlanStatusTool, GetPlanLogsTool, StopPlanTool, RetryPlanTool)
    return [kind(plans, runs, queries, access) for kind in kinds]
