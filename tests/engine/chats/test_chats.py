"""Conversations as a service: what is accepted, whose it is, one turn at a time, and everything kept beside turns."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.engine.conversations import (
    ANN,
    BOB,
    REPO,
    THE_LOCAL_USER,
    FakeTool,
    World,
    backend_of,
    calling,
    ended,
    events,
    happened,
    run,
    say,
    until,
    world,
)

from pilothouse.adapters.backends.memory import Hold, MemoryBackend, Step, by_call
from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.auth.refusals import NeedsScope
from pilothouse.core.chat.backend import Completed, Said
from pilothouse.core.chat.calls import Features, GivenResult, OnApproval
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.tools.spec import Permit, Touches
from pilothouse.core.workflow.document import Workflow
from pilothouse.core.workflow.history import Note
from pilothouse.engine.chats.chats import ChatChanges, Send
from pilothouse.engine.ports import EventStore
from pilothouse.engine.services import Services
from pilothouse.errors import BadInput, Busy, Gone, NotFound, Refused

HOLDING: list[Step] = [Said("x"), Hold(), Completed()]


async def received(services: Services, turn_id: str) -> TurnReceived:
    (found,) = [event for event in await events(services, turn_id) if isinstance(event, TurnReceived)]
    return found


# --- sending ---


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"message": "  "}, "message"),
        ({"message": "x" * 1_000_001}, "message"),
        ({"message": "half a pair: \ud83d"}, "message"),
        ({"mode": "loud"}, "mode"),
        ({"command": "loud"}, "command"),
        ({"timeout_ms": 0}, "timeout"),
        ({"timeout_ms": 10**12}, "timeout"),
        ({"model": "a\nb"}, "model"),
        ({"message_id": "a\0b"}, "messageId"),
        ({"attachments": ({},) * 101}, "attachments"),
        ({"attachments": ({"data": "x" * (17 << 20)},)}, "attachments"),
        ({"workspace": "/nowhere"}, "workspace"),
        ({"tool_results": (GivenResult(id="c1"),)}, "toolResults[0].id"),
    ],
)
def test_what_is_wrong_with_a_message_is_named_and_leaves_nothing_behind(wrong: dict[str, Any], field: str) -> None:
    async def journey() -> None:
        made = world()
        async with made.engine() as services:
            with pytest.raises(BadInput) as refused:
                await services.chats.send(Send(**{"message": "Hi", **wrong}), THE_LOCAL_USER)
            assert refused.value.field == field
            assert await services.chats.list(THE_LOCAL_USER) == []
            assert await services.queries.runs(kind="turn") == []

    run(journey)


@pytest.mark.parametrize(
    ("sent", "mode"),
    [
        ({}, "chat"),
        ({"mode": "agent"}, "chat"),
        ({"mode": "ask"}, "research"),
        ({"mode": "plan"}, "create_plan"),
        ({"mode": "revise_plan"}, "revise_plan"),
        ({"mode": "agent", "command": "research"}, "research"),
    ],
)
def test_modes_are_commands_and_a_command_wins(sent: dict[str, Any], mode: str) -> None:
    async def journey() -> None:
        made = world(FakeTool("look"), FakeTool("draft", Touches.DOCUMENTS), FakeTool("write", Touches.FILES))
        async with made.engine() as services:
            turn_id = (await say(services, **sent)).turn_id
            got = await received(services, turn_id)
            offered = {tool.name for tool in got.tools}
            expected = {"chat": {"look", "draft", "write"}, "research": {"look"}}.get(mode, {"look", "draft"})
            assert (got.mode, offered) == (mode, expected)
            await ended(services, turn_id)

    run(journey)


def test_what_a_message_says_of_its_chat_holds_from_then_on() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            await services.repos.add(REPO, "local")
            sent = await say(services, mode="ask", model="large", workspace=REPO)
            await ended(services, sent.turn_id)
            again = await say(services, chat_id=sent.chat_id)
            got = await received(services, again.turn_id)
            assert (got.mode, got.model, got.workspace) == ("research", "large", REPO)
            await ended(services, again.turn_id)
            chat = await services.chats.get(sent.chat_id, THE_LOCAL_USER)
            assert (chat.mode, chat.model, chat.workspace) == ("research", "large", REPO)

    run(journey)


def test_the_same_message_sent_again_is_the_same_turn() -> None:
    async def journey() -> None:
        made = world(says=HOLDING)
        async with made.engine() as services:
            sent = await asyncio.gather(*(say(services, "Hi", message_id="m-1") for _ in range(5)))
            assert len({one.turn_id for one in sent}) == len({one.chat_id for one in sent}) == 1
            assert [one.created for one in sent].count(True) == 1
            other = await say(services, "Hi", principal=ANN, message_id="m-1")
            assert other.created, "another user's message of that id is another message"
            backend_of(made).release()
            await ended(services, sent[0].turn_id)
            assert not (await say(services, "anything", message_id="m-1")).created
            await services.chats.delete(sent[0].chat_id, THE_LOCAL_USER)
            with pytest.raises(Gone):
                await say(services, "Hi", message_id="m-1")
            await ended(services, other.turn_id)

    run(journey)


def test_a_chat_has_one_live_turn() -> None:
    async def journey() -> None:
        made = world(says=HOLDING)
        async with made.engine() as services:
            sent = await say(services)
            tries = await asyncio.gather(
                *(say(services, "me too", chat_id=sent.chat_id) for _ in range(3)), return_exceptions=True
            )
            assert [one.active_turn_id for one in tries if isinstance(one, Busy)] == [sent.turn_id] * 3
            assert (await services.chats.get(sent.chat_id, THE_LOCAL_USER)).active_stream_id == sent.turn_id
            with pytest.raises(Busy):
                await services.chats.delete(sent.chat_id, THE_LOCAL_USER)
            backend_of(made).release()
            await ended(services, sent.turn_id)
            after = await asyncio.gather(
                *(say(services, "now", chat_id=sent.chat_id) for _ in range(3)), return_exceptions=True
            )
            assert sum(isinstance(one, Busy) for one in after) == 2

    run(journey)


def test_a_stopped_turn_that_goes_on_keeps_its_chat_to_itself() -> None:
    async def journey() -> None:
        made = world(says=HOLDING)
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            await ended(services, sent.turn_id)
            went = await asyncio.gather(
                services.runs.control(sent.turn_id, "resume"),
                say(services, "or this", chat_id=sent.chat_id),
                return_exceptions=True,
            )
            assert sum(isinstance(one, Refused) for one in went) == 1
            backend_of(made).release()
            await until(lambda: not services.supervisor.live)

    run(journey)


def test_a_workflow_is_found_by_id_and_by_name() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            made = await services.workflows.create(Workflow(name="nightly"), THE_LOCAL_USER)
            named: list[dict[str, Any]] = [{"workflow_id": made.id}, {"workflow_name": "nightly"}]
            for given in named:
                sent = await say(services, **given)
                assert (await received(services, sent.turn_id)).workflow_id == made.id
                await ended(services, sent.turn_id)
            with pytest.raises(NotFound):
                await say(services, workflow_id="nope")
            with pytest.raises(NotFound):
                await say(services, workflow_name="nope")
            with pytest.raises(NotFound):
                await say(services, principal=ANN, workflow_id=made.id)
            await services.workflows.create(Workflow(name="nightly"), THE_LOCAL_USER)
            with pytest.raises(BadInput, match="several"):
                await say(services, workflow_name="nightly")
            await services.workflows.delete(made.id, THE_LOCAL_USER)
            again = await say(services, chat_id=sent.chat_id, message="it is gone")
            assert (await received(services, again.turn_id)).workflow_id in ("", made.id)
            await ended(services, again.turn_id)

    asyncio.run(journey())


def test_who_may_decide_is_asked_before_anything_is_run_unasked() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            with pytest.raises(NeedsScope):
                await say(services, principal=ANN, on_approval=OnApproval.RUN)
            for principal, headless, expected in (
                (ANN, True, OnApproval.REFUSE),
                (BOB, True, OnApproval.RUN),
                (BOB, False, OnApproval.WAIT),
            ):
                sent = await say(services, principal=principal, headless=headless)
                assert (await received(services, sent.turn_id)).on_approval is expected
                await ended(services, sent.turn_id)

    run(journey)


# --- whose it is ---


def test_what_belongs_to_others_is_not_there() -> None:
    async def journey() -> None:
        made = world(FakeTool("write", Touches.FILES), says=by_call([calling("write"), Completed()], [Said("ok")]))
        async with made.engine() as services:
            chats = services.chats
            mine = await say(services, principal=ANN)
            await happened(services, mine.turn_id, "NEEDS_APPROVAL")
            chat, turn = mine.chat_id, mine.turn_id
            attempts = [
                say(services, principal=BOB, chat_id=chat),
                chats.wait(turn, BOB, 1),
                chats.result(turn, BOB),
                chats.abort(turn, BOB),
                chats.abort(chat, BOB),
                chats.steer(turn, BOB, "hm"),
                chats.steer(chat, BOB, "hm"),
                chats.confirm(BOB, "c1", "accepted"),
                chats.confirm(BOB, "c1", "accepted", turn_id=turn),
                chats.confirm(BOB, "c1", "success", turn_id=turn, result=1),
                chats.get(chat, BOB),
                chats.update(chat, BOB, ChatChanges(title="hm")),
                chats.delete(chat, BOB),
                chats.messages(chat, BOB),
                chats.fork(chat, BOB, turn),
                chats.checkpoints(chat, BOB),
                chats.revert(chat, BOB, "w@2"),
                chats.export(chat, BOB),
                chats.feedback(turn, BOB, "up"),
            ]
            for found in await asyncio.gather(*attempts, return_exceptions=True):
                assert isinstance(found, NotFound)
            assert await chats.list(BOB) == []
            assert [one.id for one in await chats.list(ANN)] == [chat]
            assert [one.id for one in await chats.list(THE_LOCAL_USER)] == [chat], "the owner of the server sees all"
            with pytest.raises(NeedsScope):
                await chats.confirm(ANN, "c1", "accepted")
            await chats.confirm(THE_LOCAL_USER, "c1", "accepted")
            await ended(services, turn)

    run(journey)


def test_a_turn_in_somebodys_chat_is_theirs_whoever_sent_it() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            first = await say(services, principal=ANN)
            await ended(services, first.turn_id)
            second = await say(services, principal=THE_LOCAL_USER, chat_id=first.chat_id)
            await ended(services, second.turn_id)
            assert (await services.chats.result(second.turn_id, ANN)).success

    run(journey)


def test_a_call_id_that_two_turns_have_needs_its_turn() -> None:
    async def journey() -> None:
        made = world(FakeTool("write", Touches.FILES), says=by_call([calling("write"), Completed()], [Said("ok")]))
        async with made.engine() as services:
            turns = [(await say(services)).turn_id for _ in range(2)]
            for turn_id in turns:
                await happened(services, turn_id, "NEEDS_APPROVAL")
            with pytest.raises(BadInput) as refused:
                await services.chats.confirm(THE_LOCAL_USER, "c1", "accepted")
            assert refused.value.field == "toolCallId"
            with pytest.raises(NotFound):
                await services.chats.confirm(THE_LOCAL_USER, "c9", "accepted")
            for turn_id in turns:
                await services.chats.confirm(THE_LOCAL_USER, "c1", "rejected", turn_id=turn_id)
                await ended(services, turn_id)

    run(journey)


def test_who_may_not_decide_cannot_pass_a_decision_for_a_result() -> None:
    async def journey() -> None:
        tool = FakeTool("write", Touches.FILES)
        made = world(tool, says=by_call([calling("write"), Completed()], [Said("ok"), Completed()]))
        async with made.engine() as services:
            sent = await say(services, principal=ANN)
            await happened(services, sent.turn_id, "NEEDS_APPROVAL")
            for status in ("success", "error", "accepted", "rejected", "background"):
                with pytest.raises((NeedsScope, Refused)):
                    await services.chats.confirm(ANN, "c1", status, turn_id=sent.turn_id, result={})
            with pytest.raises(BadInput):
                await services.chats.confirm(THE_LOCAL_USER, "c1", "maybe", turn_id=sent.turn_id)
            assert tool.ran == []
            await services.chats.abort(sent.turn_id, ANN)
            await ended(services, sent.turn_id)

    run(journey)


# --- waiting ---


def test_waiting_is_bounded_and_tells_what_there_is() -> None:
    async def journey() -> None:
        made = world(says=HOLDING)
        async with made.engine() as services:
            sent = await say(services)
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 5)
            assert (result.success, result.status, result.content) == (False, "running", "x")
            backend_of(made).release()
            assert (await services.chats.wait(sent.turn_id, THE_LOCAL_USER)).success
            await ended(services, sent.turn_id)

    run(journey)


def test_who_waits_leaves_and_the_turn_goes_on() -> None:
    async def journey() -> None:
        made = world(says=HOLDING)
        async with made.engine() as services:
            sent = await say(services)
            waiting = asyncio.create_task(services.chats.wait(sent.turn_id, THE_LOCAL_USER))
            await happened(services, sent.turn_id, "TEXT_DELTA")
            waiting.cancel()
            await asyncio.wait((waiting,))
            backend_of(made).release()
            assert await ended(services, sent.turn_id) == "succeeded"

    run(journey)


# --- the chats themselves ---


def test_chats_are_listed_by_their_last_use_and_put_away() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            chats = services.chats
            sent = [await _said(services, f"chat {n}") for n in range(3)]
            await _said(services, "again", chat_id=sent[0])
            assert [chat.id for chat in await chats.list(THE_LOCAL_USER)] == [sent[0], sent[2], sent[1]]
            assert [chat.id for chat in await chats.list(THE_LOCAL_USER, limit=1)] == [sent[0]]
            await chats.update(sent[1], THE_LOCAL_USER, ChatChanges(archived=True))
            assert [chat.id for chat in await chats.list(THE_LOCAL_USER)] == [sent[0], sent[2]]
            assert [chat.id for chat in await chats.list(THE_LOCAL_USER, archived=True)] == [sent[1]]
            assert len(await chats.list(THE_LOCAL_USER, archived=None)) == 3

    run(journey)


def test_a_page_of_chats_asks_the_store_as_often_as_one_chat() -> None:
    asked: list[str] = []

    async def point(operation: str) -> None:
        asked.append(operation)

    class Counted(World):
        async def open_store(self) -> EventStore:
            return MemoryEventStore(self.store, point)

    async def asking(services: Services, **question: Any) -> list[str]:
        asked.clear()
        await services.chats.list(THE_LOCAL_USER, **question)
        return sorted(asked)

    async def journey() -> None:
        made = Counted()
        made.backend = MemoryBackend([Said("x"), Completed()])
        async with made.engine() as services:
            await _said(services, "the first")
            alone = await asking(services)
            for number in range(9):
                await _said(services, f"chat {number}")
            assert await asking(services) == await asking(services, workflow_id="none's") == alone

    run(journey)


async def _said(services: Services, message: str, **more: Any) -> str:
    sent = await say(services, message, **more)
    await ended(services, sent.turn_id)
    await asyncio.sleep(1)  # of virtual time: the order of a list is by the clock
    return sent.chat_id


def test_a_chat_is_changed_in_part_and_what_is_wrong_is_named() -> None:
    async def journey() -> None:
        async with world(FakeTool()).engine() as services:
            chat_id = await _said(services, "hello")
            update = services.chats.update
            chat = await update(
                chat_id, THE_LOCAL_USER, ChatChanges(title="  My\n chat ", permits={"look": Permit.DENY})
            )
            assert (chat.title, chat.permits) == ("My chat", {"look": Permit.DENY})
            chat = await update(chat_id, THE_LOCAL_USER, ChatChanges(mode="ask", permits={"look": None}))
            assert (chat.title, chat.mode, chat.permits) == ("My chat", "research", {})
            for changes, field in (
                (ChatChanges(title=" "), "title"),
                (ChatChanges(mode="loud"), "mode"),
                (ChatChanges(workspace="/nowhere"), "workspace"),
                (ChatChanges(permits={"nope": Permit.ALLOW}), "tool"),
            ):
                with pytest.raises(BadInput) as refused:
                    await update(chat_id, THE_LOCAL_USER, changes)
                assert refused.value.field == field
            with pytest.raises(NotFound):
                await update(chat_id, THE_LOCAL_USER, ChatChanges(workflow_id="nope"))

    run(journey)


def test_what_is_denied_in_a_chat_is_not_run() -> None:
    async def journey() -> None:
        tool = FakeTool()
        made = world(tool, says=by_call([calling(), Completed()], [Said("ok"), Completed()]))
        async with made.engine() as services:
            await services.chats.set_permit(THE_LOCAL_USER, "look", Permit.DENY)
            sent = await say(services)
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 60)
            assert (result.tool_calls[0].reason, tool.ran) == ("not_permitted", [])
            await services.chats.set_permit(THE_LOCAL_USER, "look", None)
            assert await services.chats.permits(THE_LOCAL_USER) == {}
            with pytest.raises(BadInput):
                await services.chats.set_permit(THE_LOCAL_USER, "nope", Permit.ALLOW)

    run(journey)


def test_a_deleted_chat_is_gone_with_all_its_turns() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            sent = await say(services)
            await ended(services, sent.turn_id)
            await services.chats.feedback(sent.turn_id, THE_LOCAL_USER, "up")
            await services.chats.delete(sent.chat_id, THE_LOCAL_USER)
            for reading in (
                services.chats.get(sent.chat_id, THE_LOCAL_USER),
                services.chats.messages(sent.chat_id, THE_LOCAL_USER),
            ):
                with pytest.raises(NotFound):
                    await reading
            with pytest.raises(Gone):
                await services.queries.run(sent.turn_id)
            with pytest.raises(NotFound):
                await services.chats.result(sent.turn_id, ANN)

    run(journey)


def test_deleting_waits_a_little_for_what_an_ended_turn_still_owes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> None:
        made = world(features=Features(titles=True))
        takes = [3.0, 9.0]

        async def slow(_: object) -> str:
            await asyncio.sleep(takes.pop(0))
            return "At last"

        monkeypatch.setattr(made.backend, "title", slow)
        async with made.engine() as services:
            for deleted in (True, False):
                sent = await say(services)
                await services.chats.wait(sent.turn_id, THE_LOCAL_USER)
                if deleted:
                    await services.chats.delete(sent.chat_id, THE_LOCAL_USER)
                    continue
                with pytest.raises(Refused):
                    await services.chats.delete(sent.chat_id, THE_LOCAL_USER)
                await ended(services, sent.turn_id)
                await services.chats.delete(sent.chat_id, THE_LOCAL_USER)
            assert await services.chats.list(THE_LOCAL_USER) == []

    run(journey)


def test_a_fork_begins_with_what_was_said_and_outlives_where_it_comes_from() -> None:
    async def journey() -> None:
        made = world(says=lambda asked: [Said(f"re: {asked.message}"), Completed()])
        async with made.engine() as services:
            chats = services.chats
            sent = [await say(services, "one")]
            await ended(services, sent[0].turn_id)
            for message in ("two", "three"):
                sent.append(await say(services, message, chat_id=sent[0].chat_id))
                await ended(services, sent[-1].turn_id)
            fork = await chats.fork(sent[0].chat_id, THE_LOCAL_USER, sent[1].turn_id)
            assert fork.forked_from == f"{sent[0].chat_id}/{sent[1].turn_id}"
            await chats.delete(sent[0].chat_id, THE_LOCAL_USER)
            other = await say(services, "four", chat_id=fork.id)
            await ended(services, other.turn_id)
            told = [message.content for message in backend_of(made).requests[-1].history]
            assert told == ["one", "re: one", "two", "re: two"]
            contents = [message.content for message in await chats.messages(fork.id, THE_LOCAL_USER)]
            assert contents == ["one", "re: one", "two", "re: two", "four", "re: four"]
            twice = await chats.fork(fork.id, THE_LOCAL_USER, sent[0].turn_id)
            assert [m.content for m in await chats.messages(twice.id, THE_LOCAL_USER)] == ["one", "re: one"]
            with pytest.raises(NotFound):
                await chats.fork(twice.id, THE_LOCAL_USER, other.turn_id)

    run(journey)


def test_messages_come_in_pages() -> None:
    async def journey() -> None:
        async with world(says=[Said("ok"), Completed()]).engine() as services:
            chats = services.chats
            first = await say(services, "0")
            await ended(services, first.turn_id)
            turns = [first.turn_id]
            for n in range(1, 5):
                turns.append((await say(services, str(n), chat_id=first.chat_id)).turn_id)
                await ended(services, turns[-1])
            fork = await chats.fork(first.chat_id, THE_LOCAL_USER, turns[2])
            own = (await say(services, "fork", chat_id=fork.id)).turn_id
            await ended(services, own)

            async def asked(chat_id: str, **more: Any) -> list[str]:
                messages = await chats.messages(chat_id, THE_LOCAL_USER, **more)
                return [message.content for message in messages if message.role == "user"]

            assert await asked(first.chat_id, limit=2) == ["3", "4"]
            assert await asked(first.chat_id, limit=2, before=turns[3]) == ["1", "2"]
            assert await asked(first.chat_id, limit=2, before=turns[0]) == []
            assert await asked(fork.id, limit=2) == ["2", "fork"]
            assert await asked(fork.id, limit=2, before=own) == ["1", "2"]
            assert await asked(fork.id, limit=5, before=turns[1]) == ["0"]
            with pytest.raises(NotFound):
                await asked(fork.id, before=turns[4])

    run(journey)


def test_messages_of_a_turn_that_goes_on_are_as_far_as_they_have_come() -> None:
    async def journey() -> None:
        made = world(says=HOLDING)
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            _, answer = await services.chats.messages(sent.chat_id, THE_LOCAL_USER)
            assert (answer.content, answer.status) == ("x", "running")
            backend_of(made).release()
            await ended(services, sent.turn_id)
            _, answer = await services.chats.messages(sent.chat_id, THE_LOCAL_USER)
            assert answer.status == "succeeded"

    run(journey)


def test_what_a_conversation_did_to_a_workflow_can_be_taken_back() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            sent = await say(services)
            await ended(services, sent.turn_id)
            note = Note(why="asked for", chat_id=sent.chat_id, message_id=sent.message_id)
            made = await services.workflows.create(Workflow(name="old"), THE_LOCAL_USER)
            await services.workflows.replace(made.id, THE_LOCAL_USER, 1, Workflow(name="new"), note)
            own = await services.workflows.create(Workflow(name="mine"), THE_LOCAL_USER, note)
            chats, chat_id = services.chats, sent.chat_id
            found = {one.id: one for one in await chats.checkpoints(chat_id, THE_LOCAL_USER)}
            assert found.keys() == {f"{made.id}@2", f"{own.id}@1"}
            assert (found[f"{made.id}@2"].message_id, found[f"{made.id}@2"].why) == (sent.message_id, "asked for")
            reverted = await chats.revert(chat_id, THE_LOCAL_USER, f"{made.id}@2")
            assert (reverted.version, reverted.workflow.name) == (3, "old")
            with pytest.raises(Refused, match="delete it"):
                await chats.revert(chat_id, THE_LOCAL_USER, f"{own.id}@1")
            for wrong in (f"{made.id}@1", f"{made.id}@9", "nope@1", "nope", f"{made.id}@-1", f"{made.id}@" + "9" * 30):
                with pytest.raises(NotFound):
                    await chats.revert(chat_id, THE_LOCAL_USER, wrong)

    asyncio.run(journey())


def test_a_conversation_can_be_taken_along() -> None:
    async def journey() -> None:
        made = world(FakeTool(), says=by_call([Said("I look"), calling(at="```")], [Said("Done"), Completed()]))
        async with made.engine() as services:
            sent = await say(services, "What is there?")
            await ended(services, sent.turn_id)
            await services.chats.feedback(sent.turn_id, THE_LOCAL_USER, "down", "not enough")
            whole = json.loads(await services.chats.export(sent.chat_id, THE_LOCAL_USER))
            assert whole["chat"]["id"] == sent.chat_id
            assert [message["role"] for message in whole["messages"]] == ["user", "assistant"]
            assert whole["feedback"][0]["text"] == "not enough"
            text = (await services.chats.export(sent.chat_id, THE_LOCAL_USER, "markdown")).decode()
            assert "What is there?" in text
            assert "````" in text, "no argument closes its fence"
            with pytest.raises(BadInput):
                await services.chats.export(sent.chat_id, THE_LOCAL_USER, "pdf")

    run(journey)


def test_of_feedback_the_last_word_counts() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            sent = await say(services)
            await ended(services, sent.turn_id)
            await services.chats.feedback(sent.turn_id, THE_LOCAL_USER, "up")
            await services.chats.feedback(sent.turn_id, THE_LOCAL_USER, "down", "on second thought")
            whole = json.loads(await services.chats.export(sent.chat_id, THE_LOCAL_USER))
            assert [one["rating"] for one in whole["feedback"]] == ["down"]
            for rating, text in (("meh", ""), ("up", "x" * 10_001)):
                with pytest.raises(BadInput):
                    await services.chats.feedback(sent.turn_id, THE_LOCAL_USER, rating, text)

    run(journey)


def test_a_view_is_json() -> None:
    async def journey() -> None:
        async with world().engine() as services:
            chat = await services.chats.get(await _said(services, "hello"), THE_LOCAL_USER)
            assert set(msgspec.to_builtins(chat)) >= {
                "activeStreamId",
                "workflowId",
                "createdAt",
                "updatedAt",
                "permits",
            }

    run(journey)
