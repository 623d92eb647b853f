"""An agent calls the tools of the turn that it answers: each call is the turn's, and it hears what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from tests.engine.answering.test_backend import DONE, PATIENCE_S, Agent
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, events, happened, run, say
from tests.support.services import SECRET

from pilothouse.adapters.agents.lines import encode
from pilothouse.core.auth.agent_tokens import make_token
from pilothouse.core.auth.principals import Answering, Kind, Principal
from pilothouse.core.auth.refusals import InvalidKey
from pilothouse.core.chat.calls import CallStatus, OnApproval, RunBy
from pilothouse.core.chat.events import TextDelta
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.chat.routing import SERVER_CALLS
from pilothouse.core.chat.tool_events import ToolCalled, ToolEnded
from pilothouse.core.run.agents import News, SessionStarted, Text, ToolStarted
from pilothouse.core.run.agents import ToolEnded as ItsToolEnded
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.run.inputs import Stop
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.tools.spec import Permit, ToolAnswer, Touches
from pilothouse.engine.answering.backend import CATCH_UP_S
from pilothouse.engine.answering.tools import MOST_CALLS
from pilothouse.engine.services import Services
from pilothouse.engine.tools.arguments import LARGEST_ARGUMENTS
from pilothouse.engine.tools.callers import ToolCaller, ToolOutcome
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BadInput, NotFound, Refused

LONG = (10_000.0, Text(text=" Done."))
"""It prints no more before everything is over that a test does meanwhile."""


def machine_with(*tools: FakeTool, does: tuple[Any, ...] = (Text(text="Let me see."), LONG, DONE)) -> Agent:
    made = Agent(*does)
    made.tools = ToolRegistry(tools)
    return made


def agent_of(services: Services, turn_id: str, call: int = 1) -> ToolCaller:
    """The agent of a turn's request, as a caller of tools."""
    principal = Principal("local", Kind.AGENT, frozenset(), answering=Answering(turn_id, call))
    return services.tool_callers(principal)


def prints(machine: Agent, turn_id: str, *news: News) -> None:
    """More, of which the executor does not tell."""
    machine.logs.write(f"{turn_id}/agent/1/answer", b"".join(map(encode, news)))


async def moment(come: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(PATIENCE_S):
        while not come():
            await asyncio.sleep(0.01)


async def silent(_: str) -> None:
    pass


def calls(services: Services, turn_id: str, name: str = "look", id: str = "c1", **arguments: Any) -> Any:
    return agent_of(services, turn_id).call(id, name, arguments, silent)


async def asked(services: Services, **more: Any) -> str:
    """A turn whose agent is at work, and has told something."""
    sent = await say(services, timeout_ms=60_000, **more)
    await happened(services, sent.turn_id, "TEXT_DELTA")
    return sent.turn_id


async def approval(services: Services, turn_id: str) -> str:
    await happened(services, turn_id, "NEEDS_APPROVAL")
    return next(one.wait.id for one in await events(services, turn_id) if isinstance(one, NeedsApproval))


async def told(services: Services, turn_id: str) -> TurnResult:
    return await services.chats.result(turn_id, THE_LOCAL_USER)


async def at_once(waiting: Awaitable[ToolOutcome]) -> ToolOutcome:
    async with asyncio.timeout(PATIENCE_S):
        return await waiting


def test_calls_of_two_turns_have_two_ids_whatever_their_agents_call_them() -> None:
    machine = machine_with(FakeTool())

    async def test() -> None:
        async with machine.engine() as services:
            turns = [await asked(services), await asked(services)]
            for turn_id in turns:
                assert (await at_once(calls(services, turn_id, id="the same"))).ok
            ids = {call.id for turn_id in turns for call in (await told(services, turn_id)).tool_calls}
            assert len(ids) == 2

    run(test)


def test_a_call_is_executed_by_the_server_and_its_result_comes_back() -> None:
    tool = FakeTool(does=lambda arguments, _: {"seen": arguments["where"]})
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            outcome = await at_once(calls(services, turn_id, where="here"))
            assert outcome == ToolOutcome(ok=True, result={"seen": "here"})
            (call,) = (await told(services, turn_id)).tool_calls
            assert (call.name, call.status, call.params, call.result) == (
                "look",
                CallStatus.SUCCESS,
                {"where": "here"},
                {"seen": "here"},
            )
            (event,) = [one for one in await events(services, turn_id) if isinstance(one, ToolCalled)]
            assert event.run_by is RunBy.SERVER
            assert event.tool_call_id.startswith(SERVER_CALLS)
            assert (tool.contexts[0].owner, tool.contexts[0].turn_id) == ("local", turn_id)
            assert tool.contexts[0].call_id == event.tool_call_id

    run(test)


def test_what_it_printed_before_its_call_is_heard_before_it() -> None:
    """Also what the executor has not told of yet."""
    machine = machine_with(FakeTool())

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            prints(machine, turn_id, Text(text=" I look now."))
            await at_once(calls(services, turn_id))
            heard = [one for one in await events(services, turn_id) if isinstance(one, TextDelta | ToolCalled)]
            assert [one.text for one in heard[:-1] if isinstance(one, TextDelta)] == ["Let me see.", " I look now."]
            assert isinstance(heard[-1], ToolCalled)

    run(test)


def test_it_is_offered_what_it_has_no_better_tools_for() -> None:
    tools = (
        FakeTool("look"),
        FakeTool("read_file", of_workspace=True),
        FakeTool("touch", Touches.WORLD),
        FakeTool("never", permit=Permit.DENY),
    )
    machine = machine_with(*tools)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            agent = agent_of(services, turn_id)
            assert [spec.name for spec in await agent.offered()] == ["look", "touch"]
            for name in ("read_file", "never", "nothing", ""):
                with pytest.raises(NotFound):
                    await agent.call("c", name, {}, silent)
            assert not (await told(services, turn_id)).tool_calls

    run(test)


def test_where_tools_are_left_to_the_sender_it_is_offered_none() -> None:
    machine = machine_with(FakeTool())

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services, auto_execute=False)
            agent = agent_of(services, turn_id)
            assert await agent.offered() == ()
            with pytest.raises(NotFound):
                await agent.call("c", "look", {}, silent)

    run(test)


