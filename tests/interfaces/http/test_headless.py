"""POST /api/v1/copilot/chat: the chat document's request, its answers, and each of its errors with a reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interfaces.http.doors import client_of, eventually, inside, run, served
from tests.interfaces.http.keyed import key_of, keyed
from tests.interfaces.http.talking import (
    CHAT,
    HEADLESS,
    HOLD,
    NEVER,
    backend_of,
    calls,
    failure,
    kinds,
    opened,
    says,
    talking,
    text_of,
    tool_of,
)
from tests.support.services import plan

from pilothouse.adapters.backends.memory import Break
from pilothouse.adapters.backends.unready import UnreadyBackend
from pilothouse.core.auth.principals import THE_LOCAL_USER, Scope
from pilothouse.core.auth.rates import Rate
from pilothouse.core.chat.backend import ConversationKnown, Failed, Paused, Said, ToolCalled
from pilothouse.core.chat.calls import CallReason
from pilothouse.core.workflow.document import Workflow
from pilothouse.engine.access.keys import Keys
from pilothouse.engine.own_tools.workflows import workflow_tools
from pilothouse.errors import BackendFailed
from pilothouse.interfaces.http import headless
from pilothouse.interfaces.http.api import ChatFlags


async def ask(client: httpx.AsyncClient, message: str = "hello", **more: Any) -> httpx.Response:
    return await client.post(HEADLESS, json={"message": message, **more})


def test_it_answers_401_without_an_api_key() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            at.guard.listening("127.0.0.1", 80)
            async with client_of(at.guard.tcp(at.app), "http://127.0.0.1") as nobody:
                found = failure(await ask(nobody), 401, "no_credential")
                assert (found["content"], found["toolCalls"]) == ("", [])
                wrong = await nobody.post(HEADLESS, json={"message": "hello"}, headers={"x-api-key": "sim_xxx"})
                failure(wrong, 401, "invalid_key")

    run(journey())


def test_it_answers_503_with_the_reason_while_nobody_can_answer_and_begins_nothing() -> None:
    async def journey() -> None:
        world = talking()
        world.backend = UnreadyBackend("llm", "a key is missing: set PILOTHOUSE_LLM_API_KEY")
        async with inside(world) as at:
            found = failure(await ask(at.client), 503, "unavailable")
            assert found["error"] == "nobody can answer: a key is missing: set PILOTHOUSE_LLM_API_KEY"
            for body in ({"message": "hello"}, {"message": "hello", "stream": False}):
                streamed = await at.client.post(CHAT, json=body)
                assert (streamed.status_code, streamed.json()["detail"]) == (503, found["error"])
            assert (await at.client.get("/api/copilot/chats")).json() == {"chats": []}
            assert (await at.client.get("/api/models")).json()["chatProblem"].startswith("a key is missing")

    run(journey())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "message"),
        ({"message": ""}, "message"),
        ({"message": "  "}, "message"),
        ({"message": 7}, "message"),
        ({"message": "hi", "mode": "dance"}, "mode"),
        ({"message": "hi", "timeout": "soon"}, "timeout"),
        ({"message": "hi", "timeout": 0}, "timeout"),
        ({"message": "hi", "autoExecuteTools": "yes"}, "autoExecuteTools"),
        ({"message": "hi", "onApproval": "maybe"}, "onApproval"),
        ({"message": "hi", "colour": "red"}, "colour"),
        ({"message": "hi", "toolResults": [{"result": 1}]}, "toolResults[0].id"),
    ],
)
def test_it_answers_400_to_an_invalid_request_and_says_which_field(body: dict[str, Any], field: str) -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            found = failure(await at.client.post(HEADLESS, json=body), 400)
            assert [each["field"] for each in found["details"]] == [field]
            assert all(each["message"] for each in found["details"])

    run(journey())


def test_everything_that_is_wrong_is_told_at_once() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            found = failure(await ask(at.client, timeout=-1, chatId=7), 400, "bad_input")
            assert {each["field"] for each in found["details"]} == {"timeout", "chatId"}
            failure(await at.client.post(HEADLESS, content=b"{"), 400, "malformed")

    run(journey())


def test_it_answers_a_simple_question() -> None:
    async def journey() -> None:
        world = talking((ConversationKnown("conv-1"), *says("Hel", "lo.")), says("Again."))
        async with inside(world) as at, await keyed(at, "ann", Scope.RUN) as ann:
            found = (await ask(ann, mode="ask")).json()
            assert (found["success"], found["content"], found["toolCalls"]) == (True, "Hello.", [])
            assert found["conversationId"] == "conv-1"
            assert not found.get("error")
            again = (await ask(ann, "and now?", chatId=found["chatId"])).json()
            assert (again["content"], again["chatId"]) == ("Again.", found["chatId"])
            first, second = backend_of(world).requests
            assert (first.mode, first.headless, first.owner) == ("research", True, "ann")
            assert [message.content for message in second.history] == ["hello", "Hello."]

    run(journey())


def test_it_executes_tools_and_answers_what_they_were_called_with_and_brought() -> None:
    async def journey() -> None:
        world = talking(calls("look", "break", text="Let me see. "), says("Done."))
        async with inside(world) as at:
            found = (await ask(at.client)).json()
            assert (found["success"], found["content"]) == (True, "Let me see. Done.")
            look, stuck = found["toolCalls"]
            assert (look["id"], look["name"], look["status"], look["params"]) == ("look-1", "look", "success", {"n": 1})
            assert look["result"] == {"done": "look"}
            assert look["durationMs"] >= 0
            assert (stuck["status"], stuck["error"]) == ("error", "it is stuck")
            assert [request.reason for request in backend_of(world).requests] == [CallReason.FIRST, CallReason.RESULTS]

    run(journey())


def test_a_tool_that_a_person_would_be_asked_about_is_skipped_and_the_answer_says_how_to_allow_it() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("Sorry."), calls("touch"), says("Done."))
        async with inside(world) as at:
            async with await keyed(at, "ann", Scope.RUN) as ann:
                [call] = (await ask(ann)).json()["toolCalls"]
                assert (call["status"], call["reason"]) == ("skipped", "needs_approval")
                assert call["error"]
            assert tool_of(world, "touch").calls == []
            async with await keyed(at, "ann", Scope.APPROVE) as ann:  # who may answer for a person has
                [call] = (await ask(ann)).json()["toolCalls"]
                assert call["status"] == "success"
            assert len(tool_of(world, "touch").calls) == 1

    run(journey())


def test_who_may_not_answer_for_a_person_cannot_have_everything_run() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("Done."))
        async with inside(world) as at, await keyed(at, "ann", Scope.RUN) as ann:
            answered = await ask(ann, onApproval="run")
            assert answered.status_code in {400, 403}, answered.text
            failure(answered, answered.status_code)
            assert tool_of(world, "touch").calls == []

    run(journey())


def test_with_wait_a_person_answers_elsewhere() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("Done."))
        async with inside(world) as at:
            asked = asyncio.ensure_future(ask(at.client, onApproval="wait"))
            waits: list[dict[str, Any]] = []
            while not waits:
                waits = (await at.client.get("/api/approvals")).json()["approvals"]
                await asyncio.sleep(0.005)
            await at.client.post(f"/api/approvals/{waits[0]['id']}", json={"answer": "approve"})
            found = (await asked).json()
            assert (found["success"], found["content"]) == (True, "Done.")
            assert found["toolCalls"][0]["status"] == "success"

    run(journey())


def test_with_automatic_tools_off_calls_are_left_to_the_caller_who_brings_their_results() -> None:
    async def journey() -> None:
        world = talking(calls("look"), says("I see."))
        async with inside(world) as at:
            left = (await ask(at.client, autoExecuteTools=False)).json()
            assert (left["success"], left["requiresAction"]) == (True, True)
            assert [call["status"] for call in left["toolCalls"]] == ["pending"]
            assert tool_of(world, "look").calls == []
            results = [{"id": "look-1", "result": {"seen": 1}}]
            rest = (await at.client.post(HEADLESS, json={"chatId": left["chatId"], "toolResults": results})).json()
            assert (rest["success"], rest["content"]) == (True, "I see.")
            brought = backend_of(world).requests[1].results
            assert [(given.id, given.ok, given.result) for given in brought] == [("look-1", True, {"seen": 1})]

    run(journey())


def test_calls_of_the_callers_own_tools_are_left_to_the_caller() -> None:
    async def journey() -> None:
        world = talking(calls("look", "measure"), says("It is 3 m."))
        async with inside(world) as at:
            tools = [{"name": "measure", "description": "Measures.", "parameters": {"type": "object"}}]
            left = (await ask(at.client, clientTools=tools)).json()
            assert (left["success"], left["requiresAction"]) == (True, True)
            assert [call["status"] for call in left["toolCalls"]] == ["success", "pending"]
            assert "measure" in {tool.name for tool in backend_of(world).requests[0].tools}
            body = {"chatId": left["chatId"], "toolResults": [{"id": "measure-2", "result": "3 m"}]}
            rest = (await at.client.post(HEADLESS, json=body)).json()
            assert rest["content"] == "It is 3 m."

    run(journey())


def test_it_answers_404_to_a_workflow_or_a_chat_that_is_not_there_or_not_theirs() -> None:
    async def journey() -> None:
        async with inside(talking()) as at, await keyed(at, "bob", Scope.APPROVE) as bob:
            mine = (await ask(at.client)).json()["chatId"]
            for missing in ({"workflowId": "wf_abc123"}, {"chatId": "chat_xyz"}, {"chatId": mine}):
                failure(await ask(bob, **missing), 404, "not_found")
            failure(await ask(bob, workflowName="none"), 404, "not_found")

    run(journey())


def test_it_answers_409_while_the_chat_is_busy_and_names_the_turn() -> None:
    async def journey() -> None:
        world = talking(says("Hi."), (Said("Hm"), HOLD, *says(".")))
        async with inside(world) as at:
            chat_id = (await ask(at.client)).json()["chatId"]
            first = asyncio.ensure_future(ask(at.client, chatId=chat_id))
            await eventually(lambda: len(backend_of(world).requests) == 2)
            busy = failure(await ask(at.client, chatId=chat_id), 409, "busy")
            chat = (await at.client.get(f"/api/copilot/chats/{chat_id}")).json()
            assert busy["activeStreamId"] == chat["activeStreamId"] == backend_of(world).requests[1].turn_id
            backend_of(world).go_on()
            assert (await first).json()["content"] == "Hm."

    run(journey())


def test_it_answers_429_when_a_key_is_used_too_often() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            limited = Keys(at.services.keys._store, at.services.clock, lambda n: b"\1" * n, Rate(0.001, 1))
            at.guard._keys = limited
            made = await limited.create("test", "ann", (Scope.RUN,))
            at.guard.listening("127.0.0.1", 80)
            async with client_of(at.guard.tcp(at.app), "http://127.0.0.1") as ann:
                ann.headers["x-api-key"] = made.key
                assert (await ask(ann)).status_code == 200
                refused = await ask(ann)
                failure(refused, 429, "too_many_requests")
                assert int(refused.headers["retry-after"]) > 0

    run(journey())


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ((Failed(message="the model is gone", code="model_gone"),), "the model is gone"),
        ((Break(BackendFailed("nobody answers at http://127.0.0.1:1")),), "nobody answers at http://127.0.0.1:1"),
        ((), "stopped before it had finished"),
    ],
)
def test_it_answers_500_with_the_reason_and_keeps_what_was_said_and_done(end: tuple[Any, ...], reason: str) -> None:
    async def journey() -> None:
        world = talking(calls("look", text="First. "), (Said("Then "), *end))
        async with inside(world) as at:
            found = failure(await ask(at.client), 500)
            assert reason in found["error"]
            assert found["content"] == "First. Then "
            assert [(call["name"], call["status"]) for call in found["toolCalls"]] == [("look", "success")]
            assert found["chatId"]

    run(journey())


def test_it_answers_504_at_its_timeout_and_keeps_what_was_said_and_done() -> None:
    async def journey() -> None:
        world = talking(calls("look", text="First. "), (Said("Then "), NEVER))
        async with inside(world) as at:
            found = failure(await ask(at.client, timeout=1500), 504, "timeout")
            assert found["content"] == "First. Then "
            assert [call["status"] for call in found["toolCalls"]] == ["success"]
            assert len(backend_of(world).open) == 0

    run(journey())


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (ChatFlags(orchestrator=False), "COPILOT_USE_SERVER_ORCHESTRATOR"),
        (ChatFlags(headless=False), "COPILOT_ENABLE_HEADLESS_API"),
    ],
)
def test_it_answers_503_when_a_flag_is_off_whatever_is_asked(flags: ChatFlags, name: str) -> None:
    async def journey() -> None:
        async with inside(talking(), flags=flags) as at:
            for body in ({"message": "hello"}, {}):
                assert name in failure(await at.client.post(HEADLESS, json=body), 503, "unavailable")["error"]

    run(journey())


def test_a_turn_that_somebody_stopped_says_so() -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), NEVER))
        async with inside(world) as at:
            asked = asyncio.ensure_future(ask(at.client))
            await eventually(lambda: len(backend_of(world).open) == 1)
            await at.client.post("/api/copilot/chat/abort", json={"streamId": backend_of(world).requests[0].turn_id})
            found = failure(await asked, 500)
            assert "stopped" in found["error"].lower()
            assert found["content"] == "Hm"

    run(journey())


def test_a_message_with_an_id_is_one_turn_however_often_it_is_sent() -> None:
    async def journey() -> None:
        world = talking(says("Once."))
        async with inside(world) as at, await keyed(at, "bob", Scope.RUN) as bob:
            first = (await ask(at.client, messageId="m-1")).json()
            assert (await ask(at.client, messageId="m-1")).json() == first
            with_header = await at.client.post(HEADLESS, json={"message": "x"}, headers={"idempotency-key": "m-1"})
            assert with_header.json() == first
            assert len(backend_of(world).requests) == 1
            theirs = (await ask(bob, messageId="m-1")).json()  # another's is another
            assert theirs["chatId"] != first["chatId"]

    run(journey())


def test_a_key_that_a_plan_was_submitted_under_is_another_one_of_a_message() -> None:
    async def journey() -> None:
        async with inside(talking(says("Said."))) as at:
            key = {"idempotency-key": "nightly"}
            made = await at.client.post("/api/plans", json={"plan": plan("write a")}, headers=key)
            assert made.status_code == 201, made.text
            answered = await at.client.post(HEADLESS, json={"message": "hello"}, headers=key)
            assert answered.json()["content"] == "Said."

    run(journey())


def test_it_can_be_streamed() -> None:
    async def journey() -> None:
        async with inside(talking(says("Hel", "lo."))) as at:
            async with opened(at.client, "POST", HEADLESS, {"message": "hello", "stream": True}) as stream:
                shown = [each async for each in stream]
            assert (kinds(shown)[0], kinds(shown)[-1], text_of(shown)) == ("chat_id", "done", "Hello.")

    run(journey())


def test_a_client_that_hangs_up_takes_its_turn_with_it(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), NEVER))
        async with served(tmp_path, world) as at:
            asked = asyncio.ensure_future(ask(at.client))
            await eventually(lambda: len(backend_of(world).open) == 1)
            asked.cancel()
            await eventually(lambda: len(backend_of(world).open) == 0)
            turn_id = backend_of(world).requests[0].turn_id
            async with asyncio.timeout(5):
                while (await at.services.queries.run(turn_id)).lifecycle != "STOPPED":
                    await asyncio.sleep(0.005)

    run(journey())


def test_who_hung_up_and_can_ask_again_finds_the_turn_going_on(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), HOLD, *says(".")))
        async with served(tmp_path, world) as at:
            asked = asyncio.ensure_future(ask(at.client, messageId="m-1"))
            await eventually(lambda: len(backend_of(world).open) == 1)
            asked.cancel()
            again = asyncio.ensure_future(ask(at.client, messageId="m-1"))
            backend_of(world).go_on()
            assert (await again).json()["content"] == "Hm."
            assert len(backend_of(world).requests) == 1

    run(journey())


def test_who_hung_up_and_does_not_ask_again_has_it_ended_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headless, "_RETURN_S", 0.05)

    async def journey() -> None:
        world = talking((Said("Hm"), NEVER))
        async with served(tmp_path, world) as at:
            asked = asyncio.ensure_future(ask(at.client, messageId="m-1"))
            await eventually(lambda: len(backend_of(world).open) == 1)
            asked.cancel()
            await eventually(lambda: len(backend_of(world).open) == 0)
            again = failure(await ask(at.client, messageId="m-1"), 500)  # which tells what became of it
            assert (again["content"], again["status"]) == ("Hm", "stopped")

    run(journey())


def test_who_hung_up_and_comes_back_to_follow_the_stream_keeps_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headless, "_RETURN_S", 0.05)

    async def journey() -> None:
        world = talking((Said("Hm"), HOLD, *says(".")))
        async with served(tmp_path, world) as at:
            asked = asyncio.ensure_future(ask(at.client, messageId="m-1"))
            await eventually(lambda: len(backend_of(world).open) == 1)
            body = {"message": "hello", "messageId": "m-1", "stream": True}
            async with opened(at.client, "POST", HEADLESS, body) as stream:
                asked.cancel()
                turn_id = backend_of(world).requests[0].turn_id
                waited = at.services.chats.wait
                looked = asyncio.Event()

                async def wait(*args: Any) -> Any:
                    result = await waited(*args)
                    looked.set()  # whoever hung up is given up from here on
                    return result

                monkeypatch.setattr(at.services.chats, "wait", wait)
                async with asyncio.timeout(5):
                    await looked.wait()
                backend_of(world).go_on()
                shown = [each async for each in stream]
            assert (kinds(shown)[-1], text_of(shown)) == ("done", "Hm.")
            assert (await at.services.queries.run(turn_id)).lifecycle == "SUCCEEDED"

    run(journey())


def test_a_key_that_only_reads_sends_nothing() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            key = await key_of(at, "ann", Scope.READ)
            answered = await at.client.post(HEADLESS, json={"message": "hello"}, headers={"x-api-key": key})
            failure(answered, 403, "needs_scope")

    run(journey())


def test_it_works_on_the_workflow_that_is_named() -> None:
    async def journey() -> None:
        world = talking(*[says("Done.")] * 2)
        async with inside(world) as at:
            made = await at.services.workflows.create(Workflow(name="nightly"), THE_LOCAL_USER)
            for named in ({"workflowId": made.id}, {"workflowName": "nightly"}):
                assert (await ask(at.client, **named)).status_code == 200
            assert [request.workflow_id for request in backend_of(world).requests] == [made.id] * 2

    run(journey())


def test_it_executes_a_modification_of_a_workflow() -> None:
    async def journey() -> None:
        world = talking()
        async with inside(world) as at:
            for tool in workflow_tools(at.services.workflows):
                world.tools.add(tool)
            made = await at.services.workflows.create(Workflow(name="nightly"), THE_LOCAL_USER)
            operations = [
                {
                    "op": "add_block",
                    "block": {"id": "build", "type": "shell", "task": "Build", "config": {"command": "make"}},
                }
            ]
            arguments = {"workflowId": made.id, "version": 1, "operations": operations}
            call = ToolCalled(id="tc_002", name="edit_workflow", arguments=arguments)
            backend_of(world).replies += [
                (call, Paused(checkpoint_id="cp", pending=("tc_002",))),
                says("I have added a block."),
            ]
            found = (await ask(at.client, "Add a build step", workflowId=made.id)).json()
            assert (found["success"], found["content"]) == (True, "I have added a block.")
            assert [(call["name"], call["status"]) for call in found["toolCalls"]] == [("edit_workflow", "success")], (
                found
            )
            now = await at.services.workflows.get(made.id, THE_LOCAL_USER)
            assert ([block.id for block in now.workflow.blocks], now.version) == (["build"], 2)
            [checkpoint] = await at.services.chats.checkpoints(found["chatId"], THE_LOCAL_USER)
            assert (checkpoint.workflow_id, checkpoint.version) == (made.id, 2)

    run(journey())


def test_a_model_can_be_chosen() -> None:
    async def journey() -> None:
        world = talking()
        async with inside(world) as at:
            await ask(at.client, model="claude-4-sonnet")
            assert backend_of(world).requests[0].model == "claude-4-sonnet"

    run(journey())


def test_a_turn_may_take_five_minutes_unless_it_is_told() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            given: tuple[tuple[dict[str, Any], int], ...] = (({}, 300_000), ({"timeout": 5000}, 5000))
            for more, timeout in given:
                turn_id = (await ask(at.client, **more)).json()["turnId"]
                log = (await at.client.get(f"/api/runs/{turn_id}/events")).json()["events"]
                [received] = [event for event in log if event["type"] == "TURN_RECEIVED"]
                assert received["timeoutMs"] == timeout

    run(journey())
