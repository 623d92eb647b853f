"""Whole turns with a copilot backend: the engine, the remote backend and real sockets, over either wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, World, events, happened, say
from tests.support.copilot_backend import ABORT, REPORT, RESUME, STEER, TITLE, TURN, Answer, CopilotBackend, Drip, Step

from pilothouse.adapters.backends.memory import Break, Hold, Reports
from pilothouse.adapters.backends.remote import RemoteBackend
from pilothouse.core.chat.backend import (
    BackendEvent,
    Completed,
    ConversationKnown,
    Failed,
    LaneClosed,
    LaneOpened,
    Paused,
    Said,
    Spent,
    Thought,
    Titled,
    ToolAnswered,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.calls import CallStatus, GivenResult
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.tools.spec import Touches
from pilothouse.engine.services import Services
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BackendFailed

T = TypeVar("T")
BOTH = pytest.mark.parametrize("wire", ["v0", "v1"])
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Machine:
    server: CopilotBackend
    services: Services

    async def turn(self, message: str = "Do it", **more: Any) -> TurnResult:
        sent = await say(self.services, message, **more)
        return await self.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)


@BOTH
def test_a_turn_says_what_the_backend_said_and_keeps_what_it_told(wire: str) -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        used = Spent(input_tokens=10, output_tokens=5, model="m-9", cost=0.25)
        said: Sequence[Step] = [
            ConversationKnown("conv-1"),
            Thought("Hm."),
            Said("Hel"),
            Said("lo."),
            Titled("Greeting"),
            used,
            DONE,
        ]
        async with machine(said, wire=wire) as on:
            return await on.turn(), on.server

    result, server = run(act())
    assert result.success
    assert result.content == "Hello."
    assert result.title == "Greeting"
    assert result.conversation_id in ("conv-1", "r1")
    assert (result.usage["inputTokens"], result.usage["outputTokens"]) == (10, 5)
    (body,) = server.sent(TURN)
    assert body["message"] == "Do it"


def test_the_next_turn_goes_on_in_the_conversation_of_the_backend() -> None:
    async def act() -> CopilotBackend:
        async with machine([ConversationKnown("conv-1"), Said("Hi."), DONE], wire="v1") as on:
            first = await on.turn("One")
            await on.turn("Two", chat_id=first.chat_id)
            return on.server

    _, second = run(act()).sent(TURN)
    assert second["conversationId"] == "conv-1"
    assert "conversationHistory" not in second


def test_tools_are_reported_while_the_stream_is_open_and_text_goes_on() -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        script: Sequence[Step] = [
            Said("Looking. "),
            [calling("a", n=1), calling("b", "fail")],
            Said("Still here. "),
            Reports(("a", "b")),
            Said("Thanks."),
            DONE,
        ]
        async with machine(script, tools=(FakeTool(), FakeTool("fail", does=_raise))) as on:
            return await on.turn(), on.server

    result, server = run(act())
    assert result.success
    assert result.content == "Looking. Still here. Thanks."
    assert [(one.id, one.status) for one in result.tool_calls] == [("a", CallStatus.SUCCESS), ("b", CallStatus.ERROR)]
    reports = {body["id"]: body for body in server.sent(REPORT)}
    assert (reports["a"]["status"], reports["a"]["data"]) == (200, {"n": 1})
    assert reports["b"]["status"] == 500
    assert len(server.sent(REPORT)) == 2


def test_tools_of_the_strict_wire_go_together_with_the_next_request() -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        first: Sequence[Step] = [Said("Looking. "), [calling("a", n=1), calling("b", n=2)], paused("a", "b")]
        async with machine(first, [Said("Found."), DONE], wire="v1", tools=(FakeTool(),)) as on:
            return await on.turn(), on.server

    result, server = run(act())
    assert result.success
    assert result.content == "Looking. Found."
    (body,) = server.sent(RESUME)
    assert body["checkpointId"] == "cp"
    assert [(one["callId"], one["success"], one["data"]) for one in body["results"]] == [
        ("a", True, {"n": 1}),
        ("b", True, {"n": 2}),
    ]
    assert server.sent(REPORT) == []


@BOTH
def test_text_goes_on_while_a_person_is_asked(wire: str) -> None:
    tool = FakeTool("send", Touches.WORLD)

    async def act() -> tuple[TurnResult, CopilotBackend]:
        end: list[Step] = [Reports(("a",)), DONE] if wire == "v0" else [paused("a")]
        script: Sequence[Step] = [Said("May I? "), calling("a", "send"), Said("Meanwhile. "), Hold("seen"), *end]
        async with machine(script, [Said("Sent."), DONE], wire=wire, tools=(tool,)) as on:
            sent = await say(on.services)
            async for batch in on.services.queries.follow(sent.turn_id):
                if any(getattr(one.event, "text", "").startswith("Meanwhile") for one in batch.recorded):
                    break
            await happened(on.services, sent.turn_id, "NEEDS_APPROVAL")
            assert tool.ran == []
            on.server.release("seen")
            await on.services.chats.confirm(THE_LOCAL_USER, "a", "accepted", turn_id=sent.turn_id)
            return await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S), on.server

    result, server = run(act())
    assert result.success
    assert [one.status for one in result.tool_calls] == [CallStatus.SUCCESS]
    assert len(tool.ran) == 1
    assert len(server.sent(REPORT)) == (1 if wire == "v0" else 0)


def test_a_refused_call_is_reported_as_refused() -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        script: Sequence[Step] = [calling("a", "send"), Reports(("a",)), Said("As you like."), DONE]
        async with machine(script, tools=(FakeTool("send", Touches.WORLD),)) as on:
            sent = await say(on.services)
            await happened(on.services, sent.turn_id, "NEEDS_APPROVAL")
            await on.services.chats.confirm(THE_LOCAL_USER, "a", "rejected", turn_id=sent.turn_id)
            return await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S), on.server

    result, server = run(act())
    assert result.content == "As you like."
    (report,) = server.sent(REPORT)
    assert report["status"] == 400
    assert report["data"]["reason"] == "user_rejected"


def test_a_report_that_cannot_be_made_at_first_is_made_again() -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        async with machine([calling("a"), Reports(("a",)), Said("Ok."), DONE], tools=(FakeTool(),)) as on:
            # The server counts a report when it comes in, so that one which fails does not let the stream go on.
            on.server.answers[REPORT] = [Answer(503), Answer(503)]
            return await on.turn(), on.server

    result, server = run(act())
    assert result.success
    assert len(server.sent(REPORT)) == 3


@BOTH
def test_calls_and_results_that_come_twice_count_once(wire: str) -> None:
    tool = FakeTool()

    async def act() -> TurnResult:
        end: list[Step] = [Reports(("a",)), DONE] if wire == "v0" else [paused("a")]
        echo = ToolAnswered(id="a", name="look", success=True, result={"echo": 1})
        script: Sequence[Step] = [
            ToolGenerating(id="a", name="look"),
            ToolCalled(id="a", name="look", arguments={"n": 0}, partial=True),
            calling("a", n=1),
            calling("a", n=1),
            *end[:-1],
            echo,
            echo,
            end[-1],
        ]
        async with machine(script, [DONE], wire=wire, tools=(tool,)) as on:
            return await on.turn()

    result = run(act())
    assert tool.ran == [{"n": 1}]
    assert [(one.id, one.params) for one in result.tool_calls] == [("a", {"n": 1})]


@BOTH
def test_lanes_of_subagents_do_not_mix_with_the_answer(wire: str) -> None:
    async def act() -> tuple[TurnResult, list[str]]:
        one = ToolCalled(id="s1", name="research", arguments={})
        two = ToolCalled(id="s2", name="debug", arguments={})
        script: Sequence[Step] = [
            [one, two, LaneOpened(id="s1", agent="research"), LaneOpened(id="s2", agent="debug")],
            Said("first", "s1"),
            Said("second", "s2"),
            Said("third", "s1"),
            [LaneClosed(id="s2", agent="debug"), LaneClosed(id="s1", agent="research")],
            [ToolAnswered(id=id, name=name, success=True) for id, name in (("s1", "research"), ("s2", "debug"))],
            Said("Answer."),
            DONE,
        ]
        async with machine(script, wire=wire) as on:
            sent = await say(on.services)
            result = await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            texts = [one for one in await events(on.services, sent.turn_id) if one.type_name() == "TEXT_DELTA"]
            return result, [f"{one.lane}:{one.text}" for one in texts]  # type: ignore[attr-defined]  # they are texts

    result, texts = run(act())
    assert result.content == "Answer."
    assert texts == ["s1:first", "s2:second", "s1:third", ":Answer."]


@BOTH
def test_a_connection_that_is_killed_keeps_what_came_and_says_what_happened(wire: str) -> None:
    async def act() -> TurnResult:
        script: Sequence[Step] = [Said("So far"), Hold("logged"), Break(BackendFailed("killed"))]
        async with machine(script, wire=wire) as on:
            sent = await say(on.services)
            await happened(on.services, sent.turn_id, "TEXT_DELTA")
            on.server.release("logged")
            return await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)

    result = run(act())
    assert not result.success
    assert result.content == "So far"
    assert result.error and "broke off" in result.error
    assert result.code == "backend_unreachable"


@BOTH
def test_a_stream_that_ends_without_a_last_word_is_an_error_that_says_so(wire: str) -> None:
    async def act() -> TurnResult:
        async with machine([Said("So far")], wire=wire) as on:
            return await on.turn()

    result = run(act())
    assert (result.success, result.content, result.code) == (False, "So far", "backend_eof")
    assert result.error


@BOTH
def test_an_error_of_the_backend_is_the_turns_with_the_content_kept(wire: str) -> None:
    async def act() -> TurnResult:
        async with machine([Said("So far"), Failed(message="no more", code="overloaded")], wire=wire) as on:
            return await on.turn()

    result = run(act())
    assert (result.success, result.content, result.code) == (False, "So far", "overloaded")
    assert result.error and "no more" in result.error


def test_a_backend_that_is_busy_is_asked_again_and_one_that_refuses_is_not() -> None:
    async def act() -> tuple[TurnResult, int, TurnResult, int]:
        async with machine([Answer(503)], [Answer(429)], [Said("At last."), DONE]) as on:
            busy, tries = await on.turn(), len(on.server.sent(TURN))
            on.server.plays([Answer(401, {"error": "bad key"})])
            refused = await on.turn()
            return busy, tries, refused, len(on.server.sent(TURN)) - tries

    busy, tries, refused, more = run(act())
    assert (busy.success, busy.content, tries) == (True, "At last.", 3)
    assert (refused.success, more) == (False, 1)
    assert refused.error and "PILOTHOUSE_BACKEND_API_KEY" in refused.error


def test_spent_usage_is_said_and_is_no_error() -> None:
    async def act() -> TurnResult:
        async with machine([Answer(402, {"message": "No credits"})]) as on:
            return await on.turn()

    result = run(act())
    assert result.success
    assert result.content == '<usage_upgrade>{"message":"No credits"}</usage_upgrade>'


@BOTH
def test_a_stop_closes_the_connection_and_reaches_the_backend(wire: str) -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        async with machine([Said("So far"), Hold()], wire=wire) as on:
            sent = await say(on.services, message_id="m-1")
            await happened(on.services, sent.turn_id, "TEXT_DELTA")
            await on.services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            result = await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            await on.server.until(lambda: on.server.left == 1 and bool(on.server.sent(ABORT)))
            return result, on.server

    result, server = run(act())
    assert (result.status, result.content) == ("stopped", "So far")
    assert server.sent(ABORT)[0]["streamId"] == "m-1"


def test_a_turn_that_takes_too_long_ends_by_itself_with_what_there_is() -> None:
    async def act() -> TurnResult:
        async with machine([Said("So far"), Hold()]) as on:
            return await on.turn(timeout_ms=1000)

    result = run(act())
    assert (result.success, result.content, result.code) == (False, "So far", "timeout")


def test_steering_reaches_the_backend_while_it_works() -> None:
    async def act() -> CopilotBackend:
        async with machine([Said("Well. "), Hold("steered"), DONE], wire="v1") as on:
            sent = await say(on.services)
            await happened(on.services, sent.turn_id, "TEXT_DELTA")
            await on.services.chats.steer(sent.turn_id, THE_LOCAL_USER, "Shorter", "s-1")
            await on.server.until(lambda: bool(on.server.sent(STEER)))
            on.server.release("steered")
            await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            return on.server

    server = run(act())
    assert [(one["steeringId"], one["content"]) for one in server.sent(STEER)] == [("s-1", "Shorter")]
    assert len(server.sent(TURN)) == 1


def test_steering_that_the_backend_has_no_route_for_goes_with_a_further_request() -> None:
    async def act() -> tuple[TurnResult, CopilotBackend]:
        async with machine([Said("Well. "), Hold("steered"), DONE], [Said("Ok."), DONE]) as on:
            on.server.answers[STEER] = [Answer(404)]
            sent = await say(on.services)
            await happened(on.services, sent.turn_id, "TEXT_DELTA")
            await on.services.chats.steer(sent.turn_id, THE_LOCAL_USER, "Shorter", "s-1")
            await on.server.until(lambda: bool(on.server.sent(STEER)))
            on.server.release("steered")
            return await on.services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S), on.server

    result, server = run(act())
    assert result.success
    assert result.content == "Well. Ok."
    assert [one["message"] for one in server.sent(TURN)] == ["Hi", "Shorter"]


@BOTH
def test_rubbish_in_the_stream_is_noticed_and_passed_over(wire: str) -> None:
    rubbish = b': hello\r\ndata: {broken\r\n\r\ndata: {"type":"no_such_type","v":1,"payload":{}}\n\nnonsense\n\n'

    async def act() -> TurnResult:
        async with machine([Said("A"), rubbish, Drip(rubbish, 3), Said("B"), DONE], wire=wire) as on:
            return await on.turn()

    result = run(act())
    assert result.success
    assert result.content == "AB"


def test_the_title_of_a_first_message_is_made_by_the_backend() -> None:
    async def act() -> str:
        async with machine([Said("Hi."), DONE]) as on:
            result = await on.turn("Tell me about rivers")
            await on.server.until(lambda: bool(on.server.sent(TITLE)))
            async with asyncio.timeout(PATIENCE_S):
                while (
                    view := await on.services.chats.get(result.chat_id, THE_LOCAL_USER)
                ).title == "Tell me about rivers":
                    await asyncio.sleep(0)
            return view.title

    assert run(act()) == "A loopback title"


def test_calls_that_are_left_to_whoever_asked_come_back_as_reports() -> None:
    tool = FakeTool()

    async def act() -> tuple[TurnResult, TurnResult, CopilotBackend]:
        async with machine([calling("a"), DONE], [Said("Thanks."), DONE], tools=(tool,)) as on:
            first = await on.turn(auto_execute=False)
            given = (GivenResult(id="a", name="look", result={"n": 1}),)
            second = await on.turn("Here", chat_id=first.chat_id, tool_results=given)
            return first, second, on.server

    first, second, server = run(act())
    assert first.requires_action
    assert [one.status for one in first.tool_calls] == [CallStatus.PENDING]
    assert second.content == "Thanks."
    assert tool.ran == []
    assert [(one["id"], one["status"]) for one in server.sent(REPORT)] == [("a", 202), ("a", 200)]
    assert server.sent(REPORT)[1]["data"] == {"n": 1}


DONE = Completed()


def calling(id: str, name: str = "look", **arguments: Any) -> ToolCalled:
    return ToolCalled(id=id, name=name, arguments=arguments)


def paused(*pending: str) -> BackendEvent:
    return Paused(checkpoint_id="cp", pending=pending)


def _raise(*_: object) -> None:
    raise BackendFailed("it does not work")


@asynccontextmanager
async def machine(*scripts: Sequence[Step], wire: str = "v0", tools: Sequence[FakeTool] = ()) -> AsyncIterator[Machine]:
    server, world = CopilotBackend(wire), World()
    server.plays(*scripts)
    world.tools = ToolRegistry(tools)
    async with server.serving(), RemoteBackend.opened(server.url, "key") as backend:
        world.backend = backend
        async with world.engine() as services:
            yield Machine(server, services)


def run(act: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(3 * PATIENCE_S):
            return await act

    return asyncio.run(bounded())