def test_in_a_mode_that_only_looks_it_is_offered_what_only_looks() -> None:
    machine = machine_with(FakeTool(), FakeTool("touch", Touches.WORLD))

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services, mode="ask")
            assert [spec.name for spec in await agent_of(services, turn_id).offered()] == ["look"]

    run(test)


def test_a_person_is_asked_and_the_call_waits_for_the_answer() -> None:
    tool = FakeTool("touch", Touches.WORLD)
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            said: list[str] = []

            async def tell(what: str) -> None:
                said.append(what)

            waiting = asyncio.create_task(agent_of(services, turn_id).call("c1", "touch", {"n": 1}, tell))
            wait_id = await approval(services, turn_id)
            await moment(lambda: bool(said))
            await asyncio.sleep(100)  # the time of a person is not the turn's
            assert not tool.ran
            await services.runs.answer(wait_id, "approve", by="me")
            assert await at_once(waiting) == ToolOutcome(ok=True, result={"n": 1})
            assert said[0] == "a person is asked whether touch may be used"
            assert len(said) == len({*said})

    run(test)


@pytest.mark.parametrize(
    ("answer", "ok", "pending", "words"),
    [
        ("refuse", False, False, "A person refused this call of touch"),
        ("background", True, True, "touch goes on in the background"),
    ],
)
def test_what_a_person_decides_is_told_in_words_for_a_model(answer: str, ok: bool, pending: bool, words: str) -> None:
    goes_on = asyncio.Event()

    async def slow(*_: Any) -> str:
        await goes_on.wait()
        return "late"

    machine = machine_with(FakeTool("touch", Touches.WORLD, does=slow))

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            waiting = asyncio.create_task(calls(services, turn_id, "touch"))
            await services.runs.answer(await approval(services, turn_id), answer, by="me")
            outcome = await at_once(waiting)
            assert (outcome.ok, outcome.pending) == (ok, pending)
            assert words in outcome.error
            goes_on.set()

    run(test)


@pytest.mark.parametrize(
    ("on_approval", "ran", "words"),
    [(OnApproval.REFUSE, 0, "nobody is asked"), (OnApproval.RUN, 1, "")],
)
def test_where_nobody_is_asked_it_is_told_so_or_goes_ahead(on_approval: OnApproval, ran: int, words: str) -> None:
    tool = FakeTool("touch", Touches.WORLD)
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services, on_approval=on_approval)
            outcome = await at_once(calls(services, turn_id, "touch"))
            assert len(tool.ran) == ran
            assert outcome.ok is bool(ran)
            assert words in outcome.error

    run(test)


