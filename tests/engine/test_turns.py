"""Whole turns, from the message to the log: a backend that says what a test wrote, tools, people who answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.engine.conversations import (
    BOB,
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
    types,
    until,
    world,
)

from pilothouse.adapters.backends.memory import Break, Hold, Reports, Step, by_call
from pilothouse.core.chat.backend import Completed, ConversationKnown, Failed, Noticed, Paused, Said, Spent, Titled
from pilothouse.core.chat.calls import CallStatus, Features, GivenResult, OnApproval
from pilothouse.core.chat.events import TextDelta
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.chat.tool_events import ToolApproved, ToolEnded
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext, Touches
from pilothouse.core.workflow.document import Workflow
from pilothouse.engine.chats.turns import LONGEST_STEERING
from pilothouse.engine.chats.values import ChatChanges
from pilothouse.engine.services import Services
from pilothouse.errors import BackendFailed, BadInput, NotFound, Refused

LOOKED = by_call([Said("Let me see."), calling(at="a"), Completed()], [Said(" Done."), Completed()])


async def done(services: Services, turn_id: str) -> TurnResult:
    return await services.chats.wait(turn_id, THE_LOCAL_USER, 3600)


def test_a_message_is_answered_and_both_are_kept() -> None:
    async def journey() -> None:
        made = world(says=[(Said("Hel"), Said("lo")), Said(" you"), Completed()])
        async with made.engine() as services:
            sent = await say(services, "Who is there?")
            result = await done(services, sent.turn_id)
            assert (result.success, result.content, result.chat_id) == (True, "Hello you", sent.chat_id)
            user, answer = await services.chats.messages(sent.chat_id, THE_LOCAL_USER)
            assert (user.content, user.id, answer.content) == ("Who is there?", sent.message_id, "Hello you")
            chat = await services.chats.get(sent.chat_id, THE_LOCAL_USER)
            assert (chat.title, chat.active_stream_id) == ("Who is there?", None)
            deltas = [event for event in await events(services, sent.turn_id) if isinstance(event, TextDelta)]
            assert [delta.text for delta in deltas] == ["Hello", " you"], "one per chunk"

    run(journey)


def test_tools_run_at_once_beside_each_other_and_beside_the_text() -> None:
    meeting = asyncio.Barrier(2)

    async def meet(arguments: Mapping[str, Any], _: ToolContext) -> Any:
        await meeting.wait()
        return arguments["n"]

    async def journey() -> None:
        tool = FakeTool(does=meet)
        first: list[Step] = [(calling(id="a", n=1), calling(id="b", n=2)), Said("meanwhile"), Hold(), Completed()]
        made = world(tool, says=by_call(first, [Said("done"), Completed()]))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TOOL_ENDED")
            row = await services.queries.run(sent.turn_id)
            assert row.lifecycle is Lifecycle.RUNNING, "the stream goes on"
            backend_of(made).release()
            result = await done(services, sent.turn_id)
            assert [call.result for call in result.tool_calls] == [1, 2]
            second = backend_of(made).requests[1]
            assert second.answered == ("a", "b")

    run(journey)


def test_a_tool_works_for_the_turn_that_called_it() -> None:
    async def journey() -> None:
        tool = FakeTool()
        made = world(tool, says=LOOKED)
        async with made.engine() as services:
            sent = await say(services)
            await done(services, sent.turn_id)
            (context,) = tool.contexts
            assert (context.turn_id, context.chat_id, context.message_id, context.call_id, context.owner) == (
                sent.turn_id,
                sent.chat_id,
                sent.message_id,
                "c1",
                "local",
            )

    run(journey)


def test_what_tools_work_with_is_settled_once_when_the_message_is_sent() -> None:
    async def journey() -> None:
        tool = FakeTool()
        first: list[Step] = [calling(id="a"), Hold(), calling(id="b"), Completed()]
        made = world(tool, says=by_call(first, [Said("done"), Completed()]))
        async with made.engine() as services:
            sent = await say(services, workflow_id=await a_workflow(services))
            await happened(services, sent.turn_id, "TOOL_ENDED")
            changes = ChatChanges(mode="ask", workflow_id=await a_workflow(services), permits={"look": Permit.DENY})
            await services.chats.update(sent.chat_id, THE_LOCAL_USER, changes)
            backend_of(made).release()
            assert [call.status for call in (await done(services, sent.turn_id)).tool_calls] == ["success"] * 2
            before, after = tool.contexts
            assert after == msgspec.structs.replace(before, call_id="b")
            assert (before.mode, before.workflow_id) == ("chat", backend_of(made).requests[0].workflow_id)
            result = await done(services, (await say(services, "again", chat_id=sent.chat_id)).turn_id)
            assert {call.status for call in result.tool_calls} == {"skipped"}, "it counts from the next message on"

    run(journey)


async def a_workflow(services: Services) -> str:
    return (await services.workflows.create(Workflow(name="w"), THE_LOCAL_USER)).id


def test_what_is_not_there_is_an_answer_and_not_the_end() -> None:
    async def journey() -> None:
        made = world(says=LOOKED)
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            (call,) = result.tool_calls
            assert (result.success, call.status, call.error) == (True, CallStatus.ERROR, "Tool not found: look")

    run(journey)


def test_a_turn_waits_for_nothing_but_its_backend_its_tools_and_people() -> None:
    """In virtual time, in which only waiting takes any."""

    async def journey() -> None:
        async def work(*_: Any) -> str:
            await asyncio.sleep(2)
            return "found"

        first: list[Step] = [Said("Let me see."), calling(id="a"), calling(id="b"), calling("write", id="c")]
        says = by_call([*first, Paused(checkpoint_id="cp", pending=("a", "b", "c"))], [Said(" Done."), Completed()])
        made = world(FakeTool(does=work), FakeTool("write", Touches.FILES), says=says)
        async with made.engine() as services:
            began = made.clock.now_ms()
            sent = await say(services)
            asking = asyncio.create_task(done(services, sent.turn_id))
            while "NEEDS_APPROVAL" not in await types(services, sent.turn_id):
                await asyncio.sleep(0)
            assert made.clock.now_ms() == began, "text, calls and the question are there at once"
            await services.chats.confirm(THE_LOCAL_USER, "c", "accepted")
            assert (await asking).success
            took = made.clock.now_ms() - began
            assert 2_000 <= took < 2_010, "both tools at the same time, and beside them the pace of readers alone"

    run(journey)


def test_a_tool_that_hangs_fails_alone() -> None:
    async def hang(*_: Any) -> None:
        await asyncio.Event().wait()

    async def journey() -> None:
        slow = FakeTool("hang", does=hang, timeout_ms=60_000)
        says = by_call([(calling("hang", "a"), calling("look", "b")), Completed()], [Said("done"), Completed()])
        made = world(slow, FakeTool(), says=says)
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            hung, looked = result.tool_calls
            assert (result.success, hung.status, hung.reason, looked.status) == (True, "error", "watchdog", "success")

    run(journey)


def test_a_tool_that_will_not_be_ended_holds_up_nothing() -> None:
    free = asyncio.Event()

    async def stubborn(*_: Any) -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async def journey() -> None:
        tool = FakeTool("cling", does=stubborn, timeout_ms=1_000)
        made = world(tool, says=by_call([calling("cling"), Completed()], [Said("done"), Completed()]))
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            assert (result.success, result.tool_calls[0].reason) == (True, "watchdog")
            stuck = await say(services)
            await happened(services, stuck.turn_id, "TOOL_STARTED")
            await services.chats.abort(stuck.turn_id, THE_LOCAL_USER)
            assert await ended(services, stuck.turn_id) == "stopped"
            free.set()

    run(journey)


def test_a_crash_of_a_tool_is_its_calls_alone(caplog: pytest.LogCaptureFixture) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("oops")

    async def journey() -> None:
        made = world(FakeTool(does=crash), says=LOOKED)
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            assert result.success
            assert "ZeroDivisionError" in (result.tool_calls[0].error or "")

    run(journey)
    assert "tool.crashed" in caplog.text


# --- people ---

WRITING = by_call([calling("write", at="x"), Completed()], [Said("written"), Completed()])


def writing(**more: Any) -> tuple[World, FakeTool]:
    tool = FakeTool("write", Touches.FILES, **more)
    return world(tool, says=WRITING), tool


async def asked(services: Services, turn_id: str) -> str:
    """The wait of the call that somebody has to allow."""
    await happened(services, turn_id, "NEEDS_APPROVAL")
    (wait,) = (await services.queries.run(turn_id)).waits
    return wait.id


def test_a_person_allows_a_call_with_other_arguments() -> None:
    async def journey() -> None:
        made, tool = writing()
        async with made.engine() as services:
            sent = await say(services)
            await asked(services, sent.turn_id)
            turn_id = await services.chats.confirm(THE_LOCAL_USER, "c1", "accepted", arguments={"at": "y"})
            assert turn_id == sent.turn_id
            result = await done(services, sent.turn_id)
            assert (tool.ran, result.success) == ([{"at": "y"}], True)
            assert any(
                isinstance(event, ToolApproved) and event.by == "local" for event in await events(services, turn_id)
            )

    run(journey)


def test_of_two_answers_one_counts() -> None:
    async def journey() -> None:
        made, tool = writing()
        async with made.engine() as services:
            sent = await say(services)
            wait_id = await asked(services, sent.turn_id)
            answers = await asyncio.gather(
                services.chats.confirm(THE_LOCAL_USER, "c1", "rejected", turn_id=sent.turn_id, message="not that"),
                services.runs.answer(wait_id, "approve", "local"),
                return_exceptions=True,
            )
            assert [type(answer) for answer in answers if isinstance(answer, Exception)] in ([Refused], [NotFound])
            result = await done(services, sent.turn_id)
            assert (tool.ran, result.tool_calls[0].status, result.tool_calls[0].error) == ([], "rejected", "not that")

    run(journey)


def test_an_answer_for_the_chat_holds_for_its_next_turn_and_for_always_for_all() -> None:
    async def journey() -> None:
        made, tool = writing()
        async with made.engine() as services:
            sent = await say(services)
            await asked(services, sent.turn_id)
            await services.chats.confirm(THE_LOCAL_USER, "c1", "accepted", scope="chat")
            await ended(services, sent.turn_id)
            again = await say(services, chat_id=sent.chat_id)
            assert (await done(services, again.turn_id)).success
            assert len(tool.ran) == 2
            assert (await services.chats.get(sent.chat_id, THE_LOCAL_USER)).permits == {"write": Permit.ALLOW}
            other = await say(services)
            await asked(services, other.turn_id)
            await services.chats.confirm(THE_LOCAL_USER, "c1", "accepted", turn_id=other.turn_id, scope="always")
            await ended(services, other.turn_id)
            assert await services.chats.permits(THE_LOCAL_USER) == {"write": Permit.ALLOW}
            assert (await done(services, (await say(services)).turn_id)).success

    run(journey)


def test_nobody_answers_in_time() -> None:
    async def journey() -> None:
        made, tool = writing()
        async with made.engine() as services:
            sent = await say(services)
            result = await done(services, sent.turn_id)
            call = result.tool_calls[0]
            assert (result.success, call.status, call.reason, tool.ran) == (True, "rejected", "timeout", [])

    run(journey)


def test_a_call_is_sent_to_the_background_and_the_turn_ends_with_it() -> None:
    go = asyncio.Event()

    async def wait(*_: Any) -> str:
        await go.wait()
        return "built"

    async def journey() -> None:
        made = world(FakeTool("build_it", does=wait), says=by_call([calling("build_it"), Completed()], [Said("k")]))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TOOL_STARTED")
            await services.chats.confirm(THE_LOCAL_USER, "c1", "background", turn_id=sent.turn_id)
            await until(lambda: len(backend_of(made).requests) == 2)
            assert (await services.queries.run(sent.turn_id)).lifecycle is Lifecycle.RUNNING
            go.set()
            result = await done(services, sent.turn_id)
            assert result.tool_calls[0].result == "built"

    run(journey)


def test_a_program_says_beforehand_what_becomes_of_what_needs_approval() -> None:
    async def journey() -> None:
        made, tool = writing()
        async with made.engine() as services:
            refused = await say(services, headless=True, on_approval=OnApproval.REFUSE)
            call = (await done(services, refused.turn_id)).tool_calls[0]
            assert (call.status, call.reason, tool.ran) == ("skipped", "needs_approval", [])
            own = await say(services, principal=BOB, headless=True)
            assert (await services.chats.wait(own.turn_id, BOB, 60)).tool_calls[0].status == "success"

    run(journey)


def test_calls_left_to_the_sender_go_on_with_its_results() -> None:
    async def journey() -> None:
        made = world(FakeTool(), says=lambda asked: [Said("ok"), Completed()] if asked.results else list(LOOKED(asked)))
        async with made.engine() as services:
            sent = await say(services, auto_execute=False)
            result = await done(services, sent.turn_id)
            assert (result.success, result.requires_action, result.tool_calls[0].status) == (True, True, "pending")
            given = (GivenResult(id="c1", result="seen"),)
            again = await say(services, "", chat_id=sent.chat_id, tool_results=given)
            assert (await done(services, again.turn_id)).content == "ok"
            (told,) = backend_of(made).requests[-1].results
            assert (told.name, told.result) == ("look", "seen")

    run(journey)


# --- ends ---


def test_an_abort_ends_everything_at_once_and_keeps_what_had_come() -> None:
    async def hang(*_: Any) -> None:
        await asyncio.Event().wait()

    async def journey() -> None:
        features = Features(aborts=True)
        made = world(FakeTool(does=hang), says=[Said("Partial"), calling(), Hold()], features=features)
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TOOL_STARTED")
            assert await services.chats.abort(sent.chat_id, THE_LOCAL_USER) == sent.turn_id
            assert await ended(services, sent.turn_id) == "stopped"
            result = await services.chats.result(sent.turn_id, THE_LOCAL_USER)
            assert (result.success, result.content, result.error) == (False, "Partial", "Stopped by user")
            assert (result.tool_calls[0].status, result.tool_calls[0].reason) == ("cancelled", "stopped")
            assert (backend_of(made).open, len(backend_of(made).aborts)) == (set(), 1)
            assert await services.chats.abort(sent.turn_id, THE_LOCAL_USER) is None, "idempotent"

    run(journey)


def test_an_abort_while_somebody_is_asked_withdraws_the_question() -> None:
    async def journey() -> None:
        made, tool = writing()
        async with made.engine() as services:
            sent = await say(services)
            await asked(services, sent.turn_id)
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            assert await ended(services, sent.turn_id) == "stopped"
            assert (await services.queries.run(sent.turn_id)).waits == ()
            with pytest.raises((Refused, NotFound)):
                await services.chats.confirm(THE_LOCAL_USER, "c1", "accepted", turn_id=sent.turn_id)
            assert tool.ran == []

    run(journey)


def test_a_backend_that_does_not_take_the_abort_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> None:
        made = world(says=[Said("Hi"), Hold()], features=Features(aborts=True))
        backend = backend_of(made)

        async def never(_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(backend, "abort", never)
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            assert await ended(services, sent.turn_id) == "stopped"
            assert "BACKEND_ABORTED" in await types(services, sent.turn_id)

    run(journey)


def test_a_stopped_turn_goes_on_from_where_it_was() -> None:
    async def journey() -> None:
        made = world(says=by_call([Said("Once "), Hold()], [Said("upon a time"), Completed()]))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            await ended(services, sent.turn_id)
            await services.runs.control(sent.turn_id, "resume")
            assert await ended(services, sent.turn_id) == "succeeded"
            assert (await done(services, sent.turn_id)).content == "Once upon a time"
            assert [block.text for block in backend_of(made).requests[1].blocks] == ["Once "]  # type: ignore[union-attr]  # text it is

    run(journey)


def test_only_the_last_turn_of_a_chat_goes_on() -> None:
    async def journey() -> None:
        made = world(says=lambda asked: [Said("x"), Hold()] if asked.message == "first" else [Said("y"), Completed()])
        async with made.engine() as services:
            sent = await say(services, "first")
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            await ended(services, sent.turn_id)
            await ended(services, (await say(services, "second", chat_id=sent.chat_id)).turn_id)
            with pytest.raises(Refused, match="last turn"):
                await services.runs.control(sent.turn_id, "resume")

    run(journey)


def test_a_turn_takes_no_longer_than_it_may() -> None:
    async def journey() -> None:
        made = world(says=[Said("So far"), Hold()])
        async with made.engine() as services:
            sent = await say(services, timeout_ms=60_000)
            result = await done(services, sent.turn_id)
            assert (result.success, result.code, result.content) == (False, "timeout", "So far")
            assert result.error == "Request timed out after 60 s"
            assert backend_of(made).open == set()

    run(journey)


def test_what_was_used_is_told_of_a_turn_whose_time_was_up() -> None:
    async def journey() -> None:
        used = Spent(input_tokens=9, output_tokens=2, model="m")
        made = world(FakeTool(), says=by_call([used, calling(), Completed()], [Said("So far"), Hold()]))
        async with made.engine() as services:
            sent = await say(services, timeout_ms=60_000, headless=True)
            result = await done(services, sent.turn_id)
            assert (result.success, result.code, result.content) == (False, "timeout", "So far")
            assert (result.usage["inputTokens"], result.usage["totalTokens"]) == (9, 11)

    run(journey)


def test_a_stream_that_just_ends_is_an_error_that_says_so() -> None:
    async def journey() -> None:
        made = world(says=[Said("Half an")])
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            assert (result.success, result.content, result.code) == (False, "Half an", "backend_eof")
            assert result.error

    run(journey)


def test_a_failed_turn_can_be_tried_again() -> None:
    async def journey() -> None:
        made = world(
            says=by_call([Said("Half an"), Failed(message="overloaded", code="busy")], [Said(" hour"), Completed()])
        )
        async with made.engine() as services:
            sent = await say(services)
            assert (await done(services, sent.turn_id)).error == "overloaded"
            await ended(services, sent.turn_id)
            await services.runs.control(sent.turn_id, "retry")
            assert await ended(services, sent.turn_id) == "succeeded"
            assert (await done(services, sent.turn_id)).content == "Half an hour"

    run(journey)


def test_a_request_that_brought_nothing_is_made_again_and_again_but_not_for_ever() -> None:
    broken: list[Step] = [Break(BackendFailed("connection refused", transient=True))]
    whole: list[Step] = [Said("At last"), Completed()]

    async def journey() -> None:
        for failures, success in ((2, True), (3, False)):
            made = world(says=by_call(*[broken] * failures, whole))
            async with made.engine() as services:
                result = await done(services, (await say(services)).turn_id)
                assert (result.success, result.error) == (success, None if success else "connection refused")
                assert len(backend_of(made).requests) == 3

    run(journey)


def test_what_is_broken_for_good_is_not_tried_again() -> None:
    async def journey() -> None:
        made = world(says=[Break(BackendFailed("the key is wrong", status=401))])
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            assert (result.code, result.error) == ("backend_error", "the key is wrong")
            assert len(backend_of(made).requests) == 1

    run(journey)


def test_a_backend_may_refuse_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise BackendFailed("not today", transient=True)

    async def journey() -> None:
        made = world()
        monkeypatch.setattr(made.backend, "call", refuse)
        async with made.engine() as services:
            sent = await say(services)
            assert (await done(services, sent.turn_id)).error == "not today"
            assert (await types(services, sent.turn_id)).count("BACKEND_CALLED") == 3, "it might have been passing"

    run(journey)


def test_a_bug_in_a_backend_fails_its_request(caplog: pytest.LogCaptureFixture) -> None:
    def bug(_: object) -> list[Said]:
        raise ZeroDivisionError("oops")

    async def journey() -> None:
        made = world(says=bug)
        async with made.engine() as services:
            result = await done(services, (await say(services)).turn_id)
            assert (result.success, result.code) == (False, "internal_error")

    run(journey)
    assert "backend.crashed" in caplog.text


# --- what is told ---


def test_ends_of_calls_are_reported_until_the_backend_has_them() -> None:
    async def journey() -> None:
        says: list[Step] = [calling(), Reports(("c1",)), Said("I see"), Completed()]
        made = world(FakeTool(), says=says, features=Features(reports=True))
        backend_of(made).failing += [BackendFailed("502", transient=True)] * 3
        async with made.engine() as services:
            sent = await say(services)
            assert (await done(services, sent.turn_id)).content == "I see"
            assert await ended(services, sent.turn_id) == "succeeded"
            (report,) = backend_of(made).reports
            assert (report.tool_call_id, report.status, report.data) == ("c1", 200, {})
            assert len(backend_of(made).requests) == 1, "one stream, held open"

    run(journey)


def test_a_backend_that_pauses_gets_all_results_together() -> None:
    async def journey() -> None:
        first: list[Step] = [(calling(id="a"), calling(id="b")), Paused(checkpoint_id="cp", pending=("a", "b"))]
        made = world(FakeTool(), says=by_call(first, [Said("both"), Completed()]))
        async with made.engine() as services:
            assert (await done(services, (await say(services)).turn_id)).content == "both"
            second = backend_of(made).requests[1]
            assert (second.checkpoint_id, second.answered) == ("cp", ("a", "b"))

    run(journey)


def test_what_is_said_meanwhile_reaches_a_backend_that_listens() -> None:
    async def journey() -> None:
        made = world(says=[Said("A"), Hold(), Completed()], features=Features(steers=True))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            steering_id = await services.chats.steer(sent.turn_id, THE_LOCAL_USER, "shorter", "s1")
            await happened(services, sent.turn_id, "STEERING_APPLIED")
            assert [(one.steering_id, one.content) for one in backend_of(made).steers] == [("s1", "shorter")]
            assert await services.chats.steer(sent.chat_id, THE_LOCAL_USER, "shorter", "s1") == steering_id
            backend_of(made).release()
            await ended(services, sent.turn_id)
            assert len(backend_of(made).steers) == 1, "the same id is the same steering"
            with pytest.raises(Refused):
                await services.chats.steer(sent.turn_id, THE_LOCAL_USER, "more")

    run(journey)


def test_what_is_said_meanwhile_goes_with_the_next_request_otherwise() -> None:
    async def journey() -> None:
        made = world(says=by_call([Said("A"), Hold(), Completed()], [Said("B"), Completed()]))
        async with made.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            with pytest.raises(BadInput):
                await services.runs.control(sent.turn_id, "steer", content="x" * (LONGEST_STEERING + 1), by="local")
            await services.runs.control(sent.turn_id, "steer", content="shorter", by="local")
            backend_of(made).release()
            assert (await done(services, sent.turn_id)).content == "AB"
            assert backend_of(made).requests[1].steering == ("shorter",)

    run(journey)


def test_a_model_is_told_what_was_said_before() -> None:
    async def journey() -> None:
        made = world(says=lambda asked: [Said(f"re: {asked.message}"), Completed()])
        async with made.engine() as services:
            first = await say(services, "one")
            await done(services, first.turn_id)
            second = await say(services, "two", chat_id=first.chat_id)
            await done(services, second.turn_id)
            third = await say(services, "three", chat_id=first.chat_id)
            await done(services, third.turn_id)
            told = [message.content for message in backend_of(made).requests[-1].history]
            assert told == ["one", "re: one", "two", "re: two"]

    run(journey)


def test_a_summary_stands_for_what_was_before_it() -> None:
    async def journey() -> None:
        def says(asked: Any) -> list[Any]:
            summary = [Noticed(kind="compaction", data={"summary": "they counted"})] if asked.message == "two" else []
            return [*summary, Said("ok"), Completed()]

        made = world(says=says)
        async with made.engine() as services:
            sent = await say(services, "one")
            await done(services, sent.turn_id)
            for message in ("two", "three"):
                await done(services, (await say(services, message, chat_id=sent.chat_id)).turn_id)
            history = backend_of(made).requests[-1].history
            assert [message.content for message in history] == ["two", "ok"]
            assert history[-1].compaction == "they counted"

    run(journey)


def test_titles_are_made_or_told_and_a_person_has_the_last_word() -> None:
    async def journey() -> None:
        made = world(says=[Said("ok"), Completed()], features=Features(titles=True), title="On counting")
        async with made.engine() as services:
            sent = await say(services, "one two three")
            await ended(services, sent.turn_id)
            assert (await services.chats.get(sent.chat_id, THE_LOCAL_USER)).title == "On counting"
        backend_of(made).failing.append(BackendFailed("no"))
        async with made.engine() as services:
            other = await say(services, "four five six")
            await ended(services, other.turn_id)
            assert (await services.chats.get(other.chat_id, THE_LOCAL_USER)).title == "four five six"
        made = world(says=[Titled("Told"), ConversationKnown("conv-1"), Said("ok"), Completed()])
        async with made.engine() as services:
            told = await say(services, "hello")
            await ended(services, told.turn_id)
            chat = await services.chats.get(told.chat_id, THE_LOCAL_USER)
            assert (chat.title, chat.conversation_id) == ("Told", "conv-1")
            await ended(services, (await say(services, "more", chat_id=told.chat_id)).turn_id)
            assert backend_of(made).requests[-1].conversation_id == "conv-1"

    run(journey)


def test_a_workflow_that_a_tool_made_is_the_conversations_from_then_on() -> None:
    async def journey() -> None:
        tool = FakeTool(does=lambda *_: ToolAnswer(ok=True, result="made", workflow_id="wf"))
        made = world(tool, says=LOOKED)
        async with made.engine() as services:
            sent = await say(services)
            await done(services, sent.turn_id)
            assert backend_of(made).requests[1].workflow_id == "wf"
            assert (await services.chats.get(sent.chat_id, THE_LOCAL_USER)).workflow_id == "wf"
            about = await services.chats.list(THE_LOCAL_USER, workflow_id="wf")
            assert [chat.id for chat in about] == [sent.chat_id]
            assert await services.chats.list(THE_LOCAL_USER, workflow_id="other") == []
            (call,) = [event for event in await events(services, sent.turn_id) if isinstance(event, ToolEnded)]
            assert call.workflow_id == "wf"

    run(journey)
