"""Turns over HTTP: what is said is streamed, gone on with after any break, steered and stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interfaces.http.doors import SSE, events, eventually, inside, run, served
from tests.interfaces.http.keyed import keyed
from tests.interfaces.http.talking import (
    CHAT,
    HOLD,
    NEVER,
    STREAM,
    Shown,
    backend_of,
    calls,
    kinds,
    opened,
    rest_of,
    say,
    says,
    talking,
    text_of,
    tool_of,
    until,
)
from tests.interfaces.http.test_plans import refusal
from tests.support.services import submit
from tests.support.tools import TestTool

from pilothouse.core.auth.principals import THE_LOCAL_USER, Scope
from pilothouse.core.chat.backend import Failed, Said, ToolCalled
from pilothouse.core.chat.calls import Features
from pilothouse.core.tools.spec import Permit


def test_a_message_is_answered_by_a_stream_of_the_documents_events() -> None:
    async def journey() -> None:
        async with inside(talking(calls("look", text="Let me see."), says(" Done."))) as at:
            shown = await say(at.client)
            assert kinds(shown)[:2] == ["chat_id", "start"]
            assert [each for each in kinds(shown) if each in {"done", "error"}] == ["done"]
            assert shown[-1]["type"] == "done"
            assert text_of(shown) == "Let me see. Done."
            [result] = [each for each in shown if each["type"] == "tool_result"]
            assert (result["toolCallId"], result["toolName"]) == ("look-1", "look")
            assert (result["success"], result["result"]) == (True, {"done": "look"})
            assert result["data"]["name"] == "look"
            numbers = [each["eventId"] for each in shown]
            assert numbers == sorted(set(numbers))
            assert len({each["streamId"] for each in shown}) == 1

    run(journey())


def test_a_turn_that_fails_says_so_once_and_in_the_end() -> None:
    async def journey() -> None:
        async with inside(talking((Said("Hm"), Failed(message="it broke", shown="Something went wrong.")))) as at:
            shown = await say(at.client)
            assert text_of(shown) == "Hm"
            assert [each for each in kinds(shown) if each in {"done", "error"}] == ["error"]
            assert shown[-1]["error"]

    run(journey())


def test_without_a_stream_there_is_one_json_answer() -> None:
    async def journey() -> None:
        async with inside(talking(says("Hello."))) as at:
            answered = await at.client.post(CHAT, json={"message": "hi", "stream": False})
            assert (answered.status_code, answered.json()["content"]) == (200, "Hello.")

    run(journey())


def test_what_older_clients_send_is_taken_and_what_nobody_knows_is_refused() -> None:
    async def journey() -> None:
        world = talking(says("Hello."))
        async with inside(world) as at:
            old: dict[str, Any] = {
                "userMessageId": "m-1",
                "createNewChat": True,
                "mode": "agent",
                "prefetch": False,
                "provider": "openai",
                "implicitFeedback": "x",
                "contexts": [{"type": "docs", "content": "c"}],
                "fileAttachments": [{"id": "f"}],
                "commands": ["fast"],
            }
            await say(at.client, **old)
            [asked] = backend_of(world).requests
            assert asked.message_id == "m-1"
            assert asked.context == ({"type": "docs", "content": "c"},)
            assert asked.attachments == ({"id": "f"},)
            refusal(await at.client.post(CHAT, json={"message": "x", "colour": 1}), 422, "bad_input", "colour")
            refusal(await at.client.post(CHAT, json={}), 422, "bad_input", "message")

    run(journey())


async def whole_and_path(client: httpx.AsyncClient) -> tuple[list[Shown], str]:
    shown = await say(client)
    return shown, f"{STREAM}?streamId={shown[0]['streamId']}"


def test_a_stream_that_broke_off_anywhere_is_continued_without_gap_or_repeat(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking(calls("look", "touch", text="First."), says(" And ", "then."))
        async with served(tmp_path, world) as at:
            await at.services.chats.set_permit(THE_LOCAL_USER, "touch", Permit.ALLOW)
            whole, path = await whole_and_path(at.client)
            last = whole[-1]["eventId"]
            for cut in range(last):
                want = [each for each in whole if each["eventId"] > cut]
                assert await rest_of(at.client, whole[0]["streamId"], cut) == want
                for name in ("after", "from"):
                    async with opened(at.client, "GET", f"{path}&{name}={cut}") as stream:
                        assert [each async for each in stream] == want
            assert (await at.client.get(path, headers={"last-event-id": str(last)})).status_code == 204

    run(journey())


def test_a_client_comes_back_in_the_middle_of_the_text(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hel"), HOLD, *says("lo", ".")))
        async with served(tmp_path, world) as at:
            async with opened(at.client, "POST", CHAT, {"message": "hi"}) as stream:
                begin = await until(stream, "content")
            rest = asyncio.ensure_future(rest_of(at.client, begin[0]["streamId"], begin[-1]["eventId"]))
            backend_of(world).go_on()
            whole = begin + await rest
            assert whole == await replayed(at.client, begin[0]["streamId"])
            assert text_of(whole) == "Hello."

    run(journey())


def test_a_client_comes_back_in_the_middle_of_a_tool(tmp_path: Path) -> None:
    async def journey() -> None:
        hold = asyncio.Event()
        world = talking(calls("slow"), says("Done."))
        world.tools.add(TestTool("slow", holds=hold))
        async with served(tmp_path, world) as at:
            async with opened(at.client, "POST", CHAT, {"message": "hi"}) as stream:
                begin = await until(stream, "tool_executing")
            rest = asyncio.ensure_future(rest_of(at.client, begin[0]["streamId"], begin[-1]["eventId"]))
            hold.set()
            whole = begin + await rest
            assert whole == await replayed(at.client, begin[0]["streamId"])
            assert len(tool_of(world, "slow").calls) == 1

    run(journey())


def test_a_client_comes_back_in_the_middle_of_an_approval(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking(calls("touch"), says("Done."))
        async with served(tmp_path, world) as at:
            async with opened(at.client, "POST", CHAT, {"message": "hi"}) as stream:
                begin = await until(stream, "approval_required")
            stream_id = begin[0]["streamId"]
            async with opened(
                at.client, "GET", f"{STREAM}?streamId={stream_id}&after={begin[-1]['eventId']}"
            ) as stream:
                decided = {"toolCallId": begin[-1]["toolCallId"], "status": "accepted"}
                answered = (await at.client.post("/api/copilot/confirm", json=decided)).json()
                assert answered == {"success": True, **decided, "streamId": stream_id}
                whole = begin + [each async for each in stream]
            assert whole == await replayed(at.client, stream_id)
            assert kinds(whole).count("approval_resolved") == 1
            assert len(tool_of(world, "touch").calls) == 1

    run(journey())


async def replayed(client: httpx.AsyncClient, stream_id: str) -> list[Shown]:
    return await rest_of(client, stream_id, 0)


def test_a_batch_is_what_there_is_by_now() -> None:
    async def journey() -> None:
        async with inside(talking(says("a", "b", "c"))) as at:
            whole, path = await whole_and_path(at.client)
            stream_id, last = whole[0]["streamId"], whole[-1]["eventId"]
            batch = (await at.client.get(f"{path}&batch=true")).json()
            assert batch["events"] == whole
            assert (batch["streamId"], batch["status"], batch["live"]) == (stream_id, "succeeded", False)
            assert batch["lastEventId"] >= last
            some = (await at.client.get(f"{path}&batch=true&from=1&to={last - 1}")).json()
            assert some["events"] == whole[1:-1]
            page = (await at.client.get(f"{path}&batch=true&limit=2")).json()
            assert (page["events"], page["more"], page["lastEventId"]) == (whole[:2], True, whole[1]["eventId"])

    run(journey())


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "99999", "9" * 30])
def test_a_place_that_cannot_be_is_refused(after: str) -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            _, path = await whole_and_path(at.client)
            refusal(await at.client.get(f"{path}&after={after}"), 400, "malformed", "after")

    run(journey())


def test_only_turns_have_such_streams_and_only_their_owners_see_them() -> None:
    async def journey() -> None:
        async with inside(talking()) as at, await keyed(at, "bob", Scope.APPROVE) as bob:
            shown = await say(at.client)
            path = f"{STREAM}?streamId={shown[0]['streamId']}"
            refusal(await bob.get(path), 404, "not_found")
            refusal(await at.client.get(f"{STREAM}?streamId=never"), 404, "not_found")
            plan = await submit(at.services, "write a")
            refusal(await at.client.get(f"{STREAM}?streamId={plan}"), 404, "not_found")
            await at.client.delete(f"/api/copilot/chats/{shown[0]['chatId']}")
            refusal(await at.client.get(path), 410, "gone")

    run(journey())


def test_a_silent_stream_says_that_it_lives(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), NEVER))
        async with served(tmp_path, world, keepalive=0.01) as at:
            async with at.client.stream("POST", CHAT, json={"message": "hi"}) as response:
                assert response.headers["cache-control"] == "no-cache"
                assert response.headers["x-accel-buffering"] == "no"
                async for sent in events(response):
                    if sent == ": keepalive":
                        break
            await at.client.post(f"{CHAT}/abort", json={"streamId": backend_of(world).requests[0].turn_id})

    run(journey())


def test_a_turn_goes_on_when_its_reader_leaves(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hel"), HOLD, *says("lo.")))
        async with served(tmp_path, world) as at:
            async with opened(at.client, "POST", CHAT, {"message": "hi"}) as stream:
                begin = await until(stream, "content")
            backend_of(world).go_on()
            result = await at.services.chats.wait(begin[0]["streamId"], THE_LOCAL_USER, 10)
            assert (result.success, result.content) == (True, "Hello.")

    run(journey())


def test_a_page_that_is_reloaded_shows_the_live_turn_and_goes_on(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking(says("First."), (Said("Sec"), HOLD, *says("ond.")))
        async with served(tmp_path, world) as at:
            chat_id = (await say(at.client, "one"))[0]["chatId"]
            async with opened(at.client, "POST", CHAT, {"message": "two", "chatId": chat_id}) as stream:
                await until(stream, "content")
                chat = (await at.client.get(CHAT, params={"chatId": chat_id})).json()["chat"]
                snapshot = chat["streamSnapshot"]
                assert snapshot["streamId"] == chat["activeStreamId"]
                assert text_of(snapshot["events"]) == "Sec"
                assert [message["content"] for message in chat["messages"]] == ["one", "First.", "two", "Sec"]
                rest = asyncio.ensure_future(rest_of(at.client, snapshot["streamId"], snapshot["lastEventId"]))
                backend_of(world).go_on()
                assert text_of(snapshot["events"] + await rest) == "Second."
            chat = (await at.client.get(CHAT, params={"chatId": chat_id})).json()["chat"]
            assert (chat["streamSnapshot"], chat["activeStreamId"]) == (None, None)
            listed = (await at.client.get(CHAT)).json()
            assert (listed["success"], [each["id"] for each in listed["chats"]]) == (True, [chat_id])

    run(journey())


@pytest.mark.parametrize("verb", ["abort", "stop"])
def test_a_turn_is_stopped_by_its_stream_or_by_its_chat_and_keeps_what_it_said(verb: str) -> None:
    async def journey() -> None:
        world = talking(*[(Said("Hm"), NEVER)] * 2)
        async with inside(world) as at:
            for number, which in enumerate(("streamId", "chatId"), 1):
                asked = asyncio.ensure_future(say(at.client))
                await eventually(lambda number=number: len(backend_of(world).requests) == number)  # type: ignore[misc]  # bound in the loop
                request = backend_of(world).requests[-1]
                await eventually(lambda: len(backend_of(world).open) == 1)
                ids = {"streamId": request.turn_id, "chatId": request.chat_id}
                body = {which: ids[which], "content": "what the page shows"}
                answered = (await at.client.post(f"{CHAT}/{verb}", json=body)).json()
                assert answered == {"success": True, "aborted": True, "settled": True, "streamId": request.turn_id}
                shown = await asked
                assert (shown[-1]["type"], shown[-1]["data"]["status"]) == ("done", "stopped")
                assert text_of(shown) == "Hm"
                again = (await at.client.post(f"{CHAT}/{verb}", json=body)).json()
                assert (again["success"], again["aborted"]) == (True, False)
            refusal(await at.client.post(f"{CHAT}/{verb}", json={}), 422, "bad_input", "streamId")
            refusal(await at.client.post(f"{CHAT}/{verb}", json={"streamId": "never"}), 404, "not_found")

    run(journey())


def test_what_is_said_meanwhile_is_steering_and_afterwards_refused(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), HOLD, *says(".")), says("Faster."), features=Features(steers=False))
        async with served(tmp_path, world) as at:
            async with opened(at.client, "POST", CHAT, {"message": "hi"}) as stream:
                begin = await until(stream, "content")
                body = {"streamId": begin[0]["streamId"], "content": "faster", "steeringId": "s-1"}
                for _ in range(2):  # the same twice is one
                    answered = (await at.client.post(f"{CHAT}/steer", json=body)).json()
                    assert answered == {"success": True, "steeringId": "s-1"}
                backend_of(world).go_on()
                shown = begin + [each async for each in stream]
            assert kinds(shown).count("steered") == 1
            [applied] = [each for each in shown if each["type"] == "steering_applied"]
            assert applied["data"]["steeringIds"] == ["s-1"]
            assert backend_of(world).requests[1].steering == ("faster",)
            refusal(await at.client.post(f"{CHAT}/steer", json=body), 409, "refused")

    run(journey())


def test_a_chat_that_is_busy_says_with_which_turn() -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), HOLD, *says(".")))
        async with inside(world) as at:
            asked = asyncio.ensure_future(say(at.client))
            await eventually(lambda: len(backend_of(world).open) == 1)
            request = backend_of(world).requests[0]
            answered = await at.client.post(CHAT, json={"message": "and?", "chatId": request.chat_id})
            assert refusal(answered, 409, "busy")["activeStreamId"] == request.turn_id
            backend_of(world).go_on()
            await asked

    run(journey())


def test_a_message_that_is_sent_again_shows_its_turn_from_the_beginning() -> None:
    async def journey() -> None:
        world = talking(says("Once."))
        async with inside(world) as at:
            first = await say(at.client, messageId="m-1")
            assert await say(at.client, messageId="m-1") == first
            assert len(backend_of(world).requests) == 1

    run(journey())


def test_text_goes_on_while_tools_run_and_a_person_is_asked(tmp_path: Path) -> None:
    async def journey() -> None:
        hold = asyncio.Event()
        called = (ToolCalled(id="t", name="touch", arguments={}), ToolCalled(id="s", name="slow", arguments={}))
        world = talking((*called, Said("meanwhile"), HOLD, *says(".")))
        world.tools.add(TestTool("slow", holds=hold))
        async with served(tmp_path, world) as at:
            async with opened(at.client, "POST", CHAT, {"message": "hi"}) as stream:
                begin = await until(stream, "content")
                assert {"approval_required", "tool_executing"} <= set(kinds(begin))
                hold.set()
                backend_of(world).go_on()
                refused = {"toolCallId": "t", "status": "rejected"}
                assert (await at.client.post("/api/copilot/confirm", json=refused)).status_code == 200
                shown = begin + [each async for each in stream]
            ends = {each["toolCallId"]: each["data"]["status"] for each in shown if each["type"] in _ENDS}
            assert ends == {"t": "rejected", "s": "success"}

    run(journey())


_ENDS = {"tool_result", "tool_error"}


def test_a_stream_of_runs_shows_turns_too() -> None:
    async def journey() -> None:
        async with inside(talking()) as at:
            shown = await say(at.client)
            stream_id = shown[0]["streamId"]
            row = (await at.client.get(f"/api/runs/{stream_id}")).json()
            assert (row["kind"], row["sessionId"], row["status"]) == ("turn", shown[0]["chatId"], "succeeded")
            log = await at.client.get(f"/api/runs/{stream_id}/events", headers=SSE)
            assert b"TURN_RECEIVED" in log.content

    run(journey())


def test_everybody_who_looks_sees_the_same_wherever_they_begin(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking((Said("Hel"), HOLD, *says("lo", ".")))
        async with served(tmp_path, world) as at:
            asked = asyncio.ensure_future(say(at.client))
            await eventually(lambda: len(backend_of(world).open) == 1)
            stream_id = backend_of(world).requests[0].turn_id
            readers = [asyncio.ensure_future(rest_of(at.client, stream_id, after)) for after in (0, 1, 0, 3)]
            await asyncio.sleep(0)
            backend_of(world).go_on()
            whole = await asked
            for after, reader in zip((0, 1, 0, 3), readers, strict=True):
                assert await reader == [shown for shown in whole if shown["eventId"] > after]

    run(journey())


def test_a_turn_that_was_stopped_goes_on_in_another_leg_of_the_same_stream() -> None:
    async def journey() -> None:
        world = talking((Said("Hm"), NEVER), says("There."))
        async with inside(world) as at:
            asked = asyncio.ensure_future(say(at.client))
            await eventually(lambda: len(backend_of(world).open) == 1)
            stream_id = backend_of(world).requests[0].turn_id
            await at.client.post(f"{CHAT}/abort", json={"streamId": stream_id})
            before = await asked
            assert (await at.client.post(f"/api/runs/{stream_id}/resume")).status_code == 200
            after = await rest_of(at.client, stream_id, before[-1]["eventId"])
            assert (kinds(after)[0], kinds(after)[-1], text_of(after)) == ("start", "done", "There.")
            assert (after[0]["data"]["leg"], after[-1]["data"]["status"]) == (2, "complete")
            assert before + after == await replayed(at.client, stream_id)

    run(journey())


def test_a_picture_may_be_attached_and_a_larger_one_is_refused() -> None:
    async def journey() -> None:
        world = talking()
        async with inside(world) as at:
            picture = {"type": "image", "data": "x" * (4 << 20)}
            await say(at.client, attachments=[picture])
            assert backend_of(world).requests[0].attachments == (picture,)
            refused = await at.client.post(CHAT, content=b" " * ((24 << 20) + 1))
            refusal(refused, 413, "too_large")

    run(journey())


def test_a_client_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    async def journey() -> None:
        world = talking(says(*["x" * 65536] * 200))
        async with served(tmp_path, world) as at:
            reader, writer = await asyncio.open_unix_connection(str(at.socket))
            head = "POST /api/copilot/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(f'{head}Content-Length: 18\r\n\r\n{{"message":"more"}}'.encode())
            await eventually(lambda: bool(backend_of(world).requests))
            turn_id = backend_of(world).requests[0].turn_id
            result = await at.services.chats.wait(turn_id, THE_LOCAL_USER, 10)
            assert (result.success, len(result.content)) == (True, 200 * 65536)
            writer.close()
            del reader

    run(journey())
