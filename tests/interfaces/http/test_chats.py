"""Conversations over HTTP: listed, changed, read, forked, taken back, exported, judged, deleted."""

from __future__ import annotations

import asyncio
import json

import httpx
from tests.interfaces.http.doors import Inside, eventually, inside, run
from tests.interfaces.http.keyed import keyed
from tests.interfaces.http.talking import HOLD, backend_of, calls, say, says, talking
from tests.interfaces.http.test_plans import refusal

from pilothouse.core.auth.principals import THE_LOCAL_USER, Scope
from pilothouse.core.chat.backend import Said
from pilothouse.core.workflow.document import Workflow
from pilothouse.core.workflow.history import Note
from pilothouse.core.workflow.operations import read_operations

CHATS = "/api/copilot/chats"


async def said(client: httpx.AsyncClient, *texts: str, chat_id: str | None = None) -> tuple[str, list[str]]:
    """A chat in which these were said; its id, and its turns'."""
    turns = []
    for text in texts:
        shown = await say(client, text, **({"chatId": chat_id} if chat_id else {}))
        chat_id = shown[0]["chatId"]
        turns.append(shown[0]["streamId"])
    assert chat_id is not None
    return chat_id, turns


def test_conversations_are_listed_last_used_first_and_each_has_its_owner() -> None:
    async def journey() -> None:
        async with inside(talking()) as at, await keyed(at, "ann", Scope.RUN) as ann:
            first, _ = await said(at.client, "one")
            second, _ = await said(at.client, "two")
            hers, _ = await said(ann, "three")
            await said(at.client, "again", chat_id=first)
            mine = [chat["id"] for chat in (await at.client.get(CHATS)).json()["chats"]]
            assert mine == [first, hers, second]  # the owner of the server sees everybody's
            [chat] = (await ann.get(CHATS)).json()["chats"]
            assert (chat["id"], chat["owner"], chat["activeStreamId"]) == (hers, "ann", None)
            assert (await ann.get(f"{CHATS}/{hers}")).json() == chat
            refusal(await ann.get(f"{CHATS}/{first}"), 404, "not_found")
            refusal(await at.client.get(f"{CHATS}/never"), 404, "not_found")

    run(journey())


def test_a_conversation_is_changed_and_an_archived_one_is_out_of_the_way() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            chat_id, _ = await said(at.client, "one")
            path = f"{CHATS}/{chat_id}"
            changed = (await at.client.patch(path, json={"title": "Mine", "model": "large", "mode": "ask"})).json()
            assert (changed["title"], changed["model"], changed["mode"]) == ("Mine", "large", "research")
            renamed = await at.client.post("/api/copilot/chat/rename", json={"chatId": chat_id, "title": "Ours"})
            assert renamed.json()["chat"]["title"] == "Ours"
            await at.client.patch(path, json={"archived": True})
            assert (await at.client.get(CHATS)).json()["chats"] == []
            assert len((await at.client.get(CHATS, params={"archived": "true"})).json()["chats"]) == 1
            refusal(await at.client.patch(path, json={"mode": "dance"}), 422, "bad_input", "mode")
            refusal(await at.client.patch(path, json={"colour": "red"}), 422, "bad_input", "colour")

    run(journey())


def test_what_tools_may_do_is_changed_by_who_may_answer_for_a_person() -> None:
    async def journey() -> None:
        async with inside(talking()) as at, await keyed(at, "ann", Scope.RUN) as ann:
            chat_id, _ = await said(ann, "one")
            refusal(await ann.patch(f"{CHATS}/{chat_id}", json={"permits": {"touch": "allow"}}), 403, "needs_scope")
            async with await keyed(at, "ann", Scope.APPROVE) as boss:
                path = f"{CHATS}/{chat_id}"
                allowed = (await boss.patch(path, json={"permits": {"touch": "allow", "look": "deny"}})).json()
                assert allowed["permits"] == {"touch": "allow", "look": "deny"}
                taken = (await boss.patch(path, json={"permits": {"look": None}})).json()
                assert taken["permits"] == {"touch": "allow"}
                refusal(await boss.patch(path, json={"permits": {"look": "maybe"}}), 422, "bad_input", "permits.look")

    run(journey())


def test_messages_come_in_pages_of_turns() -> None:
    async def journey() -> None:
        world = talking(calls("look", text="Well. "), says("One."), says("Two."), says("Three."))
        async with inside(world) as at:
            chat_id, turns = await said(at.client, "1", "2", "3")
            path = f"{CHATS}/{chat_id}/messages"
            page = (await at.client.get(path)).json()
            told = [(message["role"], message["content"]) for message in page["messages"]]
            assert told == [
                ("user", "1"), ("assistant", "Well. One."), ("user", "2"), ("assistant", "Two."), ("user", "3"),
                ("assistant", "Three."),
            ]  # fmt: skip
            assert "before" not in page
            blocks = page["messages"][1]["blocks"]
            assert [block["type"] for block in blocks] == ["text", "tool_call", "text"]
            assert (blocks[1]["name"], blocks[1]["status"]) == ("look", "success")
            newest = (await at.client.get(path, params={"limit": 2})).json()
            assert [message["content"] for message in newest["messages"]] == ["2", "Two.", "3", "Three."]
            assert newest["before"] == turns[1]
            older = (await at.client.get(path, params={"limit": 2, "before": newest["before"]})).json()
            assert [message["content"] for message in older["messages"]] == ["1", "Well. One."]

    run(journey())


