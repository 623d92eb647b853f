"""Subagents: what a model hands on to another conversation with the same model, shown as a lane of the call.

A subagent is as stateless as everything here. Its conversation is the blocks of its lane; its tool calls are calls of
the turn, which permits, runs and logs them like any other, and then asks again. So it survives what the turn survives,
and a stop ends it. Subagents of one answer work at the same time; none has subagents of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from pydantic_ai.messages import ModelMessage
from pydantic_ai.tools import ToolDefinition

from pilothouse.adapters.backends.llm.conversation import lane_of
from pilothouse.adapters.backends.llm.hearing import Hearing
from pilothouse.adapters.backends.llm.leg import Leg, definition
from pilothouse.core.chat.backend import BackendEvent, LaneClosed, LaneOpened, ToolAnswered
from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.message import Block, ToolBlock
from pilothouse.core.chat.request import BackendRequest
from pilothouse.errors import BackendFailed

DELEGATE = "delegate"
MOST_STEPS = 25
"""Requests of one subagent; the last one has no tools, so that it comes to an answer."""

TOOL = ToolDefinition(
    name=DELEGATE,
    description="Hand a self-contained piece of work to a subagent, which has your tools but none of this "
    "conversation, and get back its report. For work that takes many steps whose details you do not need. Call it "
    "several times in one answer for pieces that do not depend on each other: they are done at the same time.",
    parameters_json_schema={
        "type": "object",
        "properties": {
            "agent": {"type": "string", "description": "What it is in a word, such as research, build, test, review."},
            "task": {
                "type": "string",
                "description": "Everything it has to know: what to find out or do, where, and what to report.",
            },
        },
        "required": ["task"],
    },
    strict=False,
)
_ROLE = (
    "You are a subagent ({agent}). Somebody else talks with the user and has handed the task below on to you; nobody "
    "can answer questions. Do it with your tools. Your last message is your report, and all that is kept: say what you "
    "found or did, with names, paths and ids, and what remains open."
)

LegOf = Callable[[list[ModelMessage], list[ToolDefinition], Hearing], Leg]


def open_errands(blocks: Sequence[Block]) -> list[ToolBlock]:
    """Subagents of this turn that have not reported."""
    return [
        block
        for block in blocks
        if isinstance(block, ToolBlock)
        and (block.name, block.run_by, block.status, block.lane) == (DELEGATE, RunBy.BACKEND, CallStatus.EXECUTING, "")
    ]


class Errands:
    """Subagents at work, for one request of the turn. ``waits_for``: calls that they wait for, when it is over."""

    def __init__(self, request: BackendRequest, leg_of: LegOf, failed: Callable[[Exception], str]) -> None:
        self._request = request
        self._leg_of = leg_of
        self._failed = failed
        self.waits_for: list[str] = []

    async def said(self, errands: Sequence[ToolBlock], taken: set[str]) -> AsyncGenerator[Sequence[BackendEvent]]:
        """One step of each: what they say, in the order in which it comes. What goes wrong with one is its report."""
        told: asyncio.Queue[Sequence[BackendEvent] | None] = asyncio.Queue(maxsize=64)

        async def work(errand: ToolBlock) -> None:
            try:
                async with aclosing(self._step(errand, taken)) as events:
                    async for some in events:
                        await told.put(some)
            except Exception as error:
                await told.put(_report(errand, self._failed(error), ok=False))
            await told.put(None)

        tasks = [asyncio.create_task(work(errand)) for errand in errands]
        try:
            left = len(tasks)
            while left:
                some = await told.get()
                if some is None:
                    left -= 1
                else:
                    yield some
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _step(self, errand: ToolBlock, taken: set[str]) -> AsyncGenerator[Sequence[BackendEvent]]:
        agent, task = (str(errand.arguments.get(name, "")).strip() for name in ("agent", "task"))
        if not task:
            yield _report(errand, "A subagent needs a task: say what it has to do", ok=False)
            return
        steps = len({block.call for block in self._request.blocks if getattr(block, "lane", "") == errand.id})
        yield (LaneOpened(id=errand.id, agent=agent or "subagent"),)  # open while it is asked, closed while it waits
        tools = [] if steps >= MOST_STEPS else [definition(tool) for tool in self._request.tools]
        role = _ROLE.format(agent=agent or "subagent")
        asked = lane_of(
            self._request, errand.id, task, f"{self._request.instructions}\n\n{role}".strip(), flat=not tools
        )
        leg = self._leg_of(asked, tools, Hearing(taken, errand.id))
        async with aclosing(leg.said()) as events:
            async for some in events:
                yield some
        if leg.reason is None:
            raise BackendFailed("the model stopped before it had finished")
        if leg.hearing.calls:
            self.waits_for += leg.hearing.calls
            yield (LaneClosed(id=errand.id),)
        else:
            yield _report(errand, leg.text or "(it said nothing)")


def _report(errand: ToolBlock, text: str, *, ok: bool = True) -> Sequence[BackendEvent]:
    told = ToolAnswered(
        id=errand.id, name=errand.name, success=ok, result=text if ok else None, error="" if ok else text
    )
    return (LaneClosed(id=errand.id), told)
