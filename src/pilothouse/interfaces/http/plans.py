"""Routes of plans and their nodes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.plan.spec import PlanSpec
from pilothouse.core.plan.spec_parse import parse_plan, plan_from_data
from pilothouse.engine.plans.plans import Origin
from pilothouse.engine.services import Services
from pilothouse.interfaces.http.bodies import CancelGroup, RetryNode, RetryPlan, SubmitPlan
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.guard import at_home, only_at_home, principal_of
from pilothouse.interfaces.http.repository import repository_for
from pilothouse.interfaces.http.wire import Json

_BRIEF: dict[str, Any] = {
    "planId": "0192f0c1-…",
    "id": "0192f0c1-…",
    "name": "hello",
    "status": "running",
    "counts": {
        "pending": 2,
        "ready": 0,
        "scheduled": 0,
        "running": 1,
        "succeeded": 0,
        "failed": 0,
        "blocked": 0,
        "canceled": 0,
    },
    "progress": 0,
    "repoPath": "/home/me/project",
    "createdAt": 1767225600000,
}
_NODE = {"id": "0192f0c2-…", "producerId": "build", "name": "build", "status": "running", "dependencies": []}
_VIEW = {**_BRIEF, "targetBranch": "pilothouse/hello", "groups": [], "nodes": [_NODE]}

# A node's producer id is `<group path>/<id>` in nested groups, hence the converter.
_AT_NODE = "/{plan_id}/nodes/{node:path}"


def make_plans(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api/plans", tags=["plans"])
    plans, queries, repos = services.plans, services.queries, services.repos

    @router.post("", status_code=201, responses=answer(_VIEW, "Accepted; it runs", 201))
    async def submit(
        request: Request,
        body: SubmitPlan,
        key: Annotated[
            str | None,
            Header(alias="Idempotency-Key", min_length=1, max_length=200, description="Made anew for each plan."),
        ] = None,
    ) -> Response:
        """Run a plan. Over TCP its repository must be registered. A plan that is refused has left no trace.

        Who does not know whether it was accepted asks again with the same `Idempotency-Key`, and gets the plan that
        exists."""
        principal = principal_of(request)
        if body.register_repo:
            only_at_home(request, "repositories are registered together with a plan")
        spec = await _parse(body)
        repo = await repository_for(request, repos, body.repo_path or spec.repo_path)
        origin = Origin(principal.name, "cli" if at_home(request) else "http")
        plan_id = await plans.submit(spec, origin, repo=repo, update_checkout=body.update_checkout, key=key)
        if body.register_repo:
            await repos.add(repo, principal.name)
        return Json(await queries.plan(plan_id), 201, {"location": f"/api/plans/{plan_id}"})

    @router.get("", responses=answer({"plans": [_BRIEF]}))
    async def list_plans(
        request: Request,
        status: Annotated[str | None, Query(description="A lifecycle in lower case, or `all`.")] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Plans, newest first."""
        return Json({"plans": await queries.plans(status=status, owner=principal_of(request).only, limit=limit)})

    @router.get("/{plan_id}", responses=answer(_VIEW))
    async def show(plan_id: str) -> Response:
        """A plan with its nodes."""
        return Json(await queries.plan(plan_id))

    @router.delete("/{plan_id}", status_code=204)
    async def delete(plan_id: str) -> Response:
        """Delete an ended plan. Uncommitted work in its worktrees is kept under rescue refs."""
        await plans.delete(plan_id)
        return Response(status_code=204)

    @router.get("/{plan_id}/graph", responses=answer({"mermaid": "flowchart TB\n"}))
    async def graph(plan_id: str) -> Response:
        """The plan as a Mermaid graph."""
        return Json({"mermaid": await queries.graph(plan_id)})

    @router.post("/{plan_id}/retry", responses=answer(_VIEW))
    async def retry(plan_id: str, body: RetryPlan | None = None) -> Response:
        """Try what failed again, in a new leg."""
        given = body or RetryPlan()
        await plans.retry(plan_id, tuple(given.nodes), fresh=given.fresh)
        return Json(await queries.plan(plan_id))

    @router.post("/{plan_id}/groups/cancel", responses=answer(_VIEW))
    async def cancel_group(plan_id: str, body: CancelGroup) -> Response:
        """Cancel the nodes of a group; what depends on them is blocked."""
        await plans.cancel_part(plan_id, body.group)
        return Json(await queries.plan(plan_id))

    @router.get(f"{_AT_NODE}/logs", responses=answer({"text": "ok\n", "parts": [], "phase": "all"}))
    async def node_logs(
        plan_id: str,
        node: str,
        phase: Annotated[str | None, Query(description="One phase, or `all`.")] = None,
        attempt: Annotated[int | None, Query(ge=1, description="By number; the last when left out.")] = None,
        tail: Annotated[int | None, Query(ge=1, le=100_000, description="Only the last lines.")] = None,
        raw: Annotated[bool, Query(description="Agents as their programs printed it, not as text.")] = False,
    ) -> Response:
        """What a node's commands printed, and what its agents told."""
        return Json(await queries.node_logs(plan_id, node, phase=phase, attempt=attempt, tail=tail, raw=raw))

    @router.get(f"{_AT_NODE}/diff", responses=answer({"summary": {"commits": 1, "filesAdded": 1}, "diff": "…"}))
    async def node_diff(plan_id: str, node: str) -> Response:
        """What a node changed."""
        return Json(await queries.node_diff(plan_id, node))

    @router.post(f"{_AT_NODE}/cancel", responses=answer(_NODE))
    async def cancel_node(plan_id: str, node: str) -> Response:
        """Cancel a node; what depends on it is blocked."""
        found = await queries.node(plan_id, node)
        await plans.cancel_part(plan_id, found["id"])
        return Json(await queries.node(plan_id, found["id"]))

    @router.post(f"{_AT_NODE}/retry", responses=answer(_NODE))
    async def retry_node(plan_id: str, node: str, body: RetryNode | None = None) -> Response:
        """Try a failed node again."""
        found = await queries.node(plan_id, node)
        await plans.retry(plan_id, (found["id"],), fresh=body is not None and body.fresh)
        return Json(await queries.node(plan_id, found["id"]))

    @router.get(_AT_NODE, responses=answer({**_NODE, "attemptHistory": []}))
    async def show_node(plan_id: str, node: str) -> Response:
        """A node with its attempts. It is named by its id, its producer id, or a name no other node has."""
        return Json(await queries.node(plan_id, node))

    return router


async def _parse(body: SubmitPlan) -> PlanSpec:
    # On a thread: a large file takes longer than a run that is being stopped should wait.
    if body.text is not None:
        return await asyncio.to_thread(parse_plan, body.text)
    return await asyncio.to_thread(plan_from_data, body.plan)
