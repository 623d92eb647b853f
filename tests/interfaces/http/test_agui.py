"""The AG-UI endpoint: which conversation a thread is, what a run says, and what it must not reach."""

from __future__ import annotations

import json
from typing import Any

import httpx
from tests.interfaces.http.doors import inside, run
from tests.interfaces.http.keyed import keyed
from tests.interfaces.http.talking import calls, says, talking, tool_of
from tests.interfaces.http.test_plans import refusal

from pilothouse.core.auth.principals import Scope

AGUI = "/api/agui"
Shown = dict[str, Any]


def said(text: str, identity: str = "u1") -> Shown:
    return {"id": identity, "role": "user", "content": text}


async def asked(client: httpx.AsyncClient, run_id: str = "r1", thread: str = "t1", **body: Any) -> list[Shown]:
    """The events of one run."""
    answered = await client.post(AGUI, json={"threadId": thread, "runId": run_id, **body})
    assert answered.status_code == 200, answered.text
    assert answered.headers["content-type"].startswith("text/event-stream")
    frames = [frame for frame in answered.text.split("\n\n") if frame.startswith("data: ")]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def text_of(events: list[Shown]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def interrupts(events: list[Shown]) -> list[str]:
    return [each["id"] for each in events[-1]["outcome"]["interrupts"]]


def test_a_run_that_is_sent_again_is_the_same_turn() -> None:
    async def journey() -> None:
        async with inside(talking(says("One."), says("Two."))) as at:
            first = await asked(at.client, messages=[said("a")])
            assert await asked(at.client, messages=[said("a")]) == first
            history = [said("a"), {"id": "x", "role": "assistant", "content": "One."}, said("b", "u2")]
            second = await asked(at.client, "r2", messages=history)
            assert text_of(second) == "Two."
            assert await asked(at.client, "r2", messages=history) == second
            [chat] = (await at.client.get("/api/copilot/chats")).json()["chats"]
            messages = (await at.client.get(f"/api/copilot/chats/{chat['id']}/messages")).json()["messages"]
            assert [each["content"] for each in messages] == ["a", "One.", "b", "Two."]

    run(journey())


def test_a_page_that_has_forgotten_its_messages_still_says_new_ones() -> None:
    async def journey() -> None:
        async with inside(talking(says("One."), says("Two."), says("Three."))) as at:
            await asked(at.client, messages=[said("a")])
            assert text_of(await asked(at.client, "r2", messages=[said("b")])) == "Two."
            assert text_of(await asked(at.client, "r3", messages=[said("a")])) == "Three."

    run(journey())


def test_a_thread_may_be_a_conversation_that_is_there() -> None:
    async def journey() -> None:
        async with inside(talking(says("One."), says("Two."))) as at:
            await asked(at.client, messages=[said("a")])
            [chat] = (await at.client.get("/api/copilot/chats")).json()["chats"]
            assert text_of(await asked(at.client, "r2", chat["id"], messages=[said("b")])) == "Two."
            assert len((await at.client.get("/api/copilot/chats")).json()["chats"]) == 1

    run(journey())


def test_edited_arguments_reach_the_tool() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("Done."))
        async with inside(world) as at:
            first = await asked(at.client, messages=[said("go")])
            [name] = interrupts(first)
            payload = {"answer": "approve", "arguments": {"n": 7}}
            resume = [{"interruptId": name, "status": "resolved", "payload": payload}]
            second = await asked(at.client, "r2", resume=resume)
            assert text_of(second) == "Done."
            assert [given for given, _ in tool_of(world, "touch").calls] == [{"n": 7}]
            # Once more, as after a lost answer: nothing is decided or run again.
            assert await asked(at.client, "r2", resume=resume) == second
            assert len(tool_of(world, "touch").calls) == 1

    run(journey())


def test_what_is_cancelled_is_refused() -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("As you wish."))
        async with inside(world) as at:
            [name] = interrupts(await asked(at.client, messages=[said("go")]))
            second = await asked(at.client, "r2", resume=[{"interruptId": name, "status": "cancelled"}])
            [result] = [event for event in second if event["type"] == "TOOL_CALL_RESULT"]
            assert json.loads(result["content"])["status"] == "rejected"
            assert tool_of(world, "touch").calls == []

    run(journey())


def test_an_answer_needs_the_scope_and_what_belongs_to_others_is_not_there() -> None:
    async def journey() -> None:
        async with (
            inside(talking(calls("touch"), says("Mine."))) as at,
            await keyed(at, "bob", Scope.APPROVE) as bob,
            await keyed(at, "local", Scope.RUN) as runner,
        ):
            [name] = interrupts(await asked(at.client, messages=[said("private")]))
            body = {"threadId": "t1", "runId": "r2", "resume": [{"interruptId": name, "status": "cancelled"}]}
            refusal(await runner.post(AGUI, json=body), 403, "needs_scope")
            refusal(await bob.post(AGUI, json=body), 404, "not_found")
            [snapshot] = [event for event in await asked(bob) if event["type"] == "MESSAGES_SNAPSHOT"]
            assert snapshot["messages"] == []
            assert len((await at.client.get("/api/approvals")).json()["approvals"]) == 1
            await asked(at.client, "r2", resume=body["resume"])

    run(journey())


def test_what_is_no_run_is_refused_and_says_why() -> None:
    async def journey() -> None:
        async with inside(talking(calls("touch"), says("Mine."))) as at:
            refusal(await at.client.post(AGUI, json={"runId": "r"}), 422, "bad_input", "threadId")
            silent = {"threadId": "t", "runId": "r", "messages": [said(" ")]}
            refusal(await at.client.post(AGUI, json=silent), 422, "bad_input", "message")
            resume = [{"interruptId": "nonsense", "status": "resolved", "payload": "approve"}]
            body = {"threadId": "t", "runId": "r", "resume": resume}
            refusal(await at.client.post(AGUI, json=body), 422, "bad_input", "resume.interruptId")
            [name] = interrupts(await asked(at.client, messages=[said("go")]))
            body["resume"] = [{"interruptId": name, "status": "resolved", "payload": {"maybe": 1}}]
            refusal(await at.client.post(AGUI, json=body), 422, "bad_input", "resume.payload")
            body["resume"] = [{"interruptId": name, "status": "resolved", "payload": "dance"}]
            refusal(await at.client.post(AGUI, json=body), 422, "bad_input", "answer")
            await asked(at.client, "r2", resume=[{"interruptId": name, "status": "cancelled"}])

    run(journey())