def test_failures_of_tools_are_outcomes() -> None:
    def fails(arguments: Any, _: Any) -> ToolAnswer:
        return ToolAnswer(ok=False, error="there is no such place", result={"near": 1})

    async def stuck(*_: Any) -> None:
        await asyncio.Event().wait()

    machine = machine_with(FakeTool("look", does=fails), FakeTool("touch", Touches.RUNS, does=stuck, timeout_ms=1_000))

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            failed = await at_once(calls(services, turn_id))
            assert failed == ToolOutcome(ok=False, result={"near": 1}, error="there is no such place")
            late = await at_once(calls(services, turn_id, "touch", "c2"))
            assert "took longer than 1 s" in late.error
            assert "look before you call it again" in late.error

    run(test)


def test_the_same_call_twice_is_one_call_whether_it_is_over_or_not() -> None:
    goes_on = asyncio.Event()

    async def slow(*_: Any) -> str:
        await goes_on.wait()
        return "once"

    tool = FakeTool("touch", Touches.RUNS, does=slow)
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            both = [asyncio.create_task(calls(services, turn_id, "touch")) for _ in range(3)]
            await moment(lambda: bool(tool.ran))
            both[0].cancel()  # who lost the connection
            both.append(asyncio.create_task(calls(services, turn_id, "touch")))
            goes_on.set()
            assert {(await at_once(one)).result for one in both[1:]} == {"once"}
            assert (await at_once(calls(services, turn_id, "touch"))).result == "once"
            assert len(tool.ran) == 1
            other = await at_once(calls(services, turn_id, "touch", "c2"))
            assert (other.result, len(tool.ran)) == ("once", 2)

    run(test)


def test_after_a_restart_a_call_that_was_answered_is_answered_from_the_log() -> None:
    tool = FakeTool("touch", Touches.RUNS)
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            await at_once(calls(services, turn_id, "touch", n=1))
        async with machine.engine() as services:
            assert await at_once(calls(services, turn_id, "touch", n=1)) == ToolOutcome(ok=True, result={"n": 1})
            assert len(tool.ran) == 1
            assert (await at_once(calls(services, turn_id, "touch", "c2"))).ok

    run(test)


def test_after_a_restart_a_question_still_stands_and_its_caller_may_come_back_before_or_after_the_answer() -> None:
    tool = FakeTool("touch", Touches.WORLD)
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            waiting = asyncio.create_task(calls(services, turn_id, "touch"))
            wait_id = await approval(services, turn_id)
        waiting.cancel()
        async with machine.engine() as services:
            back = asyncio.create_task(calls(services, turn_id, "touch"))
            await services.runs.answer(wait_id, "approve", by="me")
            assert (await at_once(back)).ok
            assert (await at_once(calls(services, turn_id, "touch"))).ok
            assert len(tool.ran) == 1

    run(test)


