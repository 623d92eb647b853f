"""Subagents of language models: lanes of their calls, with tools that the turn permits and runs like any other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, events, happened, say
from tests.flow.test_chat_models import machine, model, questions, run, turn
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, call, fail, hang
from tests.support.models.parts import say as says

from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.events import LaneClosed, LaneOpened, TextDelta
from pilothouse.core.chat.tool_events import ToolCalled
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.tools.spec import Touches

WIRES = pytest.mark.parametrize("wire", ["openai", "openai-responses", "anthropic"])


def is_subagent(asked: Asked) -> bool:
    return "You are a subagent" in asked.text


def delegate(task: str, agent: str = "research") -> Any:
    return call("delegate", {"agent": agent, "task": task})


@WIRES
def test_a_subagent_works_in_its_lane_and_its_report_is_the_result(wire: str) -> None:
    def play(asked: Asked) -> Turn:
        if not is_subagent(asked):
            return (says("It is blue."),) if asked.results else (says("I ask."), delegate("Find the colour"))
        return (says("The colour is blue."),) if asked.results else (says("Let me see."), call("look", {"q": "colour"}))

    async def act(server: Any) -> None:
        look = FakeTool("look")
        async with machine(server, look, wire=wire) as services:
            result = await turn(services)
            told = await events(services, result.turn_id)
        assert (result.success, result.content) == (True, "I ask.It is blue.")
        assert look.ran == [{"q": "colour"}]
        errand, looked = result.tool_calls
        assert (errand.name, errand.result) == ("delegate", "The colour is blue.")
        lanes = [one for one in told if isinstance(one, LaneOpened | LaneClosed)]  # open while it is asked
        assert [type(one) for one in lanes] == [LaneOpened, LaneClosed] * 2
        assert {(one.tool_call_id, one.agent) for one in lanes if isinstance(one, LaneOpened)} == {
            (errand.id, "research")
        }
        (inner,) = [one for one in told if isinstance(one, ToolCalled) and one.tool_call_id == looked.id]
        assert inner.lane == errand.id
        assert (
            "".join(one.text for one in told if isinstance(one, TextDelta) and one.lane)
            == "Let me see.The colour is blue."
        )
        first, inside, _, last = questions(server)
        assert "Find the colour" in inside.text
        assert "Do it" not in inside.prompts  # it knows its task alone
        assert "delegate" in {tool.name for tool in first.tools}
        assert "delegate" not in {tool.name for tool in inside.tools}
        assert last.results == ("The colour is blue.",)

    with model(play) as server:
        run(act(server))


def test_subagents_of_one_answer_work_at_the_same_time_beside_other_tools() -> None:
    def play(asked: Asked) -> Turn:
        if is_subagent(asked):
            return (
                (says(f"Report on {asked.prompts[0]}."),) if asked.results else (call("look", {"q": asked.prompts[0]}),)
            )
        return (
            (says("All done."),) if asked.results else (delegate("one"), call("look", {"q": "main"}), delegate("two"))
        )

    inside: set[str] = set()
    all_three = asyncio.Event()

    async def together(arguments: Any, _: Any) -> Any:
        inside.add(arguments["q"])
        if inside == {"one", "main", "two"}:
            all_three.set()
        await all_three.wait()
        return arguments["q"]

    async def act(server: Any) -> None:
        async with machine(server, FakeTool("look", does=together)) as services:
            result = await turn(services)
        assert (result.success, result.content) == (True, "All done.")
        reports = [one.result for one in result.tool_calls if one.name == "delegate"]
        assert reports == ["Report on one.", "Report on two."]
        assert set(questions(server)[-1].results) == {"Report on one.", "main", "Report on two."}

    with model(play) as server:
        run(act(server))


def test_what_a_subagent_may_not_do_alone_is_asked() -> None:
    def play(asked: Asked) -> Turn:
        if is_subagent(asked):
            return (says("Written."),) if asked.results else (call("write", {"path": "a"}),)
        return (says("It is written."),) if asked.results else (delegate("write it"),)

    async def act(server: Any) -> None:
        write = FakeTool("write", Touches.FILES)
        async with machine(server, write) as services:
            sent = await say(services, "Write")
            await happened(services, sent.turn_id, "NEEDS_APPROVAL")
            (asked,) = [one for one in await events(services, sent.turn_id) if isinstance(one, NeedsApproval)]
            assert not write.ran
            await services.runs.answer(asked.wait.id, "approve", "me")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 20)
        assert (result.success, result.content) == (True, "It is written.")
        assert write.ran == [{"path": "a"}]

    with model(play) as server:
        run(act(server))


def test_a_subagent_that_fails_is_a_result_that_says_so() -> None:
    def play(asked: Asked) -> Turn:
        if is_subagent(asked):
            return (fail(400, "no such thing"),)
        return (says("It did not work."),) if asked.results else (delegate("try it"),)

    async def act(server: Any) -> None:
        async with machine(server, FakeTool()) as services:
            result = await turn(services)
        assert (result.success, result.content) == (True, "It did not work.")
        (errand,) = result.tool_calls
        assert errand.status is CallStatus.ERROR
        assert "no such thing" in questions(server)[-1].results[0]

    with model(play) as server:
        run(act(server))


def test_a_subagent_without_a_task_is_told_what_is_missing() -> None:
    def play(asked: Asked) -> Turn:
        return (says("Never mind."),) if asked.results else (call("delegate", {"agent": "research"}),)

    async def act(server: Any) -> None:
        async with machine(server, FakeTool()) as services:
            result = await turn(services)
        assert result.content == "Never mind."
        assert "needs a task" in questions(server)[-1].results[0]

    with model(play) as server:
        run(act(server))


def test_a_stop_ends_subagents_at_once() -> None:
    def play(asked: Asked) -> Turn:
        return (says("Still "), hang()) if is_subagent(asked) else (delegate("one"), delegate("two"))

    async def act(server: Any) -> None:
        async with machine(server, FakeTool()) as services:
            sent = await say(services)
            await asyncio.to_thread(server.wait_for, lambda _: server.holding == 2, 20)
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 20)
            await asyncio.to_thread(server.wait_for, lambda _: server.unanswered == 0, 10)
        assert {one.status for one in result.tool_calls} == {CallStatus.CANCELLED}

    with model(play) as server:
        run(act(server))


def test_a_subagent_that_goes_on_for_ever_is_brought_to_an_answer() -> None:
    def play(asked: Asked) -> Turn:
        if not is_subagent(asked):
            return (says("Enough."),) if asked.results else (delegate("never end"),)
        return (call("look", {"q": "more"}),) if asked.tools else (says("That is all."),)

    async def act(server: Any) -> None:
        look = FakeTool()
        async with machine(server, look) as services:
            result = await turn(services)
        assert result.content == "Enough."
        assert len(look.ran) == 25
        assert questions(server)[-1].results == ("That is all.",)

    with model(play) as server:
        run(act(server))
