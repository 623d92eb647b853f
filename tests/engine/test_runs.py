"""What one may ask of any run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.server import Gatekeeper, quiet, run, serving

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.run.inputs import Stop
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.runs import Runs
from pilothouse.errors import StoreFailed


def test_stop_everything_stops_the_others_also_when_one_cannot_be_stopped() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            for name in ("a", "b", "c"):
                await server.create(name)
            gate.fail_at, gate.error = "append.begin", StoreFailed("the disk is full")
            with pytest.raises(StoreFailed):
                await Runs(server.supervisor, MemoryEventStore(server.world)).stop_everything()
            await quiet()
            assert sorted("STOPPED" in server.log(name) for name in ("a", "b", "c")) == [False, True, True]

    run(test)


def test_stop_everything_does_not_stop_one_after_the_other() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            for name in ("a", "b"):
                await server.create(name)
            gate.hold_at = "append.begin"  # of one of them, which the other does not wait for
            runs = Runs(server.supervisor, MemoryEventStore(server.world))
            stopping = asyncio.create_task(runs.stop_everything())
            await gate.held.wait()
            await quiet()
            assert sorted("STOP_ACKNOWLEDGED" in server.log(name) for name in ("a", "b")) == [False, True]
            gate.go.set()
            assert sorted(row.id for row in await stopping) == ["a", "b"]

    run(test)


def test_stop_everything_passes_over_a_run_that_ended_and_was_deleted_meanwhile() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create("a")
            await server.create("b")

            class Late(MemoryEventStore):
                async def rows(self, **wanted: Any) -> list[RunRow]:
                    found = await super().rows(**wanted)
                    await server.tell(Stop(), "a")
                    await server.supervisor.delete("a", 0)
                    return found

            stopped = await Runs(server.supervisor, Late(server.world)).stop_everything()
            assert [row.id for row in stopped] == ["b"]

    run(test)
