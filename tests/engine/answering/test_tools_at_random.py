"""Agents that call tools while their server comes and goes, people decide and stop, in any order: on virtual time.

A bridge outlives its server and asks again under the same name until it is answered.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.engine.answering.test_backend import DONE, Agent
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, run, say

from pilothouse.core.auth.principals import Answering, Kind, Principal
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.events import TextDelta
from pilothouse.core.chat.state import TurnState
from pilothouse.core.chat.tool_events import ToolApproved, ToolCalled, ToolEnded
from pilothouse.core.run.agents import Text
from pilothouse.core.run.events import RunRecovered
from pilothouse.core.run.lifecycle import TERMINAL, Lifecycle
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, Touches
from pilothouse.engine.services import Services
from pilothouse.engine.tools.callers import ToolOutcome
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import PilothouseError, Refused

SEEDS = range(40)
CALLS = 12
LASTS_S = 30.0
TOOLS = {"look": Touches.NOTHING, "write": Touches.RUNS, "pay": Touches.WORLD}


@dataclass
class Asked:
    """A call as its bridge knows it. ``printed``: what its agent had printed when it was first made."""

    id: str
    name: str
    printed: str
    outcome: ToolOutcome | None = None
    refused: bool = False


@dataclass
class Story:
    chance: random.Random
    machine: Agent = field(init=False)
    turn_id: str = ""
    up: Services | None = None
    """The owner that is there."""
    asked: list[Asked] = field(default_factory=list)
    ran: list[tuple[str, str]] = field(default_factory=list)
    """Tools that began, by the ids that the turn gave their calls."""
    text: str = ""

    def __post_init__(self) -> None:
        chance = self.chance
        pieces = [(chance.random() * LASTS_S, Text(text=f"{n} ")) for n in range(10)]
        times = sorted(time for time, _ in pieces)
        told = [(time, Text(text=f"{n} ")) for n, time in enumerate(times)]
        self.text = "".join(text.text for _, text in told)
        self.machine = Agent(Text(text=""), *told, (LASTS_S + chance.random() * 20, DONE))
        self.machine.tools = ToolRegistry(FakeTool(name, touches, does=self._does) for name, touches in TOOLS.items())

    async def _does(self, arguments: Any, context: ToolContext) -> ToolAnswer:
        self.ran.append((context.call_id, arguments["id"]))
        await asyncio.sleep(self.chance.choice((0.0, 0.1, 2.0, 8.0)))
        return ToolAnswer(ok=self.chance.random() < 0.9, result=arguments["id"], error="no luck")

    # What goes on.

    async def calls(self, number: int) -> None:
        """One call, from the bridge's side."""
        await asyncio.sleep(self.chance.random() * LASTS_S)
        output = await self.machine.logs.read(f"{self.turn_id}/agent/1/answer", 0, 1 << 20)
        printed = self.text[: sum(f'"{n} "'.encode() in output[1] for n in range(10)) * 2]
        mine = Asked(f"c{number // 2 if self.chance.random() < 0.1 else number}", self.chance.choice([*TOOLS]), printed)
        self.asked.append(mine)
        while mine.outcome is None and not mine.refused:
            if self.up is None:
                await asyncio.sleep(0.05)
                continue
            principal = Principal("local", Kind.AGENT, frozenset(), answering=Answering(self.turn_id, 1))
            caller = self.up.tool_callers(principal)
            try:
                # Now and then the connection is lost.
                async with asyncio.timeout(self.chance.choice((0.1, 3.0, 1e6))):
                    mine.outcome = await caller.call(mine.id, mine.name, {"id": mine.id}, _silent)
            except Refused:
                mine.refused = True
            except (TimeoutError, PilothouseError):
                await asyncio.sleep(0.05)

    async def people(self) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 3)
            with suppress(PilothouseError):
                if self.up is None:
                    continue
                for row in await self.up.runs.waits():
                    for wait in row.waits:
                        answer = self.chance.choice(("approve", "approve", "approve-chat", "refuse", "background"))
                        await self.up.runs.answer(wait.id, answer, by="me")
                if self.chance.random() < 0.01:
                    await self.up.chats.abort(self.turn_id, THE_LOCAL_USER)

    async def lives(self) -> Services | None:
        begun = False
        while True:
            async with self.machine.engine() as services:
                if not begun:
                    self.turn_id, begun = (await say(services)).turn_id, True
                self.up = services
                if self.chance.random() < 0.5 and self._now() < LASTS_S:
                    await asyncio.sleep(self.chance.random() * 10)
                else:
                    await services.chats.wait(self.turn_id, THE_LOCAL_USER, 3600)
                    await asyncio.sleep(5)
                    assert all(one.outcome or one.refused for one in self.asked), "somebody still waits"
                    await self.judge(services)
                    self.up = None
                    return None
                self.up = None
            if self.chance.random() < 0.1:
                self.machine.warden.kill()  # and the agent with it
            await asyncio.sleep(self.chance.random())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def play(self) -> None:
        living = asyncio.create_task(self.lives())
        while not self.turn_id:
            await asyncio.sleep(0.01)
        doing = [asyncio.create_task(self.people())]
        doing += [asyncio.create_task(self.calls(number)) for number in range(CALLS)]
        try:
            await living
        finally:
            for task in doing:
                task.cancel()
            await asyncio.gather(*doing, return_exceptions=True)

    # What holds.

    async def judge(self, services: Services) -> None:
        log = [recorded.event for recorded in await services.queries.events(self.turn_id)]
        state: TurnState = await services.supervisor.read(self.turn_id, lambda state, _: state)
        assert state.common.lifecycle in TERMINAL
        approved = {one.tool_call_id for one in log if isinstance(one, ToolApproved)}
        restarts = sum(isinstance(one, RunRecovered) for one in log)
        for id in {id for id, _ in self.ran}:
            call = state.calls[id]
            times = sum(one == id for one, _ in self.ran)
            assert times == 1 or (call.name == "look" and times <= restarts + 1), (call.name, times)
            assert call.name != "pay" or id in approved or "pay" in state.grants
        assert len({id for id, _ in self.ran}) == len({of for _, of in self.ran}), "one of the bridge's is one of ours"
        if state.common.lifecycle is Lifecycle.SUCCEEDED:
            said = "".join(one.text for one in log if isinstance(one, TextDelta))
            assert said == self.text
        heard, before = "", dict[str, str]()
        for event in log:
            heard += event.text if isinstance(event, TextDelta) else ""
            if isinstance(event, ToolCalled):
                before[event.arguments["id"]] = heard
        ended = {one.tool_call_id: one for one in log if isinstance(one, ToolEnded)}
        for one in self.asked:
            of = [call for call in state.calls.values() if call.arguments["id"] == one.id]
            assert len(of) <= 1
            if not of:
                assert one.refused or (one.outcome is not None and not one.outcome.ok)
                continue
            assert before[one.id].startswith(min((o.printed for o in self.asked if o.id == one.id), key=len))
            if one.outcome is not None and one.outcome.ok and not one.outcome.pending:
                assert (ended[of[0].id].status, ended[of[0].id].result) == (CallStatus.SUCCESS, one.outcome.result)


async def _silent(_: str) -> None:
    pass


@pytest.mark.parametrize("seed", SEEDS)
def test_each_call_is_one_call_and_its_end_is_heard(seed: int) -> None:
    run(Story(random.Random(seed)).play)
