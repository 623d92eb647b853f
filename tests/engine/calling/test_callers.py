"""Whoever has the scope calls the server's tools outside any turn: what is offered, what comes of it, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.engine.conversations import ANN, BOB, THE_LOCAL_USER, FakeTool, run, world

from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.system.clock import SystemClock
from pilothouse.adapters.system.ids import Uuid7Ids
from pilothouse.core.auth.principals import Kind, Principal, Scope
from pilothouse.core.auth.refusals import NeedsScope
from pilothouse.core.tools.spec import Permit, ToolAnswer, Touches
from pilothouse.engine.calling import direct_calls
from pilothouse.engine.tools.arguments import LARGEST_ARGUMENTS
from pilothouse.engine.tools.callers import ToolOutcome
from pilothouse.engine.tools.journal import ToolJournal
from pilothouse.errors import BadInput, NotFound, StoreFailed


async def silent(_: str) -> None:
    pass


def test_it_is_offered_what_needs_no_conversation() -> None:
    tools = (
        FakeTool("look"),
        FakeTool("touch", Touches.WORLD),
        FakeTool("never", permit=Permit.DENY),
        FakeTool("read_file", of_workspace=True),
    )

    async def test() -> None:
        async with world(*tools).engine() as services:
            caller = services.tool_callers(ANN)
            assert [spec.name for spec in await caller.offered()] == ["look", "touch"]
            await services.chats.set_permit(ANN, "look", Permit.DENY)
            assert [spec.name for spec in await caller.offered()] == ["touch"]
            for name in ("look", "never", "read_file", "nothing"):
                with pytest.raises(NotFound):
                    await caller.call("c", name, {}, silent)

    run(test)


def test_a_call_runs_its_tool_for_whoever_asks() -> None:
    tool = FakeTool()

    async def test() -> None:
        async with world(tool).engine() as services:
            said: list[str] = []

            async def tell(what: str) -> None:
                said.append(what)

            outcome = await services.tool_callers(ANN).call("c1", "look", {"n": 1}, tell)
            assert outcome == ToolOutcome(ok=True, result={"n": 1})
            assert said == ["look is being executed"]
            assert (tool.contexts[0].owner, tool.contexts[0].turn_id) == ("ann", "")

    run(test)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "arguments", [[1], nested(5000), {"a": "x" * LARGEST_ARGUMENTS}], ids=["list", "deep", "large"]
)
def test_arguments_that_no_log_can_hold_are_refused_before_anything_is_done(arguments: Any) -> None:
    tool = FakeTool("touch", Touches.RUNS)

    async def test() -> None:
        made = world(tool)
        made.tools.journal = ToolJournal(MemoryLogStore(), SystemClock(), Uuid7Ids())
        async with made.engine() as services:
            with pytest.raises(BadInput):
                await services.tool_callers(ANN).call("c1", "touch", arguments, silent)
            assert (tool.ran, await made.tools.journal.calls("ann")) == ([], [])
            odd = await services.tool_callers(ANN).call("c1", "touch", {"a": "\ud800"}, silent)
            assert odd.result == {"a": "?"}  # half a character is none

    run(test)


def test_it_takes_the_scope_to_run_and_for_what_is_asked_about_the_one_to_answer() -> None:
    async def test() -> None:
        async with world(FakeTool("touch", Touches.WORLD)).engine() as services:
            for scopes in (frozenset[Scope](), frozenset({Scope.READ})):
                with pytest.raises(NeedsScope):
                    services.tool_callers(Principal("eve", Kind.KEY, scopes, "k9"))
            refused = await services.tool_callers(ANN).call("c1", "touch", {}, silent)
            assert not refused.ok
            assert "approve" in refused.error
            assert (await services.tool_callers(BOB).call("c1", "touch", {}, silent)).ok

    run(test)


def test_failures_are_outcomes() -> None:
    def fails(*_: Any) -> ToolAnswer:
        return ToolAnswer(ok=False, error="no luck")

    async def test() -> None:
        async with world(FakeTool(does=fails)).engine() as services:
            outcome = await services.tool_callers(THE_LOCAL_USER).call("c1", "look", {}, silent)
            assert outcome == ToolOutcome(ok=False, error="no luck")

    run(test)


def test_the_same_call_of_the_same_caller_is_one() -> None:
    goes_on = asyncio.Event()

    async def slow(*_: Any) -> str:
        await goes_on.wait()
        return "once"

    tool = FakeTool("touch", Touches.RUNS, does=slow)

    async def test() -> None:
        async with world(tool).engine() as services:
            both = [asyncio.create_task(services.tool_callers(ANN).call("c1", "touch", {}, silent)) for _ in range(2)]
            await asyncio.sleep(1)
            goes_on.set()
            assert [outcome.result for outcome in await asyncio.gather(*both)] == ["once", "once"]
            assert (await services.tool_callers(ANN).call("c1", "touch", {}, silent)).result == "once"
            assert len(tool.ran) == 1
            assert (await services.tool_callers(BOB).call("c1", "touch", {}, silent)).ok
            assert len(tool.ran) == 2

    run(test)


@pytest.mark.parametrize(("touches", "ran"), [(Touches.NOTHING, 2), (Touches.RUNS, 1)])
def test_one_whose_caller_went_away_is_made_again_only_if_that_is_as_good(touches: Touches, ran: int) -> None:
    begun = asyncio.Event()

    async def stuck_once(*_: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "again"

    tool = FakeTool("touch", touches, does=stuck_once)

    async def test() -> None:
        async with world(tool).engine() as services:
            gone = asyncio.create_task(services.tool_callers(ANN).call("c1", "touch", {}, silent))
            await begun.wait()
            gone.cancel()
            await asyncio.wait((gone,))
            outcome = await services.tool_callers(ANN).call("c1", "touch", {}, silent)
            assert len(tool.ran) == ran
            assert (outcome.result == "again") is (ran == 2)
            assert ("look before you call it again" in outcome.error) is (ran == 1)

    run(test)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_calls, "REMEMBERED", 2)
    tool = FakeTool("touch", Touches.RUNS)

    async def test() -> None:
        async with world(tool).engine() as services:
            caller = services.tool_callers(ANN)
            for id in ("a", "b", "a", "c", "a", "b"):
                await caller.call(id, "touch", {"id": id}, silent)
            assert [arguments["id"] for arguments in tool.ran] == ["a", "b", "c", "b"]

    run(test)


def test_one_that_goes_on_is_not_forgotten_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_calls, "REMEMBERED", 2)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(arguments: Mapping[str, Any], _: Any) -> str:
        if arguments["id"] == "slow":
            begun.set()
            await goes_on.wait()
        return "done"

    tool = FakeTool("touch", Touches.RUNS, does=slow)

    async def test() -> None:
        async with world(tool).engine() as services:
            caller = services.tool_callers(ANN)
            first = asyncio.create_task(caller.call("slow", "touch", {"id": "slow"}, silent))
            await begun.wait()
            for id in ("a", "b", "c", "d"):
                await caller.call(id, "touch", {"id": id}, silent)
            again = asyncio.create_task(caller.call("slow", "touch", {"id": "slow"}, silent))
            goes_on.set()
            assert [outcome.result for outcome in await asyncio.gather(first, again)] == ["done", "done"]
            assert [arguments["id"] for arguments in tool.ran] == ["slow", "a", "b", "c", "d"]

    run(test)


def test_one_that_could_not_be_recorded_was_not_begun() -> None:
    class FullAtFirst(MemoryLogStore):
        full = True

        async def append(self, output: str, data: bytes) -> tuple[int, int]:
            if self.full:
                self.full = False
                raise StoreFailed("the disk is full")
            return await super().append(output, data)

    tool = FakeTool("touch", Touches.RUNS)

    async def test() -> None:
        made = world(tool)
        made.tools.journal = ToolJournal(FullAtFirst(), SystemClock(), Uuid7Ids())
        async with made.engine() as services:
            caller = services.tool_callers(ANN)
            with pytest.raises(StoreFailed):
                await caller.call("c1", "touch", {"n": 1}, silent)
            assert tool.ran == []
            assert (await caller.call("c1", "touch", {"n": 1}, silent)).result == {"n": 1}

    run(test)
