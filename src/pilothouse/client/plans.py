"""Calls about plans and workflows. Plans, nodes and workflows are the JSON of the HTTP routes, names in camelCase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.client.flows import Flow, Now, Pause, ask, get, given, post, segment
from pilothouse.client.keys import fresh_key
from pilothouse.errors import BadInput, Unavailable

Json = dict[str, Any]

ENDED = frozenset({"stopped", "succeeded", "partial", "failed", "canceled"})
_SUBMIT_S = 120.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def submit(
    plan: Json | str,
    *,
    repo_path: str | None = None,
    update_checkout: bool = False,
    register_repo: bool = False,
    key: str | None = None,
) -> Flow[Json]:
    """Run a plan, given as data or as the text of a plan file; returns it as soon as it is accepted. ``repo_path`` goes
    before the plan's own. ``key``: submitted again under the same one, it runs once.

    Raises ``BadInput`` naming the field, ``Denied`` for a repository that is not registered."""
    spec = {"text": plan} if isinstance(plan, str) else {"plan": plan}
    body = given(**spec, repoPath=repo_path, updateCheckout=update_checkout or None, registerRepo=register_repo or None)
    submitted: Json = yield from ask("POST", "/api/plans", body, key=key or fresh_key(), timeout=_SUBMIT_S)
    return submitted


def list_plans(*, status: str = "all", limit: int = 100) -> Flow[list[Json]]:
    """Newest first. ``status``: a lifecycle in lower case, or ``all``."""
    found: list[Json] = (yield from get("/api/plans", status=status, limit=limit))["plans"]
    return found


def show(plan_id: str) -> Flow[Json]:
    """A plan with its nodes. Raises ``NotFound``, ``Gone``."""
    plan: Json = yield from get(f"/api/plans/{segment(plan_id)}")
    return plan


def wait(plan_id: str, *, timeout: float | None = None) -> Flow[Json]:
    """The plan once it has ended. Raises ``Unavailable`` when that takes longer than ``timeout`` seconds."""
    begun: float = yield Now()
    pause = _FIRST_PAUSE
    while True:
        row = yield from get(f"/api/runs/{segment(plan_id)}")
        if row["status"] in ENDED:
            return (yield from show(plan_id))
        now: float = yield Now()
        if timeout is not None and now - begun >= timeout:
            raise Unavailable(f"it has not ended within {timeout:g} s: it is {row['status']}")
        yield Pause(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def node(plan_id: str, node: str) -> Flow[Json]:
    """A node with its attempts, by its id or producer id."""
    found: Json = yield from get(_node(plan_id, node))
    return found


def logs(
    plan_id: str,
    node: str,
    *,
    phase: str | None = None,
    attempt: int | None = None,
    tail: int | None = None,
    raw: bool = False,
) -> Flow[str]:
    """What a node's commands printed and its agents told; ``tail``: only so many lines."""
    query = {"phase": phase, "attempt": attempt, "tail": tail, "raw": raw or None}
    text: str = (yield from ask("GET", f"{_node(plan_id, node)}/logs", query=query))["text"]
    return text


def diff(plan_id: str, node: str) -> Flow[str]:
    """What a node changed."""
    text: str = (yield from get(f"{_node(plan_id, node)}/diff"))["diff"]
    return text


def retry(plan_id: str, *, nodes: Sequence[str] | None = None, fresh: bool = False) -> Flow[Json]:
    """Try what failed again, in a new leg; ``fresh``: from the first phase on."""
    plan: Json = yield from post(f"/api/plans/{segment(plan_id)}/retry", given(nodes=nodes, fresh=fresh or None))
    return plan


def cancel_node(plan_id: str, node: str) -> Flow[Json]:
    """Cancel a node; what depends on it is blocked."""
    found: Json = yield from post(f"{_node(plan_id, node)}/cancel")
    return found


def delete(plan_id: str) -> Flow[None]:
    """Delete an ended plan."""
    yield from ask("DELETE", f"/api/plans/{segment(plan_id)}")


def _node(plan_id: str, node: str) -> str:
    return f"/api/plans/{segment(plan_id)}/nodes/{segment(node)}"


def list_workflows() -> Flow[list[Json]]:
    """One's own, the last changed first."""
    found: list[Json] = (yield from get("/api/workflows"))["workflows"]
    return found


def create_workflow(workflow: Json | None = None, *, plan: Json | str | None = None, why: str = "") -> Flow[Json]:
    """Make a workflow of a document, or of a plan. Raises ``BadInput`` naming the field."""
    if (workflow is None) == (plan is None):
        raise BadInput("give a workflow or a plan")
    made: Json = yield from post("/api/workflows", _workflow_body(workflow, plan, why))
    return made


def _workflow_body(workflow: Json | None, plan: Json | str | None, why: str) -> Json:
    key = "text" if isinstance(plan, str) else "plan"
    return given(workflow=workflow, **{key: plan}, why=why or None)


def show_workflow(workflow_id: str, *, version: int | None = None) -> Flow[Json]:
    """A workflow, as it stands or as it was."""
    found: Json = yield from get(_workflow(workflow_id), version=version)
    return found


def replace_workflow(workflow_id: str, workflow: Json, *, version: int, why: str = "") -> Flow[Json]:
    """Replace the document. ``version`` is the one that was seen; raises ``Refused`` when another stands by now."""
    body = given(version=version, workflow=workflow, why=why or None)
    replaced: Json = yield from ask("PUT", _workflow(workflow_id), body)
    return replaced


def edit_workflow(workflow_id: str, operations: Sequence[Json], *, version: int, why: str = "") -> Flow[Json]:
    """Edit by operations, all of them or none."""
    body = given(version=version, operations=list(operations), why=why or None)
    edited: Json = yield from post(f"{_workflow(workflow_id)}/edit", body)
    return edited


def workflow_versions(workflow_id: str, *, before: int | None = None, limit: int = 100) -> Flow[list[Json]]:
    """Who made which version, newest first."""
    found = yield from get(f"{_workflow(workflow_id)}/versions", before=before, limit=limit)
    versions: list[Json] = found["versions"]
    return versions


def revert_workflow(workflow_id: str, *, version: int, to: int) -> Flow[Json]:
    """Go back to an earlier version, which becomes a new one."""
    reverted: Json = yield from post(f"{_workflow(workflow_id)}/revert", {"version": version, "to": to})
    return reverted


def run_workflow(
    workflow_id: str,
    *,
    version: int | None = None,
    repo_path: str | None = None,
    update_checkout: bool = False,
    key: str | None = None,
) -> Flow[Json]:
    """Run a workflow as a plan; returns the plan as soon as it is accepted."""
    body = given(version=version, repoPath=repo_path, updateCheckout=update_checkout or None)
    path = f"{_workflow(workflow_id)}/run"
    plan: Json = yield from ask("POST", path, body, key=key or fresh_key(), timeout=_SUBMIT_S)
    return plan


def workflow_plan(workflow_id: str, *, version: int | None = None) -> Flow[Json]:
    """The plan file that says the same."""
    plan: Json = yield from get(f"{_workflow(workflow_id)}/plan", version=version)
    return plan


def delete_workflow(workflow_id: str) -> Flow[None]:
    """Delete it with all its versions."""
    yield from ask("DELETE", _workflow(workflow_id))


def _workflow(workflow_id: str) -> str:
    return f"/api/workflows/{segment(workflow_id)}"