@pytest.mark.parametrize(("touches", "ran"), [(Touches.NOTHING, 2), (Touches.RUNS, 1)])
def test_a_tool_that_was_interrupted_by_a_restart_runs_again_only_if_that_is_as_good(
    touches: Touches, ran: int
) -> None:
    begun = asyncio.Event()

    async def stuck_once(*_: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "again"

    tool = FakeTool("touch", touches, does=stuck_once)
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            waiting = asyncio.create_task(calls(services, turn_id, "touch"))
            await begun.wait()
        waiting.cancel()
        async with machine.engine() as services:
            outcome = await at_once(calls(services, turn_id, "touch"))
            assert len(tool.ran) == ran
            if ran == 2:
                assert outcome.result == "again"
            else:
                assert "It may have taken effect all the same" in outcome.error

    run(test)


async def _stop(services: Services, turn_id: str) -> None:
    await services.chats.abort(turn_id, THE_LOCAL_USER)


async def _cancel(services: Services, turn_id: str) -> None:
    await services.runs.control(turn_id, "cancel")


async def _time_passes(services: Services, turn_id: str) -> None:
    await asyncio.sleep(61)


@pytest.mark.parametrize(
    ("ends", "words"), [(_stop, "Stopped by user"), (_cancel, "topped"), (_time_passes, "time was up")]
)
@pytest.mark.parametrize("begun", [True, False])
def test_whoever_waits_when_the_turn_ends_is_told_so(
    ends: Callable[[Services, str], Coroutine[Any, Any, None]], words: str, begun: bool
) -> None:
    running = asyncio.Event()

    async def stuck(*_: Any) -> None:
        running.set()
        await asyncio.Event().wait()

    machine = machine_with(
        FakeTool("look", does=stuck, timeout_ms=100_000_000), FakeTool("touch", Touches.WORLD, does=stuck)
    )

    async def test() -> None:
        async with machine.engine() as services:
            # Of a headless turn the time of a person is its own, too.
            turn_id = await asked(services, headless=not begun, on_approval=OnApproval.WAIT)
            waiting = asyncio.create_task(calls(services, turn_id, "look" if begun else "touch"))
            if begun:
                await running.wait()
            else:
                await approval(services, turn_id)
            await ends(services, turn_id)
            outcome = await at_once(waiting)
            # Not before it is gone: it would ask its model what to make of the answer.
            assert "BACKEND_ENDED" in [one.type_name() for one in await events(services, turn_id)]
            assert not outcome.ok
            assert words in outcome.error or "this turn" in outcome.error
            result = await services.chats.wait(turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert [call.status for call in result.tool_calls] == [CallStatus.CANCELLED]
            with pytest.raises(Refused):
                await agent_of(services, turn_id).offered()
            with pytest.raises(Refused):
                await calls(services, turn_id, "look", "late")
            assert not (await at_once(calls(services, turn_id, "look" if begun else "touch"))).ok

    run(test)


def test_an_agent_that_ends_while_its_tool_runs_has_the_turn_wait_for_it() -> None:
    goes_on, begun = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any) -> str:
        begun.set()
        await goes_on.wait()
        return "late"

    machine = machine_with(
        FakeTool("touch", Touches.RUNS, does=slow, timeout_ms=3_600_000), does=(Text(text="Hm."), (5.0, DONE))
    )

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            waiting = asyncio.create_task(calls(services, turn_id, "touch"))
            await begun.wait()
            await happened(services, turn_id, "BACKEND_ENDED")
            outcome = await at_once(waiting)
            assert "does not wait for this agent any more" in outcome.error
            goes_on.set()
            result = await services.chats.wait(turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert result.success
            assert [call.result for call in result.tool_calls] == ["late"]

    run(test)


def test_a_question_falls_away_with_the_agent_that_would_hear_the_answer() -> None:
    tool = FakeTool("touch", Touches.WORLD)
    machine = machine_with(tool, does=(Text(text="Hm."), (5.0, DONE)))

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            waiting = asyncio.create_task(calls(services, turn_id, "touch"))
            await approval(services, turn_id)
            result = await services.chats.wait(turn_id, THE_LOCAL_USER, PATIENCE_S * 20)
            assert result.success
            (ended,) = [one for one in await events(services, turn_id) if isinstance(one, ToolEnded)]
            assert (ended.status, ended.reason) == (CallStatus.CANCELLED, "agent_ended")
            assert not (await at_once(waiting)).ok
            assert not tool.ran
            assert not await services.runs.waits()

    run(test)


def test_a_call_of_a_request_that_is_over_is_refused_though_another_goes_on() -> None:
    machine = machine_with(FakeTool(), does=(SessionStarted(session_id="s"), Text(text="One."), (5.0, DONE)))
    machine.then(Text(text="Two."), LONG, DONE)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            await services.chats.steer(turn_id, THE_LOCAL_USER, "More")
            await moment(lambda: len(machine.told) == 2)
            with pytest.raises(Refused):
                await agent_of(services, turn_id, 1).offered()
            with pytest.raises(Refused):
                await agent_of(services, turn_id, 1).call("c1", "look", {}, silent)
            assert (await at_once(agent_of(services, turn_id, 2).call("c1", "look", {}, silent))).ok

    run(test)


def test_a_call_that_comes_as_its_turn_ends_is_answered_and_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = FakeTool()
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)

            async def ends(*_: Any) -> None:
                """Between the look whether it is waited for and the moment in which it is told."""
                await services.chats.abort(turn_id, THE_LOCAL_USER)
                await services.chats.wait(turn_id, THE_LOCAL_USER, PATIENCE_S)

            monkeypatch.setattr(services.backend, "caught_up", ends)
            outcome = await at_once(calls(services, turn_id))
            assert (outcome.ok, tool.ran) == (False, [])
            assert "this turn was stopped" in outcome.error
            assert not (await told(services, turn_id)).tool_calls

    run(test)


def test_an_agent_that_cannot_be_read_calls_its_tools_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_with(FakeTool())

    async def never(*_: Any) -> int:
        await asyncio.Event().wait()
        return 0

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            with monkeypatch.context() as stuck:
                stuck.setattr(machine.logs, "size", never)
                began = asyncio.get_running_loop().time()
                assert (await at_once(calls(services, turn_id))).ok
                assert asyncio.get_running_loop().time() - began >= CATCH_UP_S  # of virtual time

    run(test)


def test_its_own_calls_are_never_taken_for_the_servers() -> None:
    tool = FakeTool("touch", Touches.WORLD)
    machine = machine_with(tool, FakeTool())

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            waiting = asyncio.create_task(calls(services, turn_id, "touch"))
            wait_id = await approval(services, turn_id)
            (call,) = (await told(services, turn_id)).tool_calls
            its_own = ToolStarted(call_id=call.id, tool="touch"), ItsToolEnded(call_id=call.id, tool="touch")
            prints(machine, turn_id, *its_own)
            await at_once(calls(services, turn_id, "look", "c2"))  # by when it was heard
            first, own, _ = (await told(services, turn_id)).tool_calls
            assert (first.status, own.id) == (CallStatus.AWAITING_APPROVAL, f"own.{call.id}")
            await services.runs.answer(wait_id, "approve", by="me")
            assert (await at_once(waiting)).ok
            assert len(tool.ran) == 1

    run(test)


@pytest.mark.parametrize("arguments", [["a"], "text", None])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    machine = machine_with(FakeTool())

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            with pytest.raises(BadInput):
                await agent_of(services, turn_id).call("c1", "look", arguments, silent)

    run(test)


def test_arguments_may_be_large_but_not_without_end() -> None:
    tool = FakeTool(does=lambda arguments, _: len(arguments["text"]))
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            size = LARGEST_ARGUMENTS - 100
            assert (await at_once(calls(services, turn_id, text="x" * size))).result == size
            with pytest.raises(BadInput):
                await calls(services, turn_id, id="c2", text="x" * LARGEST_ARGUMENTS)
            odd = await at_once(calls(services, turn_id, id="\ud800" * 10_000, text="\ud800"))
            assert odd.result == 1

    run(test)


def test_a_thousand_calls_are_a_thousand_outcomes_and_then_it_is_told_to_answer() -> None:
    tool = FakeTool(does=lambda arguments, _: arguments["n"])
    machine = machine_with(tool)

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            for start in range(0, MOST_CALLS, 100):
                outcomes = await asyncio.gather(
                    *(calls(services, turn_id, id=f"c{n}", n=n) for n in range(start, start + 100))
                )
                assert [outcome.result for outcome in outcomes] == list(range(start, start + 100))
            more = await at_once(calls(services, turn_id, id="more", n=0))
            assert "Answer with what is known" in more.error
            assert (await at_once(calls(services, turn_id, id="c7"))).result == 7

    run(test)


def test_its_token_is_good_for_as_long_as_its_turn_waits_for_it() -> None:
    machine = machine_with(FakeTool())

    async def test() -> None:
        async with machine.engine() as services:
            turn_id = await asked(services)
            tokens = services.agent_tokens
            principal = await tokens.recognise(make_token(SECRET, Answering(turn_id, 1)))
            assert principal == Principal("local", Kind.AGENT, frozenset(), answering=Answering(turn_id, 1))
            assert tokens.stands(principal)
            wrong = (Answering(turn_id, 2), Answering("no-such-turn", 1))
            for answering in wrong:
                with pytest.raises(InvalidKey):
                    await tokens.recognise(make_token(SECRET, answering))
            with pytest.raises(InvalidKey):
                await tokens.recognise(make_token(b"o" * len(SECRET), Answering(turn_id, 1)))
        async with machine.engine() as services:
            assert await services.agent_tokens.recognise(make_token(SECRET, Answering(turn_id, 1))) == principal
            await services.supervisor.tell(turn_id, Stop())
            result = await services.chats.wait(turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert not result.success
            with pytest.raises(InvalidKey):
                await services.agent_tokens.recognise(make_token(SECRET, Answering(turn_id, 1)))
            row = await services.queries.run(turn_id)
            assert row.lifecycle is Lifecycle.STOPPED

    run(test)
