"""Tools over HTTP: deciding about calls, what is always allowed, and clients that run tools themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.interfaces.http.doors import Inside, eventually, inside, run
from tests.interfaces.http.keyed import keyed
from tests.interfaces.http.talking import Shown, calls, say, says, talking, tool_of
from tests.interfaces.http.test_plans import refusal
from tests.support.services import happened
from tests.support.tools import TestTool

from pilothouse.adapters.system.ids import Uuid7Ids
from pilothouse.core.auth.principals import Kind, Principal, Scope
from pilothouse.core.chat.backend import Paused, ToolCalled
from pilothouse.engine.chats.values import Send
from pilothouse.engine.tools.journal import ToolJournal
from pilothouse.engine.tools.registry import ToolRegistry

CONFIRM = "/api/copilot/confirm"
ALLOWED = "/api/copilot/auto-allowed-tools"


async def waiting(at: Inside, principal: Principal) -> tuple[str, str]:
    """A turn that asks whether it may ``touch``; its chat and itself."""
    sent = await at.services.chats.send(Send(message="hi"), principal)
    await happened(at.services, sent.turn_id, "NEEDS_APPROVAL")
    return sent.chat_id, sent.turn_id


def ann() -> Principal:
    return Principal("ann", Kind.KEY, frozenset({Scope.RUN}))


async def ended(at: Inside, turn_id: str) -> Any:
    return await at.services.chats.wait(turn_id, ann(), 10)


@pytest.mark.parametrize(
    ("decided", "status", "called"),
    [
        ({"status": "accepted"}, "success", [{"n": 1}]),
        ({"status": "accepted", "arguments": {"n": 7}}, "success", [{"n": 7}]),
        ({"status": "rejected", "message": "not now"}, "rejected", []),
    ],
)
def test_a_person_decides_once(decided: dict[str, Any], status: str, called: list[dict[str, Any]]) -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("So."))
        async with inside(world) as at, await keyed(at, "ann", Scope.APPROVE) as boss:
            _, turn_id = await waiting(at, ann())
            body = {"toolCallId": "touch-1", **decided}
            answered = (await boss.post(CONFIRM, json=body)).json()
            assert (answered["success"], answered["streamId"]) == (True, turn_id)
            second = await boss.post(CONFIRM, json={**body, "streamId": turn_id})
            assert second.status_code in {404, 409}, second.text
            result = await ended(at, turn_id)
            assert [call.status for call in result.tool_calls] == [status]
            assert [given for given, _ in tool_of(world, "touch").calls] == called

    run(journey())


def test_the_list_of_all_that_waits_takes_the_same_answers() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("So."))
        async with inside(world) as at:
            _, turn_id = await waiting(at, ann())
            [wait] = (await at.client.get("/api/approvals")).json()["approvals"]
            assert (wait["runId"], wait["detail"]["tool"], wait["scope"]) == (turn_id, "touch", "touch-1")
            body = {"answer": "approve", "arguments": {"n": 8}, "message": "careful"}
            assert (await at.client.post(f"/api/approvals/{wait['id']}", json=body)).status_code == 200
            await ended(at, turn_id)
            assert [given for given, _ in tool_of(world, "touch").calls] == [{"n": 8}]
            refusal(await at.client.delete(f"/api/runs/{turn_id}"), 409, "refused")

    run(journey())


def test_only_who_may_answer_for_a_person_decides_and_only_about_their_own() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("So."))
        async with inside(world) as at, await keyed(at, "ann", Scope.RUN) as worker:
            _, turn_id = await waiting(at, ann())
            accepted = {"toolCallId": "touch-1", "status": "accepted"}
            refusal(await worker.post(CONFIRM, json=accepted), 403, "needs_scope")
            for more in ({"result": 1}, {"error": "x"}, {"status": "success"}, {"status": "success", "result": 1}):
                sneaky = await worker.post(CONFIRM, json={**accepted, **more})
                assert sneaky.status_code in {403, 404, 409, 422}, sneaky.text
            marked = {"id": "touch-1", "name": "touch", "status": 200, "data": 1}
            answered = await worker.post("/api/copilot/tools/mark-complete", json=marked)
            assert answered.status_code in {403, 404, 409, 422}, answered.text
            async with await keyed(at, "bob", Scope.APPROVE) as bob:
                refusal(await bob.post(CONFIRM, json=accepted), 404, "not_found")
                refusal(await bob.post(CONFIRM, json={**accepted, "streamId": turn_id}), 404, "not_found")
            assert tool_of(world, "touch").calls == []
            assert (await at.services.queries.run(turn_id)).waits
            await at.services.chats.abort(turn_id, ann())

    run(journey())


def test_an_answer_for_the_chat_holds_for_the_chat_and_one_for_always_everywhere() -> None:
    async def journey() -> None:
        world = talking(*[calls("touch"), says("So.")] * 5)
        async with inside(world) as at, await keyed(at, "ann", Scope.APPROVE) as boss:
            chat_id, turn_id = await waiting(at, ann())
            await boss.post(CONFIRM, json={"toolCallId": "touch-1", "status": "accepted", "scope": "chat"})
            await ended(at, turn_id)
            await _remembered(boss, f"/api/copilot/chats/{chat_id}", "permits", {"touch": "allow"})
            assert "approval_required" not in {each["type"] for each in await say(boss, chatId=chat_id)}
            _, turn_id = await waiting(at, ann())  # another chat asks
            await boss.post(CONFIRM, json={"toolCallId": "touch-1", "status": "accepted", "scope": "always"})
            await ended(at, turn_id)
            await _remembered(boss, ALLOWED, "autoAllowedTools", ["touch"])
            assert "approval_required" not in {each["type"] for each in await say(boss)}

    run(journey())


async def _remembered(client: httpx.AsyncClient, path: str, name: str, value: Any) -> None:
    async with asyncio.timeout(10):
        while (await client.get(path)).json()[name] != value:
            await asyncio.sleep(0.005)


def test_what_is_always_allowed_is_a_list_of_ones_own() -> None:
    async def journey() -> None:
        async with inside(talking()) as at, await keyed(at, "ann", Scope.APPROVE) as boss:
            none: dict[str, Any] = {"success": True, "autoAllowedTools": []}
            assert (await boss.get(ALLOWED)).json() == none
            assert (await boss.post(ALLOWED, json={"toolId": "touch"})).json()["autoAllowedTools"] == ["touch"]
            assert (await at.client.get(ALLOWED)).json() == none
            assert (await boss.delete(ALLOWED, params={"toolId": "touch"})).json() == none
            assert (await boss.delete(ALLOWED)).json() == none
            refusal(await boss.post(ALLOWED, json={"tool": "none"}), 422, "bad_input", "tool")
            async with await keyed(at, "ann", Scope.RUN) as worker:
                refusal(await worker.post(ALLOWED, json={"tool": "touch"}), 403, "needs_scope")

    run(journey())


def test_a_tool_can_be_moved_to_the_background() -> None:
    async def journey() -> None:
        hold = asyncio.Event()
        world = talking(calls("slow"), says("Meanwhile."))
        world.tools.add(TestTool("slow", holds=hold))
        async with inside(world) as at, await keyed(at, "ann", Scope.APPROVE) as boss:
            sent = await at.services.chats.send(Send(message="hi"), ann())
            await happened(at.services, sent.turn_id, "TOOL_STARTED")
            body = {"toolCallId": "slow-1", "status": "background", "streamId": sent.turn_id}
            assert (await boss.post(CONFIRM, json=body)).status_code == 200
            await happened(at.services, sent.turn_id, "TOOL_BACKGROUNDED")
            hold.set()
            result = await ended(at, sent.turn_id)
            assert (result.content, [call.status for call in result.tool_calls]) == ("Meanwhile.", ["success"])

    run(journey())


def test_tools_are_listed_with_their_parameters() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            tools = {tool["name"]: tool for tool in (await at.client.get("/api/tools")).json()["tools"]}
            assert {"break", "look", "touch"} <= tools.keys()
            assert tools["touch"]["touches"] == "world"
            assert tools["look"]["parameters"]["type"] == "object"

    run(journey())


@pytest.mark.parametrize("route", ["/api/copilot/execute-tool", "/api/copilot/execute-copilot-server-tool"])
def test_a_client_runs_one_tool_itself_with_the_same_permits(route: str) -> None:
    async def journey() -> None:
        world = talking()
        async with inside(world) as at, await keyed(at, "ann", Scope.RUN) as worker:
            done = (await worker.post(route, json={"toolName": "look", "params": {"a": 1}, "toolCallId": "t"})).json()
            assert done == {"success": True, "toolCallId": "t", "toolName": "look", "result": {"done": "look"}}
            [(arguments, context)] = tool_of(world, "look").calls
            assert (arguments, context.owner, context.call_id) == ({"a": 1}, "ann", "t")
            stuck = (await worker.post(route, json={"toolName": "break"})).json()
            assert (stuck["success"], stuck["error"]) == (False, "it is stuck")
            refusal(await worker.post(route, json={"toolName": "none"}), 404, "not_found")
            refusal(await worker.post(route, json={"toolName": "touch"}), 403, "needs_scope")
            assert tool_of(world, "touch").calls == []
            async with await keyed(at, "ann", Scope.APPROVE) as boss:
                assert (await boss.post(route, json={"toolName": "touch"})).json()["success"] is True
                shown = await say(boss)
                path = f"/api/copilot/chats/{shown[0]['chatId']}"
                await boss.patch(path, json={"permits": {"look": "deny"}})
                denied = {"toolName": "look", "chatId": shown[0]["chatId"]}
                refusal(await boss.post(route, json=denied), 403, "denied")
                await boss.patch(path, json={"mode": "ask", "permits": {"look": None}})
                refusal(await boss.post(route, json={**denied, "toolName": "touch"}), 403, "denied")
                assert (await boss.post(route, json=denied)).json()["success"] is True

    run(journey())


def test_a_tool_that_a_client_runs_takes_no_longer_than_in_a_turn() -> None:
    async def journey() -> None:
        world = talking()
        world.tools.add(TestTool("hang", holds=asyncio.Event(), timeout_ms=20))
        async with inside(world) as at:
            answered = (await at.client.post("/api/copilot/execute-tool", json={"toolName": "hang"})).json()
            assert (answered["success"], answered["error"]) == (False, "hang took longer than 0.02 s")

    run(journey())


def test_calls_outside_conversations_are_recorded_without_secrets_for_whoever_made_them() -> None:
    async def journey() -> None:
        class Values:
            async def values(self, owner: str) -> dict[str, str]:
                return {"TOKEN": "s3cret-value"} if owner == "ann" else {}

        world = talking()
        registry = ToolRegistry(secrets=Values(), journal=ToolJournal(world.logs, world.clock, Uuid7Ids()))
        for spec in world.tools.specs():
            tool = world.tools.get(spec.name)
            assert tool is not None
            registry.add(tool)
        world.tools = registry
        route = "/api/copilot/execute-tool"
        async with (
            inside(world) as at,
            await keyed(at, "ann", Scope.RUN) as ann,
            await keyed(at, "bob", Scope.RUN) as bob,
        ):
            await ann.post(route, json={"toolName": "look", "params": {"a": "s3cret-value"}, "toolCallId": "t"})
            await ann.post(route, json={"toolName": "break"})
            refusal(await ann.post(route, json={"toolName": "touch"}), 403, "needs_scope")
            calls = (await ann.get("/api/tools/calls")).json()["calls"]
            assert [(one["tool"], one["status"], one["door"]) for one in calls] == [
                ("break", "error", "execute-tool"),
                ("look", "success", "execute-tool"),
            ]
            assert (calls[1]["arguments"], calls[1]["callId"], calls[1]["owner"]) == ({"a": "{{TOKEN}}"}, "t", "ann")
            assert calls[0]["error"] == "it is stuck"
            assert len((await ann.get("/api/tools/calls?limit=1")).json()["calls"]) == 1
            assert (await bob.get("/api/tools/calls")).json() == {"calls": []}

    run(journey())


def test_a_call_that_the_client_executes_is_marked_complete() -> None:
    async def journey() -> None:
        called = ToolCalled(id="c", name="navigate_ui", arguments={}, executor="client", ui={"clientExecutable": True})
        world = talking((called, Paused(checkpoint_id="cp", pending=("c",))), says("There."))
        async with inside(world) as at, await keyed(at, "ann", Scope.RUN) as worker:
            asked = asyncio.ensure_future(say(worker))
            await eventually(lambda: bool(at.services.supervisor.live))
            [turn_id] = at.services.supervisor.live
            await happened(at.services, turn_id, "TOOL_CALLED")
            body = {"id": "c", "name": "navigate_ui", "status": 200, "message": "shown", "data": {"page": "home"}}
            answered = await worker.post("/api/copilot/tools/mark-complete", json=body)
            assert answered.json() == {"success": True, "toolCallId": "c"}
            shown: list[Shown] = await asked
            [result] = [each for each in shown if each["type"] == "tool_result"]
            assert result["result"] == {"page": "home"}
            refusal(await worker.post("/api/copilot/tools/mark-complete", json=body), 404, "not_found")

    run(journey())
