"""The tools that run a workflow as a plan, and look at how that goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from pilothouse.core.auth.policy import Action
from pilothouse.core.auth.principals import Principal
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.engine.access.access import Access
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.chat_ports import Tool
from pilothouse.engine.own_tools.acting import acting_for, workflow_meant
from pilothouse.engine.plans.shown import plan_shown
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.engine.queries import Queries
from pilothouse.errors import BadInput, Refused


class RunWorkflow(Parameters, frozen=True, kw_only=True):
    workflow_id: Annotated[str, Meta(description="By default the workflow of this conversation.")] = ""
    version: Annotated[int | None, Meta(description="By default the last one.")] = None
    repo_path: Annotated[str, Meta(description="A registered repository; by default the workflow's, or this one.")] = ""


class GetWorkflowRun(Parameters, frozen=True, kw_only=True):
    run_id: Annotated[str, Meta(description="What run_workflow answered.")]


class RunWorkflowTool:
    spec = ToolSpec(
        name="run_workflow",
        description=(
            "Run a workflow as a plan, in worktrees of a registered repository. Answers the runId at once; the run "
            "goes on by itself: look at it with get_workflow_run. Example: {}"
        ),
        parameters=schema_of(RunWorkflow),
        touches=Touches.RUNS,
        permit=Permit.ASK,
        workflow="workflowId",
        idempotent=True,  # one call is one plan: it is submitted under a key that the call alone has
    )

    def __init__(self, workflows: Workflows, repos: Repos) -> None:
        self._workflows = workflows
        self._repos = repos

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given, principal = read(RunWorkflow, arguments), acting_for(context)
        key = f"{context.turn_id or context.chat_id}.{context.call_id}" if context.call_id else None
        # A call that is made again after a crash has run it, whatever became of the workflow since.
        if key is not None and (begun := await self._workflows.begun(principal, key)) is not None:
            return _started(begun.plan_id, begun.id, begun.version)
        workflow_id = workflow_meant(given.workflow_id, context)
        standing = given.version
        if given.version is None or not given.workflow_id:
            standing = await self._standing(workflow_id, principal, context)
        compiled = await self._workflows.compiled(workflow_id, principal, given.version or standing)
        asked = given.repo_path or compiled.spec.repo_path or context.workspace
        if not asked:
            raise BadInput("is missing", field="repoPath", fix="give a registered repository")
        if not asked.startswith("/"):
            raise BadInput(f"{asked!r} is not an absolute path", field="repoPath", fix="begin with '/'")
        run_id = await self._workflows.run(
            compiled,
            principal,
            repo=await self._repos.require(asked, principal),
            session_id=context.chat_id or None,
            parent_run_id=context.turn_id or None,
            key=key,
        )
        return _started(run_id, workflow_id, compiled.version)

    async def _standing(self, workflow_id: str, principal: Principal, context: ToolContext) -> int:
        """The last version. Raises ``Refused`` for one that was made after a person was asked: whoever asks could
        otherwise change what is run while they look at it."""
        last = await self._workflows.get(workflow_id, principal)
        if context.asked_at is not None and last.updated_at > context.asked_at:
            raise Refused(
                f"the workflow was changed after a person was asked whether it may be run: it is at version"
                f" {last.version} now, and was not run. Call run_workflow again, with that version, so that they are"
                " asked about it"
            )
        return last.version


class GetWorkflowRunTool:
    spec = ToolSpec(
        name="get_workflow_run",
        description='How a run of a workflow goes: its status, and each block\'s. Example: {"runId": "0192f0c1-…"}',
        parameters=schema_of(GetWorkflowRun),
        touches=Touches.NOTHING,
    )

    def __init__(self, queries: Queries, access: Access) -> None:
        self._queries = queries
        self._access = access

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(GetWorkflowRun, arguments)
        await self._access.require(acting_for(context), Action.READ_RUNS, given.run_id)
        return ToolAnswer(ok=True, result={"runId": given.run_id, **plan_shown(await self._queries.plan(given.run_id))})


def workflow_run_tools(workflows: Workflows, repos: Repos, queries: Queries, access: Access) -> Iterable[Tool]:
    """Both."""
    return [RunWorkflowTool(workflows, repos), GetWorkflowRunTool(queries, access)]


def _started(run_id: str, workflow_id: str, version: int) -> ToolAnswer:
    result = {"runId": run_id, "workflowId": workflow_id, "version": version, "status": "started"}
    return ToolAnswer(ok=True, result=result, runs=(run_id,))
