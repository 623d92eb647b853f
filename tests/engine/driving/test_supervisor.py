"""All runs of an owner: created, found again, recovered, deleted."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.engine.server import Gatekeeper, quiet, run, serving
from tests.support.trivial import REGISTRY, Create, Script

from pilothouse.core.run.events import RunStarted
from pilothouse.core.run.inputs import Resume, Stop
from pilothouse.errors import BadInput, Gone, NotFound, Refused, StoreFailed, Unavailable


def test_a_run_that_is_refused_does_not_exist() -> None:
    async def test() -> None:
        async with serving() as server:
            with pytest.raises(BadInput):
                await server.create(steps=-1)
            await quiet()
            assert "r" not in server.world.runs
            assert not server.supervisor.live
            with pytest.raises(NotFound):
                await server.tell(Stop())

    run(test)


def test_a_run_whose_creation_could_not_be_written_does_not_exist() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            gate.fail_at, gate.error = "append.begin", StoreFailed("the disk is full")
            with pytest.raises(StoreFailed):
                await server.create()
            await quiet()
            await server.create()
            assert server.script.begun == ["1.1"]

    run(test)


def test_the_same_id_is_not_created_twice() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create()
            with pytest.raises(Refused):
                await server.create()

    run(test)


def test_a_run_that_has_ended_is_retired_and_loaded_again_when_somebody_asks() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2)
            await server.tell(Stop())
            assert not server.supervisor.live
            await asyncio.gather(server.tell(Resume()), server.tell(Resume()))
            assert list(server.supervisor.live) == ["r"]
            await server.end("1.2")
            await server.end("2.1")
            assert not server.supervisor.live
            assert await server.supervisor.read("r", lambda _, row: str(row.lifecycle)) == "SUCCEEDED"

    run(test)


def test_a_restart_goes_on_with_what_was_begun_and_leaves_alone_what_had_ended() -> None:
    async def test() -> None:
        async with serving() as first:
            await first.create("ended", steps=0)
            await first.create("open", steps=2)
            world = first.world
        async with serving(world=world) as second:
            assert list(second.supervisor.live) == ["open"]
            assert second.script.begun == ["1.1"]
            assert "RUN_RECOVERED" not in second.log("ended")

    run(test)


def test_after_a_restart_what_all_runs_hold_is_known_before_any_of_them_gets_more() -> None:
    async def test() -> None:
        async with serving(slots=2) as first:
            await first.create("a", steps=2, width=2)
            await first.end("1.1")
            await first.create("b", steps=1)
            world = first.world
        script = Script()
        async with serving(world=world, script=script, slots=2):
            assert len(script.begun) == 2

    run(test)


def test_a_run_that_cannot_be_read_does_not_keep_the_others_from_going_on() -> None:
    async def test() -> None:
        async with serving() as first:
            await first.create("a")
            await first.create("b")
            world = first.world
        gate = Gatekeeper()
        gate.fail_at, gate.error = "claim.begin", StoreFailed("unreadable")
        async with serving(world=world, point=gate) as second:
            assert list(second.supervisor.live) == ["b"]

    run(test)


def test_a_run_whose_log_breaks_the_rules_does_not_keep_the_others_from_going_on() -> None:
    async def test() -> None:
        async with serving() as first:
            await first.create("a")
            await first.create("b")
            world = first.world
        world.runs["a"].segments[-1] = msgspec.structs.replace(
            world.runs["a"].segments[-1], body=REGISTRY.encode([RunStarted(), RunStarted()])
        )
        async with serving(world=world) as second:
            assert list(second.supervisor.live) == ["b"]
            with pytest.raises(StoreFailed):
                await second.supervisor.read("a", lambda state, _: state)

    run(test)


def test_a_run_of_a_kind_this_version_does_not_know_does_not_keep_the_others_from_going_on() -> None:
    async def test() -> None:
        async with serving() as first:
            await first.create("a")
            await first.create("b")
            world = first.world
        world.runs["a"].row = msgspec.structs.replace(world.runs["a"].row, kind="later")
        async with serving(world=world) as second:
            assert list(second.supervisor.live) == ["b"]
            with pytest.raises(StoreFailed):
                await second.tell(Stop(), "a")

    run(test)


def test_a_run_that_has_ended_is_folded_once_for_several_questions_and_anew_when_it_went_on() -> None:
    async def test() -> None:
        read: list[str] = []

        async def noting(operation: str) -> None:
            if operation == "read.begin":
                read.append(operation)

        async with serving(point=noting) as server:
            await server.create(steps=2)
            await server.tell(Stop())
            for _ in range(3):
                assert await server.supervisor.read("r", lambda state, _: state.common.leg) == 1
            assert len(read) == 1
            await server.tell(Resume())
            await server.tell(Stop())
            assert await server.supervisor.read("r", lambda state, _: state.common.leg) == 2

    run(test)


def test_what_is_being_deleted_is_not_brought_up_again() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create()
            with pytest.raises(Refused), server.supervisor.deleting("r"):
                pass
            await server.tell(Stop())
            with server.supervisor.deleting("r"):
                with pytest.raises(Refused):
                    await server.tell(Resume())
                with pytest.raises(Refused), server.supervisor.deleting("r"):
                    pass
            await server.tell(Resume())
            assert list(server.supervisor.live) == ["r"]

    run(test)


def test_what_comes_while_the_server_closes_is_refused_and_nothing_hangs() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        late: list[asyncio.Task[None]] = []
        async with serving(point=gate) as server:
            await server.create(steps=0)
            gate.hold_at = "claim.begin"
            late.append(asyncio.create_task(server.supervisor.tell("r", Stop())))
            await gate.held.wait()
        gate.go.set()
        with pytest.raises(Unavailable):
            await late[0]
        with pytest.raises(Unavailable):
            await server.supervisor.create("trivial", "late", Create())

    run(test)


def test_a_deleted_run_is_gone() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create()
            with pytest.raises(Refused):
                await server.supervisor.delete("r", 0)
            await server.end("1.1")
            await server.supervisor.delete("r", 0)
            with pytest.raises(Gone):
                await server.tell(Stop())
            with pytest.raises(Gone):
                await server.supervisor.read("r", lambda _, row: row)

    run(test)
