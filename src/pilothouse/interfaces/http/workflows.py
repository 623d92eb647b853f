"""Routes of workflows: documents, their versions, and running one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.plan.spec_parse import parse_plan, plan_from_data
from pilothouse.core.workflow.document import Workflow, workflow_data
from pilothouse.core.workflow.from_plan import workflow_from_plan
from pilothouse.core.workflow.history import Note
from pilothouse.core.workflow.operations import read_operations
from pilothouse.core.workflow.reading import read_workflow
from pilothouse.engine.plans.workflows import StoredWorkflow
from pilothouse.engine.services import Services
from pilothouse.interfaces.http.bodies import (
    MAX_VERSION,
    CreateWorkflow,
    EditWorkflow,
    Noted,
    ReplaceWorkflow,
    RevertWorkflow,
    RunWorkflow,
)
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import principal_of
from pilothouse.interfaces.http.repository import repository_for
from pilothouse.interfaces.http.wire import Json

_REVISION: dict[str, Any] = {
    "kind": "edited",
    "by": "local",
    "why": "",
    "chatId": None,
    "messageId": None,
    "revertedTo": None,
    "changes": {"blocksAdded": ["test"], "edgesAdded": [{"source": "build", "target": "test"}], "renamed": False},
}
_VERSION: dict[str, Any] = {
    "id": "0192f0c3-…",
    "version": 2,
    "owner": "local",
    "createdAt": 1767225600000,
    "updatedAt": 1767225660000,
    "revision": _REVISION,
}
_GLANCE = {**_VERSION, "name": "hello", "blocks": 2, "edges": 1}
_VIEW = {
    **_VERSION,
    "workflow": {
        "name": "hello",
        "blocks": [{"id": "build", "type": "shell", "task": "Build it", "config": {"command": "make"}}],
        "edges": [],
        "options": {},
    },
}
_PLAN = {"name": "hello", "jobs": [{"producerId": "build", "task": "Build it", "work": {"type": "shell"}}]}

_AT = "/{workflow_id}"
_WhichVersion = Annotated[int | None, Query(ge=1, le=MAX_VERSION, description="The one that stands when left out.")]


def make_workflows(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/workflows", tags=["workflows"])
    workflows, queries, repos = services.workflows, services.queries, services.repos

    @router.get("", responses=answer({"workflows": [_GLANCE]}))
    async def list_workflows(request: Request) -> Response:
        """One's workflows, the last changed first."""
        return Json({"workflows": await workflows.list(principal_of(request))})

    @router.post("", status_code=201, responses=answer(_VIEW, "Made", 201))
    async def create(request: Request, body: CreateWorkflow) -> Response:
        """Make a workflow, of nothing but a name or of a whole document, or of a plan."""
        workflow = await asyncio.to_thread(_read, body)
        made = await workflows.create(workflow, principal_of(request), _note(body))
        return Json(_view(made), 201, {"location": f"/api/workflows/{made.id}"})

    @router.get(_AT, responses=answer(_VIEW))
    async def show(request: Request, workflow_id: str, version: _WhichVersion = None) -> Response:
        """A workflow, as it stands or as it was."""
        return Json(_view(await workflows.get(workflow_id, principal_of(request), version)))

    @router.put(_AT, responses=answer(_VIEW))
    async def replace(request: Request, workflow_id: str, body: ReplaceWorkflow) -> Response:
        """Replace the whole document, as a new version."""
        workflow = await asyncio.to_thread(read_workflow, body.workflow)
        replaced = await workflows.replace(workflow_id, principal_of(request), body.version, workflow, _note(body))
        return Json(_view(replaced))

    @router.delete(_AT, status_code=204)
    async def delete(request: Request, workflow_id: str) -> Response:
        """Delete a workflow with all its versions. Plans that were made of it stay."""
        await workflows.delete(workflow_id, principal_of(request))
        return Response(status_code=204)

    @router.post(f"{_AT}/edit", responses=answer(_VIEW))
    async def edit(request: Request, workflow_id: str, body: EditWorkflow) -> Response:
        """Edit by operations, all of them or none; `revision.changes` says what they changed."""
        operations = await asyncio.to_thread(read_operations, body.operations)
        edited = await workflows.edit(workflow_id, principal_of(request), body.version, operations, _note(body))
        return Json(_view(edited))

    @router.get(f"{_AT}/versions", responses=answer({"versions": [_GLANCE], "next": None}))
    async def versions(
        request: Request,
        workflow_id: str,
        before: Annotated[int | None, Query(ge=1, le=MAX_VERSION, description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Who made which version, when and why, newest first."""
        found = await workflows.versions(workflow_id, principal_of(request), before=before, limit=limit)
        more = len(found) == limit and found[-1].version > 1
        return Json({"versions": found, "next": found[-1].version if more else None})

    @router.post(f"{_AT}/revert", responses=answer(_VIEW))
    async def revert(request: Request, workflow_id: str, body: RevertWorkflow) -> Response:
        """Go back to an earlier version, which becomes a new one: nothing is lost."""
        note = _note(body)
        return Json(_view(await workflows.revert(workflow_id, principal_of(request), body.version, body.to, note)))

    @router.get(f"{_AT}/plan", responses=answer(_PLAN))
    async def plan(request: Request, workflow_id: str, version: _WhichVersion = None) -> Response:
        """The plan file that says the same."""
        return Json(await workflows.plan_file(workflow_id, principal_of(request), version))

    @router.post(f"{_AT}/run", status_code=201, responses=answer({"planId": "0192f0c1-…"}, "Accepted; it runs", 201))
    async def run(
        request: Request,
        workflow_id: str,
        body: RunWorkflow | None = None,
        key: Annotated[
            str | None,
            Header(alias="Idempotency-Key", min_length=1, max_length=200, description="Made anew for each run."),
        ] = None,
    ) -> Response:
        """Run a workflow as a plan, and answer the plan. Repositories and the key are as for `POST /api/plans`."""
        given, principal = body or RunWorkflow(), principal_of(request)
        compiled = await workflows.compiled(workflow_id, principal, given.version)
        repo = await repository_for(request, repos, given.repo_path or compiled.spec.repo_path)
        plan_id = await workflows.run(compiled, principal, repo=repo, update_checkout=given.update_checkout, key=key)
        return Json(await queries.plan(plan_id), 201, {"location": f"/api/plans/{plan_id}"})

    return router


def _read(body: CreateWorkflow) -> Workflow:
    if body.workflow is not None:
        return read_workflow(body.workflow)
    return workflow_from_plan(parse_plan(body.text) if body.text is not None else plan_from_data(body.plan))


def _note(body: Noted) -> Note:
    return Note(why=body.why, chat_id=body.chat_id, message_id=body.message_id)


def _view(stored: StoredWorkflow) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(stored)
    return {**shown, "workflow": workflow_data(stored.workflow)}
