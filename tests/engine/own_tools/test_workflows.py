"""Tools for workflows and plans: what they do is the user's own, a checkpoint, and done once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs
from tests.support.services import PATIENCE_S, REPO, World, ended, submit

from pilothouse.core.auth.principals import THE_LOCAL_USER
from pilothouse.core.tools.spec import ToolAnswer, ToolContext
from pilothouse.engine.own_tools.plans import plan_tools
from pilothouse.engine.own_tools.workflow_runs import workflow_run_tools
from pilothouse.engine.own_tools.workflows import CreateWorkflowTool, EditWorkflowTool, workflow_tools
from pilothouse.engine.services import Services
from pilothouse.engine.tools.registry import ToolRegistry

CALL = ToolContext(owner="local", turn_id="t1", chat_id="c1", message_id="m1", call_id="call-1")
STRANGER = ToolContext(owner="bob", turn_id="t2", call_id="call-1")
BLOCK = {"id": "hello", "type": "shell", "task": "Greet", "config": {"command": "write hello.txt"}}

Call = Callable[..., Awaitable[ToolAnswer]]


def told(story: Callable[[Services, Call], Awaitable[None]]) -> None:
    async def journey() -> None:
        async with World().engine() as services:
            await services.repos.add(REPO, "local")
            registry = ToolRegistry(
                [
                    *workflow_tools(services.workflows),
                    *workflow_run_tools(services.workflows, services.repos, services.queries, services.access),
                    *plan_tools(services.plans, services.runs, services.queries, services.access),
                ]
            )

            async def call(tool: str, context: ToolContext = CALL, /, **arguments: Any) -> ToolAnswer:
                return await registry.run(tool, arguments, context)

            await story(services, call)

    asyncio.run(asyncio.wait_for(journey(), 2 * PATIENCE_S))


def test_a_workflow_is_created_edited_and_reverted_and_every_step_says_which_message_asked_for_it() -> None:
    async def story(services: Services, call: Call) -> None:
        made = await call("create_workflow", name="greetings", blocks=[BLOCK], why="asked for")
        assert made.ok
        assert made.workflow_id == made.result["workflowId"]
        assert made.result["changes"] == {"blocksAdded": ("hello",)}
        within = ToolContext(
            owner="local", turn_id="t1", chat_id="c1", message_id="m2", workflow_id=made.workflow_id, call_id="2"
        )
        operations = [{"op": "add_block", "block": {**BLOCK, "id": "ahoy"}, "after": ["hello"]}]
        edited = await call("edit_workflow", within, operations=operations, version=1)
        assert edited.result["version"] == 2
        assert edited.workflow_id == ""
        assert [block["id"] for block in (await call("get_workflow", within)).result["blocks"]] == ["hello", "ahoy"]
        assert (await call("revert_workflow", within, to=1)).result["version"] == 3
        versions = await services.workflows.versions(made.workflow_id, THE_LOCAL_USER)
        assert [(one.version, one.revision.chat_id, one.revision.message_id) for one in versions] == [
            (3, "c1", "m2"),
            (2, "c1", "m2"),
            (1, "c1", "m1"),
        ]
        listed = (await call("list_workflows")).result
        assert (listed["total"], listed["workflows"][0]["version"], listed["workflows"][0]["blocks"]) == (1, 3, 1)

    told(story)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("create_workflow", {}, "name: is required"),
        ("create_workflow", {"name": "x", "blocks": [{"id": "a", "type": "shell"}]}, "blocks[0].task"),
        ("create_workflow", {"name": "x", "blocks": "no"}, "blocks: expected"),
        ("create_workflow", {"name": "x", "steps": []}, "steps: there is no such parameter"),
        ("edit_workflow", {"operations": [{"op": "rename", "to": "y"}]}, "workflowId: is required"),
        ("edit_workflow", {"workflowId": "none", "operations": [{"op": "explode"}]}, "operations[0].op"),
        ("edit_workflow", {"workflowId": "none", "operations": [{"op": "rename", "to": "y"}]}, "there is no workflow"),
        ("run_workflow", {"workflowId": "none"}, "there is no workflow"),
        ("get_workflow_run", {"runId": "none"}, "no run"),
        ("get_plan_status", {"planId": "none"}, "no run"),
        ("list_plans", {"status": "odd"}, "is no status"),
    ],
)
def test_what_is_wrong_is_said_to_the_model_with_its_field(tool: str, arguments: dict[str, Any], says: str) -> None:
    async def story(_: Services, call: Call) -> None:
        answer = await call(tool, **arguments)
        assert not answer.ok
        assert says in answer.error

    told(story)


def test_models_are_told_what_blocks_and_operations_are() -> None:
    create, edit = CreateWorkflowTool.spec.parameters["properties"], EditWorkflowTool.spec.parameters["properties"]
    assert "agent" in create["blocks"]["items"]["properties"]["type"]["enum"]
    operations = {one["properties"]["op"]["enum"][0] for one in edit["operations"]["items"]["anyOf"]}
    assert {"add_block", "update_block", "connect", "rename"} <= operations


def test_an_edit_of_what_somebody_changed_meanwhile_is_refused() -> None:
    async def story(_: Services, call: Call) -> None:
        made = (await call("create_workflow", name="x")).result["workflowId"]
        rename = [{"op": "rename", "to": "y"}]
        assert (await call("edit_workflow", workflowId=made, operations=rename, version=1)).ok
        late = await call("edit_workflow", workflowId=made, operations=rename, version=1)
        assert "is at version 2" in late.error

    told(story)


def test_a_run_is_a_plan_of_the_conversation_and_one_call_starts_one() -> None:
    async def story(services: Services, call: Call) -> None:
        made = await call("create_workflow", name="greetings", blocks=[BLOCK], options={"repoPath": REPO})
        started = await call("run_workflow", workflowId=made.workflow_id)
        assert started.ok, started.error
        again = await call("run_workflow", workflowId=made.workflow_id)
        run_id = started.result["runId"]
        assert again.result == started.result
        assert started.runs == (run_id,)
        row = await services.queries.run(run_id)
        assert (row.session_id, row.parent_run_id, row.owner) == ("c1", "t1", "local")
        assert await ended(services, run_id) == "succeeded"
        looked = (await call("get_workflow_run", runId=run_id)).result
        assert (looked["status"], looked["nodes"][0]["node"], looked["nodes"][0]["status"]) == (
            "succeeded",
            "hello",
            "succeeded",
        )
        logs = await call("get_plan_logs", planId=run_id, node="hello", phase="work")
        assert logs.result["text"] == "wrote hello.txt"
        assert [plan["planId"] for plan in (await call("list_plans")).result["plans"]] == [run_id]

    told(story)


def test_a_call_that_has_run_it_says_so_again_whatever_became_of_the_workflow() -> None:
    async def story(services: Services, call: Call) -> None:
        made = await call("create_workflow", name="greetings", blocks=[BLOCK], options={"repoPath": REPO})
        asked = structs.replace(
            CALL, asked_at=(await services.workflows.get(made.workflow_id, THE_LOCAL_USER)).updated_at
        )
        first = await call("run_workflow", asked, workflowId=made.workflow_id)
        assert first.ok
        late = structs.replace(asked, asked_at=0)  # as if it was changed since
        assert await call("run_workflow", late, workflowId=made.workflow_id) == first
        await services.workflows.delete(made.workflow_id, THE_LOCAL_USER)
        assert await call("run_workflow", late, workflowId=made.workflow_id) == first
        assert len((await call("list_plans")).result["plans"]) == 1
        other = await call("run_workflow", structs.replace(late, call_id="call-2"), workflowId=made.workflow_id)
        assert not other.ok

    told(story)


def test_what_is_run_is_no_newer_than_the_question_whether_it_may_be() -> None:
    async def story(services: Services, call: Call) -> None:
        made = await call("create_workflow", name="greetings", blocks=[BLOCK], options={"repoPath": REPO})
        swap = [{"op": "update_block", "id": "hello", "set": {"config": {"command": "write evil.txt"}}}]
        assert (await call("edit_workflow", workflowId=made.workflow_id, operations=swap)).ok
        asked_at = (await services.workflows.get(made.workflow_id, THE_LOCAL_USER)).updated_at - 1
        asked = structs.replace(CALL, asked_at=asked_at)
        late = await call("run_workflow", asked, workflowId=made.workflow_id)
        assert not late.ok
        assert "was changed after a person was asked" in late.error
        assert (await call("list_plans")).result["plans"] == []
        assert (await call("run_workflow", asked, workflowId=made.workflow_id, version=1)).result["version"] == 1
        unnamed = structs.replace(asked, call_id="call-4", workflow_id=made.workflow_id)
        assert "was changed after a person was asked" in (await call("run_workflow", unnamed, version=1)).error
        now = structs.replace(asked, call_id="call-2", asked_at=asked_at + 60_000)
        assert (await call("run_workflow", now, workflowId=made.workflow_id)).result["version"] == 2
        unasked = structs.replace(CALL, call_id="call-3")
        assert (await call("run_workflow", unasked, workflowId=made.workflow_id)).result["version"] == 2

    told(story)


def test_only_a_registered_repository_is_worked_in() -> None:
    async def story(services: Services, call: Call) -> None:
        made = await call("create_workflow", name="greetings", blocks=[BLOCK])
        assert "repoPath: is missing" in (await call("run_workflow", workflowId=made.workflow_id)).error
        relative = await call("run_workflow", workflowId=made.workflow_id, repoPath="repo")
        assert "no absolute path" in relative.error or "not an absolute path" in relative.error
        await services.repos.remove(REPO)
        other = await call("run_workflow", workflowId=made.workflow_id, repoPath=REPO)
        assert "is not a registered repository" in other.error

    told(story)


def test_what_belongs_to_somebody_else_is_not_there() -> None:
    async def story(services: Services, call: Call) -> None:
        made = await call("create_workflow", name="greetings", blocks=[BLOCK])
        plan_id = await submit(services, "write a.txt")
        calls: dict[str, dict[str, Any]] = {
            "get_workflow": {"workflowId": made.workflow_id},
            "edit_workflow": {"workflowId": made.workflow_id, "operations": [{"op": "rename", "to": "y"}]},
            "revert_workflow": {"workflowId": made.workflow_id, "to": 1},
            "run_workflow": {"workflowId": made.workflow_id, "repoPath": REPO},
            "get_workflow_run": {"runId": plan_id},
            "get_plan_status": {"planId": plan_id},
            "get_plan_logs": {"planId": plan_id, "node": "job1"},
            "stop_plan": {"planId": plan_id},
            "retry_plan": {"planId": plan_id},
        }
        for tool, arguments in calls.items():
            answer = await call(tool, STRANGER, **arguments)
            assert not answer.ok
            assert "there is no" in answer.error
        assert (await call("list_workflows", STRANGER)).result["workflows"] == []
        assert (await call("list_plans", STRANGER)).result["plans"] == []

    told(story)


def test_a_plan_is_stopped_and_what_failed_is_retried() -> None:
    async def story(services: Services, call: Call) -> None:
        hanging = await submit(services, "hang")
        assert (await call("get_plan_status", planId=hanging)).result["status"] in ("created", "running")
        assert (await call("stop_plan", planId=hanging)).ok
        assert await ended(services, hanging) == "stopped"
        failing = await submit(services, "fail")
        assert await ended(services, failing) == "failed"
        shown = (await call("get_plan_status", planId=failing)).result
        assert shown["nodes"][0]["error"]
        assert (await call("retry_plan", planId=failing, nodes=["job1"])).ok
        assert await ended(services, failing) == "failed"
        assert "no node" in (await call("get_plan_logs", planId=failing, node="none")).error

    told(story)
