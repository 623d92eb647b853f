"""Every call of the client, asked of the real application."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.interfaces.http.doors import Inside, from_user, inside, run
from tests.interfaces.http.talking import calls, says, talking, tool_of
from tests.support.services import PATIENCE_S, World, plan

from pilothouse.client import chats, plans, runs
from pilothouse.client.address import Address
from pilothouse.client.courses import RunCourse, TurnCourse
from pilothouse.client.decisions import Decision, decide, workflow_of
from pilothouse.client.doors import AsyncDoor
from pilothouse.client.events import ApprovalRequired, ChatEvent, Done, Text
from pilothouse.client.flows import post
from pilothouse.core.chat.calls import GivenResult
from pilothouse.core.tools.spec import Permit
from pilothouse.errors import BadInput, Gone, NotFound, Refused, Unavailable

FLOW = {"name": "wave", "blocks": [{"id": "a", "type": "shell", "task": "t", "config": {"command": "write a"}}]}


@asynccontextmanager
async def door_to(at: Inside) -> AsyncIterator[AsyncDoor]:
    app: Any = from_user(at.guard.unix(at.app), os.getuid())
    made = AsyncDoor(Address("http://localhost", {}), 10.0, httpx.ASGITransport(app))
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def client(world: World | None = None) -> AsyncIterator[AsyncDoor]:
    async with inside(world) as at, door_to(at) as door:
        yield door


async def told(door: AsyncDoor, message: str, saying: chats.Saying) -> list[ChatEvent]:
    return [event async for event in door.follow(TurnCourse(chats.body_of(message, "wait", saying)))]


def test_turns_and_conversations() -> None:
    async def journey() -> None:
        async with client(talking(says("One."), says("Two."))) as door:
            first = await door.run(chats.send(chats.body_of("a", None, {})))
            assert (first.success, first.content) == (True, "One.")
            events = await told(door, "b", {"chat_id": first.chat_id})
            assert [event.text for event in events if isinstance(event, Text)] == ["Two."]
            assert isinstance(events[-1], Done)
            [chat] = await door.run(chats.list_chats())
            assert await door.run(chats.show(chat.id)) == chat
            messages = await door.run(chats.messages(chat.id))
            assert [message.content for message in messages] == ["a", "One.", "b", "Two."]
            forked = await door.run(chats.fork(chat.id, first.turn_id))
            assert len(await door.run(chats.messages(forked.id))) == 2
            changed = await door.run(chats.update(chat.id, title="Mine", permits={"look": "deny"}))
            assert (changed.title, changed.permits) == ("Mine", {"look": Permit.DENY})
            await door.run(chats.delete(forked.id))
            assert [each.id for each in await door.run(chats.list_chats())] == [chat.id]
            await door.run(chats.abort(first.turn_id))
            with pytest.raises(Refused):
                await door.run(chats.steer(first.turn_id, "too late"))
            with pytest.raises(NotFound):
                await door.run(chats.show("never"))
            assert [model.default for model in await door.run(chats.list_models())]

    run(journey())


def test_what_would_be_run_is_shown_to_who_decides() -> None:
    async def journey() -> None:
        async with client() as door:
            made = (await door.run(post("/api/workflows", {"workflow": FLOW})))["id"]

            def asked(**arguments: Any) -> ApprovalRequired:
                return ApprovalRequired(tool_call_id="c", approval_id="w", arguments=arguments)

            found = await door.run(workflow_of(asked(workflowId=made)))
            assert found is not None
            assert (found["version"], found["workflow"]["blocks"][0]["config"]) == (1, {"command": "write a"})
            assert await door.run(workflow_of(asked(workflowId=made, version=1))) == found
            for other in ({"workflowId": made, "version": 7}, {"workflowId": "../runs"}, {"workflowId": 3}, {}):
                assert await door.run(workflow_of(asked(**other))) is None

    run(journey())


def test_results_of_the_callers_own_tools() -> None:
    async def journey() -> None:
        async with client(talking(calls("look"), says("I see."))) as door:
            pending = await door.run(chats.send(chats.body_of("a", None, {"auto_execute_tools": False})))
            assert pending.requires_action
            [call] = pending.tool_calls
            given = GivenResult(id=call.id, name=call.name, result={"seen": 1})
            saying: chats.Saying = {"chat_id": pending.chat_id, "tool_results": (given,)}
            assert (await door.run(chats.send(chats.body_of("", None, saying)))).content == "I see."

    run(journey())


@pytest.mark.parametrize(
    ("decision", "status", "given"),
    [
        ("approve", "success", {"n": 1}),
        ("refuse", "rejected", None),
        (Decision("approve", {"n": 7}), "success", {"n": 7}),
    ],
)
def test_approvals(decision: Decision | str, status: str, given: dict[str, int] | None) -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("Done."))
        async with client(world) as door:
            sending = asyncio.create_task(door.run(chats.send(chats.body_of("go", "wait", {}))))
            async with asyncio.timeout(PATIENCE_S):
                while not (waits := await door.run(runs.list_approvals())):
                    await asyncio.sleep(0.005)
            waiting = waits[0]
            asked = ApprovalRequired(
                tool_call_id=waiting.scope,
                approval_id=waiting.id,
                stream_id=waiting.run_id,
                options=waiting.options,
            )
            with pytest.raises(BadInput, match="dance"):
                await door.run(decide(asked, "dance"))
            assert not await door.run(decide(asked, None))
            assert await door.run(decide(asked, decision))
            assert not await door.run(decide(asked, "refuse"))
            result = await sending
            assert [call.status for call in result.tool_calls] == [status]
            assert [arguments for arguments, _ in tool_of(world, "touch").calls] == ([given] if given else [])

    run(journey())


def test_plans_and_runs() -> None:
    async def journey() -> None:
        async with client() as door:
            made = await door.run(plans.submit(plan("write a", "write b")))
            ended = await door.run(plans.wait(made["planId"], timeout=30))
            assert ended["status"] == "succeeded"
            name = ended["nodes"][0]["producerId"]
            assert (await door.run(plans.node(made["planId"], name)))["status"] == "succeeded"
            assert isinstance(await door.run(plans.logs(made["planId"], name)), str)
            assert isinstance(await door.run(plans.diff(made["planId"], name)), str)
            assert [row["id"] for row in await door.run(plans.list_plans())] == [made["planId"]]
            assert [row["id"] for row in await door.run(runs.list_runs(kind="plan"))] == [made["planId"]]
            events = [event async for event in door.follow(RunCourse(made["planId"]))]
            assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
            for verb in (runs.pause, runs.resume, runs.retry):
                with pytest.raises(Refused):
                    await door.run(verb(made["planId"]))
            for verb in (runs.stop, runs.cancel, runs.discard):  # of what has ended already
                with contextlib.suppress(Refused):
                    assert (await door.run(verb(made["planId"])))["id"] == made["planId"]
            with pytest.raises(Refused):
                await door.run(plans.retry(made["planId"]))
            assert await door.run(runs.stop_everything()) == []
            await door.run(plans.delete(made["planId"]))
            with pytest.raises(Gone):
                await door.run(plans.show(made["planId"]))

    run(journey())


def test_a_plan_that_takes_longer_than_somebody_waits() -> None:
    async def journey() -> None:
        async with client() as door:
            made = await door.run(plans.submit(plan("hang")))
            with pytest.raises(Unavailable, match="has not ended"):
                await door.run(plans.wait(made["planId"], timeout=0.05))
            await door.run(plans.cancel_node(made["planId"], "job1"))
            await door.run(runs.cancel(made["planId"]))
            assert (await door.run(plans.wait(made["planId"])))["status"] in ("canceled", "failed")
            await door.run(runs.delete(made["planId"]))

    run(journey())


def test_workflows() -> None:
    async def journey() -> None:
        async with client() as door:
            made = await door.run(plans.create_workflow(FLOW))
            renamed = [{"op": "rename", "to": "waves"}]
            edited = await door.run(plans.edit_workflow(made["id"], renamed, version=1, why="there are more"))
            assert (edited["version"], edited["workflow"]["name"]) == (2, "waves")
            with pytest.raises(Refused) as caught:
                await door.run(plans.replace_workflow(made["id"], FLOW, version=1))
            assert caught.value.code == "wrong_sequence"
            assert len(await door.run(plans.workflow_versions(made["id"]))) == 2
            assert (await door.run(plans.revert_workflow(made["id"], version=2, to=1)))["workflow"]["name"] == "wave"
            assert (await door.run(plans.show_workflow(made["id"], version=2)))["workflow"]["name"] == "waves"
            assert (await door.run(plans.workflow_plan(made["id"])))["name"] == "wave"
            assert [row["id"] for row in await door.run(plans.list_workflows())] == [made["id"]]
            copy = await door.run(plans.create_workflow(plan=await door.run(plans.workflow_plan(made["id"]))))
            assert copy["workflow"]["blocks"][0]["id"] == "a"
            with pytest.raises(BadInput):
                await door.run(plans.create_workflow())
            await door.run(plans.delete_workflow(made["id"]))
            with pytest.raises(NotFound):
                await door.run(plans.show_workflow(made["id"]))

    run(journey())
