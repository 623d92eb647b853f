"""The tools for workflows as documents: list, get, create, edit, revert. Every change is a version: a checkpoint.

What a workflow is, is the core's; what may be done to one, ``Workflows``'. Running one is ``workflow_run_tools``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.core.workflow.document import workflow_data
from pilothouse.core.workflow.operations import MAX_OPERATIONS, Operation, read_operations
from pilothouse.core.workflow.reading import read_workflow
from pilothouse.engine.chat_ports import Tool
from pilothouse.engine.own_tools.acting import acting_for, note_of, workflow_meant
from pilothouse.engine.plans.workflows import StoredWorkflow, Workflows

_BLOCK = {
    "type": "object",
    "required": ["id", "type", "task"],
    "properties": {
        "id": {"type": "string", "description": "Unique: a-z, 0-9 and -."},
        "type": {
            "enum": ["shell", "process", "agent", "join"],
            "description": "shell and process run a command, agent hands the task to a coding agent, join only waits.",
        },
        "task": {"type": "string", "description": "What is to be done, for people and agents."},
        "config": {
            "type": "object",
            "description": (
                'By type. shell: {"command": "make test"}; process: {"executable": "make", "args": ["test"]}; '
                'agent: {"agent": "claude", "instructions": "...", "maxTurns": 10}; none for join.'
            ),
        },
        "postchecks": {"type": "string", "description": "A shell command that must succeed afterwards."},
        "expectsNoChanges": {"type": "boolean", "description": "It changes no file, and that is right."},
    },
}
_EDGE = {
    "type": "object",
    "required": ["source", "target"],
    "properties": {"source": {"type": "string"}, "target": {"type": "string"}},
}


class _Operations(msgspec.Struct):
    operations: tuple[Operation, ...]


_OPERATION = schema_of(_Operations)["properties"]["operations"]["items"]

_Id = Annotated[str, Meta(description="By default the workflow of this conversation.")]
_Why = Annotated[str, Meta(description="One sentence for the history.", max_length=1000)]
_Seen = Annotated[int, Meta(description="The version you saw, so that nobody's change is overwritten.", ge=1)]
_Json = dict[str, Any]


class ListWorkflows(Parameters, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class GetWorkflow(Parameters, frozen=True, kw_only=True):
    workflow_id: _Id = ""
    version: Annotated[int | None, Meta(description="An earlier version.")] = None


class CreateWorkflow(Parameters, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="A short name.")]
    blocks: Annotated[tuple[Annotated[_Json, Meta(extra_json_schema=_BLOCK)], ...], Meta(description="The steps.")] = ()
    edges: Annotated[
        tuple[Annotated[_Json, Meta(extra_json_schema=_EDGE)], ...],
        Meta(description="target begins when source has succeeded."),
    ] = ()
    options: Annotated[_Json, Meta(description='Of the plan: {"maxParallel": 2, "targetBranch": "feature/x"}.')] = (
        msgspec.field(default_factory=dict)
    )
    why: _Why = ""


class EditWorkflow(Parameters, frozen=True, kw_only=True):
    operations: Annotated[
        tuple[Annotated[_Json, Meta(extra_json_schema=_OPERATION)], ...],
        Meta(description="In order, all or none.", max_length=MAX_OPERATIONS),
    ]
    workflow_id: _Id = ""
    version: _Seen | None = None
    why: _Why = ""


class RevertWorkflow(Parameters, frozen=True, kw_only=True):
    to: Annotated[int, Meta(description="The version to go back to.", ge=1)]
    workflow_id: _Id = ""
    version: _Seen | None = None
    why: _Why = ""


class _WorkflowTool:
    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows

    async def _version(self, seen: int | None, workflow_id: str, context: ToolContext) -> int:
        """The version that a change is made to: what the caller saw, or else what stands."""
        return seen or (await self._workflows.get(workflow_id, acting_for(context))).version


class ListWorkflowsTool(_WorkflowTool):
    spec = ToolSpec(
        name="list_workflows",
        description="List the user's workflows, the last changed first: id, name, version, number of blocks.",
        parameters=schema_of(ListWorkflows),
        touches=Touches.NOTHING,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(ListWorkflows, arguments)
        found = await self._workflows.list(acting_for(context))
        listed = [
            {
                "workflowId": one.id,
                "name": one.name,
                "version": one.version,
                "blocks": one.blocks,
                "edges": one.edges,
                "updatedAt": one.updated_at,
                "why": one.revision.why,
            }
            for one in found[: given.limit]
        ]
        return ToolAnswer(ok=True, result={"workflows": listed, "total": len(found)})


class GetWorkflowTool(_WorkflowTool):
    spec = ToolSpec(
        name="get_workflow",
        description="Get a workflow: its version, blocks, edges and options. Look at it before you edit it.",
        parameters=schema_of(GetWorkflow),
        touches=Touches.NOTHING,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(GetWorkflow, arguments)
        id = workflow_meant(given.workflow_id, context)
        return _shown(await self._workflows.get(id, acting_for(context), given.version))


class CreateWorkflowTool(_WorkflowTool):
    spec = ToolSpec(
        name="create_workflow",
        description=(
            "Create a workflow: a DAG of blocks that can be run as a plan, each block in a git worktree of its own. "
            "search_patterns has examples. Example: "
            '{"name": "checks", "blocks": [{"id": "lint", "type": "shell", "task": "Lint", "config": {"command": '
            '"make lint"}}, {"id": "test", "type": "shell", "task": "Test", "config": {"command": "make test"}}], '
            '"edges": [{"source": "lint", "target": "test"}]}'
        ),
        parameters=schema_of(CreateWorkflow),
        touches=Touches.DOCUMENTS,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(CreateWorkflow, arguments)
        data = {"name": given.name, "blocks": given.blocks, "edges": given.edges, "options": given.options}
        workflow = await asyncio.to_thread(read_workflow, _lists(data))
        return _shown(
            await self._workflows.create(workflow, acting_for(context), note_of(context, given.why)), made=True
        )


class EditWorkflowTool(_WorkflowTool):
    spec = ToolSpec(
        name="edit_workflow",
        description=(
            "Edit a workflow by operations; the answer says what they changed. Every edit can be reverted. Example: "
            '{"operations": [{"op": "add_block", "block": {"id": "docs", "type": "agent", "task": "Update the docs", '
            '"config": {"agent": "claude"}}, "after": ["test"]}], "version": 1}'
        ),
        parameters=schema_of(EditWorkflow),
        touches=Touches.DOCUMENTS,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(EditWorkflow, arguments)
        id = workflow_meant(given.workflow_id, context)
        operations = await asyncio.to_thread(read_operations, list(given.operations))
        version = await self._version(given.version, id, context)
        note = note_of(context, given.why)
        return _shown(await self._workflows.edit(id, acting_for(context), version, operations, note))


class RevertWorkflowTool(_WorkflowTool):
    spec = ToolSpec(
        name="revert_workflow",
        description='Go back to an earlier version of a workflow, which becomes a new one. Example: {"to": 2}',
        parameters=schema_of(RevertWorkflow),
        touches=Touches.DOCUMENTS,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(RevertWorkflow, arguments)
        id = workflow_meant(given.workflow_id, context)
        version = await self._version(given.version, id, context)
        note = note_of(context, given.why)
        return _shown(await self._workflows.revert(id, acting_for(context), version, given.to, note))


def workflow_tools(workflows: Workflows) -> Iterable[Tool]:
    """All of them."""
    kinds = (ListWorkflowsTool, GetWorkflowTool, CreateWorkflowTool, EditWorkflowTool, RevertWorkflowTool)
    return [kind(workflows) for kind in kinds]


def _shown(stored: StoredWorkflow, *, made: bool = False) -> ToolAnswer:
    result = {
        "workflowId": stored.id,
        "version": stored.version,
        **workflow_data(stored.workflow),
        "changes": _said(msgspec.to_builtins(stored.revision.changes)),
    }
    return ToolAnswer(ok=True, result=result, workflow_id=stored.id if made else "")


def _said(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value}


def _lists(data: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it: the readers of workflows know no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}
