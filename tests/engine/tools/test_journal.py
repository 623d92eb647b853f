"""What is kept of tool calls outside any turn: before they have an effect, and of each owner for that owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.store.output import FileLogStore
from pilothouse.adapters.system.clock import SystemClock
from pilothouse.adapters.system.ids import Uuid7Ids
from pilothouse.core.tools.spec import ToolAnswer
from pilothouse.engine.ports import LogStore
from pilothouse.engine.tools.journal import Call, Recorded, ToolJournal
from pilothouse.errors import StoreFailed


def call(owner: str = "ann", tool: str = "look", arguments: Any = None) -> Call:
    return Call(owner=owner, door="mcp", tool=tool, arguments=arguments or {})


def journal(logs: LogStore | None = None) -> ToolJournal:
    return ToolJournal(logs or MemoryLogStore(), SystemClock(), Uuid7Ids())


def tell(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 10))


async def made(kept: ToolJournal, one: Call, answer: ToolAnswer | None = None) -> None:
    async with kept.recorded(one) as recording:
        recording.answer = answer or ToolAnswer(ok=True)


def statuses(calls: list[Recorded]) -> list[tuple[str, str]]:
    return [(one.tool, one.status) for one in calls]


def test_a_call_stands_there_while_it_is_made_and_then_with_its_end() -> None:
    async def story() -> None:
        kept = journal()
        async with kept.recorded(call(arguments={"a": 1})) as recording:
            (before,) = await kept.calls("ann")
            assert (before.status, before.arguments, before.ended_at) == ("executing", {"a": 1}, None)
            recording.answer = ToolAnswer(ok=False, error="it is stuck")
        (after,) = await kept.calls("ann")
        assert (after.id, after.status, after.error) == (before.id, "error", "it is stuck")
        assert after.ended_at is not None and after.ended_at >= after.at

    tell(story)


def test_an_owner_sees_their_own_newest_first_and_no_more_than_asked_for() -> None:
    async def story() -> None:
        kept = journal()
        for n in range(5):
            await made(kept, call(tool=f"t{n}"))
            await made(kept, call("bob", tool="other"))
        assert statuses(await kept.calls("ann", 2)) == [("t4", "success"), ("t3", "success")]
        assert len(await kept.calls("ann")) == 5
        assert await kept.calls("cleo") == []

    tell(story)


def test_a_call_whose_caller_goes_away_or_that_crashes_is_told_as_interrupted() -> None:
    async def story() -> None:
        kept, begun = journal(), asyncio.Event()

        async def hanging() -> None:
            async with kept.recorded(call(tool="hang")):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hanging())
        await begun.wait()
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        with pytest.raises(RuntimeError):
            async with kept.recorded(call(tool="crash")):
                raise RuntimeError
        found = await kept.calls("ann")
        assert statuses(found) == [("crash", "interrupted"), ("hang", "interrupted")]
        assert all(one.ended_at is not None for one in found)

    tell(story)


def test_what_cannot_be_recorded_is_not_done() -> None:
    class Full(MemoryLogStore):
        async def append(self, output: str, data: bytes) -> tuple[int, int]:
            raise StoreFailed("the disk is full")

    async def story() -> None:
        with pytest.raises(StoreFailed):
            async with journal(Full()).recorded(call()):
                raise AssertionError("it was done")

    tell(story)


def test_another_life_reads_what_was_recorded_and_a_line_that_was_cut_off_harms_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        kept = journal(FileLogStore(tmp_path))
        await made(kept, call(tool="one"))
        going = kept.recorded(call(tool="two"))
        await going.__aenter__()  # and then this process is killed
        (segment,) = tmp_path.rglob("*.out")
        with segment.open("ab") as file:
            file.write(b'{"type":"begun","id":"x"\n')
        again = journal(FileLogStore(tmp_path))
        assert statuses(await again.calls("ann")) == [("two", "interrupted"), ("one", "success")]
        await going.__aexit__(None, None, None)

    tell(story)


def test_arguments_without_end_are_cut() -> None:
    async def story() -> None:
        kept = journal()
        await made(kept, call(arguments={"text": "x" * 100_000}))
        (found,) = await kept.calls("ann")
        assert found.arguments["truncated"] is True
        assert len(found.arguments["beginning"]) < 5_000

    tell(story)