def test_a_fork_begins_with_what_was_said_until_a_turn() -> None:
    async def journey() -> None:
        async with inside(talking(says("One."), says("Two."), says("Other."))) as at:
            chat_id, turns = await said(at.client, "1", "2")
            made = await at.client.post(f"{CHATS}/{chat_id}/fork", json={"turnId": turns[0]})
            assert (made.status_code, made.json()["forkedFrom"]) == (201, f"{chat_id}/{turns[0]}")
            fork_id = made.json()["id"]
            assert made.headers["location"] == f"{CHATS}/{fork_id}"
            await said(at.client, "2b", chat_id=fork_id)
            messages = (await at.client.get(f"{CHATS}/{fork_id}/messages")).json()["messages"]
            assert [message["content"] for message in messages] == ["1", "One.", "2b", "Other."]
            refusal(await at.client.post(f"{CHATS}/{chat_id}/fork", json={"turnId": "never"}), 404, "not_found")

    run(journey())


async def edited(at: Inside, chat_id: str) -> str:
    """A workflow that a chat has edited."""
    made = await at.services.workflows.create(Workflow(name="nightly"), THE_LOCAL_USER)
    note = Note(why="asked", chat_id=chat_id, message_id="m")
    operations = read_operations([{"op": "rename", "to": "weekly"}])
    await at.services.workflows.edit(made.id, THE_LOCAL_USER, 1, operations, note)
    return made.id


def test_what_a_conversation_did_to_a_workflow_is_taken_back() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            chat_id, _ = await said(at.client, "one")
            workflow_id = await edited(at, chat_id)
            [checkpoint] = (await at.client.get(f"{CHATS}/{chat_id}/checkpoints")).json()["checkpoints"]
            assert (checkpoint["workflowId"], checkpoint["version"], checkpoint["messageId"]) == (workflow_id, 2, "m")
            reverted = await at.client.post(f"{CHATS}/{chat_id}/revert", json={"checkpointId": checkpoint["id"]})
            assert (reverted.json()["version"], reverted.json()["workflow"]["name"]) == (3, "nightly")
            refusal(
                await at.client.post(f"{CHATS}/{chat_id}/revert", json={"checkpoint": f"{workflow_id}@9"}),
                404,
                "not_found",
            )

    run(journey())


def test_a_conversation_is_exported_whole() -> None:
    async def journey() -> None:
        async with inside(talking(says("One."), says("Two."))) as at:
            chat_id, _ = await said(at.client, "1", "2")
            exported = await at.client.get(f"{CHATS}/{chat_id}/export")
            assert exported.headers["content-type"] == "application/json"
            assert exported.headers["content-disposition"] == "attachment; filename=chat.json"
            assert "Two." in json.dumps(exported.json())
            text = await at.client.get(f"{CHATS}/{chat_id}/export", params={"format": "markdown"})
            assert text.headers["content-type"].startswith("text/markdown")
            assert "One." in text.text
            refusal(
                await at.client.get(f"{CHATS}/{chat_id}/export", params={"format": "pdf"}), 422, "bad_input", "format"
            )

    run(journey())


def test_an_answer_is_judged_by_who_got_it() -> None:
    async def journey() -> None:
        async with inside(talking()) as at, await keyed(at, "bob", Scope.RUN) as bob:
            chat_id, [turn] = await said(at.client, "one")
            body = {"turnId": turn, "rating": "up", "text": "just so"}
            given = (await at.client.post("/api/copilot/feedback", json=body)).json()
            assert (given["chatId"], given["rating"], given["text"], given["by"]) == (chat_id, "up", "just so", "local")
            refusal(await bob.post("/api/copilot/feedback", json=body), 404, "not_found")
            refusal(
                await at.client.post("/api/copilot/feedback", json={**body, "rating": "6"}), 422, "bad_input", "rating"
            )

    run(journey())


def test_a_conversation_is_deleted_with_all_its_turns_unless_one_is_live() -> None:
    async def journey() -> None:
        world = talking(says("One."), (Said("Tw"), HOLD, *says("o.")))
        async with inside(world) as at:
            chat_id, [turn] = await said(at.client, "1")
            going = asyncio.ensure_future(say(at.client, "2", chatId=chat_id))
            await eventually(lambda: len(backend_of(world).requests) == 2)
            refusal(await at.client.delete(f"{CHATS}/{chat_id}"), 409, "busy")
            backend_of(world).go_on()
            await going
            await eventually(lambda: not at.services.supervisor.live)
            assert (await at.client.delete(f"{CHATS}/{chat_id}")).status_code == 204
            refusal(await at.client.get(f"{CHATS}/{chat_id}"), 404, "not_found")
            refusal(await at.client.get(f"/api/runs/{turn}"), 410, "gone")

    run(journey())


def test_the_models_of_conversations_stand_beside_those_of_agents() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            found = (await at.client.get("/api/models")).json()
            assert isinstance(found["models"], list)
            [model] = found["chatModels"]
            assert (model["id"], model["default"], model["backend"]) == ("memory", True, "memory")
            assert found["chatProblem"] == ""
            assert (await at.client.get("/api/copilot/models")).json() == {"models": [model]}

    run(journey())


def test_the_commands_say_what_their_tools_may_touch() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            commands = {each["id"]: each for each in (await at.client.get("/api/commands")).json()["commands"]}
            assert commands.keys() == {
                "chat", "research", "create_plan", "revise_plan", "implement_simple", "implement_complex",
            }  # fmt: skip
            assert commands["research"]["touches"] == {"nothing": "allow"}
            assert [each["mode"] for each in commands.values() if each["mode"]] == ["agent", "ask", "plan"]

    run(journey())
