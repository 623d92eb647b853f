"""One run, driven: what is begun when, what is recorded in which order, and what a failure ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.engine.server import Gatekeeper, events, quiet, run, serving
from tests.support.trivial import Create, StepEnded, Steps, StepSaid, TrivialKind

from pilothouse.core.run.contract import Effect
from pilothouse.core.run.events import Event, StopAcknowledged, StopDelayed
from pilothouse.core.run.inputs import Cancel, Pause, Progress, Resume, Stop
from pilothouse.core.run.lifecycle import TERMINAL_EVENTS
from pilothouse.engine.driving import actor
from pilothouse.engine.driving.effects import Within
from pilothouse.errors import NotFound, Refused, StoreFailed, Unavailable

CREATED = ["RUN_CREATED", "STEPS_GIVEN", "RUN_STARTED", "STEP_STARTED"]


def test_steps_are_done_one_after_the_other() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2)
            assert server.script.begun == ["1.1"]
            await server.end("1.1")
            await server.end("2.1")
            assert server.log() == [*CREATED, "STEP_ENDED", "STEP_STARTED", "STEP_ENDED", "RUN_FINISHED"]
            assert not server.supervisor.live

    run(test)


def test_nothing_is_begun_before_its_intent_is_committed() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            gate.hold_at = "append.committed"
            creating = asyncio.create_task(server.create())
            await gate.held.wait()
            await quiet()
            assert server.script.begun == []
            assert not creating.done()
            gate.go.set()
            await creating
            assert server.script.begun == ["1.1"]

    run(test)


def test_an_intent_that_was_on_its_way_when_a_stop_was_asked_is_never_begun_and_the_log_says_so() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            gate.hold_at = "append.begin"
            creating = asyncio.create_task(server.create())
            await gate.held.wait()
            stopping = asyncio.create_task(server.tell(Stop()))
            await quiet()
            gate.go.set()
            await asyncio.gather(creating, stopping)
            assert server.script.begun == []
            assert server.log() == [*CREATED, "STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STEP_ENDED", "STOPPED"]
            assert [e.status for e in events(server.world) if isinstance(e, StepEnded)] == ["not started"]

    run(test)


def test_the_gate_stays_closed_from_close_gate_to_the_stop() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2)
            server.supervisor.close_gate("r")
            await server.end("1.1")
            assert server.script.begun == ["1.1"]
            await server.tell(Stop())
            assert server.script.begun == ["1.1"]
            assert server.log()[-3:] == ["STOP_ACKNOWLEDGED", "STEP_ENDED", "STOPPED"]

    run(test)


def test_a_stop_is_requested_acknowledged_and_then_done() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2, width=2)
            await server.tell(Stop())
            assert server.log()[5:] == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STEP_ENDED", "STEP_ENDED", "STOPPED"]
            acknowledged = [e for e in events(server.world) if isinstance(e, StopAcknowledged)]
            assert acknowledged[0].draining == ("1.1", "2.1")
            assert server.script.ended == ["1.1", "2.1"]

    run(test)


def test_a_stop_is_acknowledged_while_the_work_does_not_end_and_then_says_what_it_waits_for() -> None:
    async def test() -> None:
        async with serving() as server:
            server.script.stubborn = frozenset({"1.1"})
            await server.create()
            await server.tell(Stop())
            assert server.log()[-1] == "STOP_ACKNOWLEDGED"
            await asyncio.sleep(1)
            delayed = events(server.world)[-1]
            assert isinstance(delayed, StopDelayed) and delayed.waiting_for == ("1.1",)
            await server.end("1.1")
            assert server.log()[-3:] == ["STOP_DELAYED", "STEP_ENDED", "STOPPED"]

    run(test)


def test_a_second_stop_changes_nothing() -> None:
    async def test() -> None:
        async with serving() as server:
            server.script.stubborn = frozenset({"1.1"})
            await server.create()
            await asyncio.gather(*(server.tell(Stop()) for _ in range(3)))
            await server.end("1.1")
            await server.tell(Stop())
            assert server.log().count("STOP_REQUESTED") == 1
            assert server.log().count("STOPPED") == 1

    run(test)


@pytest.mark.parametrize("before", ["running", "pausing", "paused", "stopping", "stopped"])
def test_a_stop_works_wherever_a_run_stands(before: str) -> None:
    async def test() -> None:
        async with serving() as server:
            server.script.stubborn = frozenset({"1.1"})
            await server.create(steps=2)
            if before in ("pausing", "paused"):
                await server.tell(Pause())
            if before == "paused":
                await server.end("1.1")
                assert server.log()[-1] == "PAUSED"
            if before in ("stopping", "stopped"):
                await server.tell(Stop())
            if before == "stopped":
                await server.end("1.1")
            await server.tell(Stop())
            if before not in ("paused", "stopped"):
                await server.end("1.1")
            assert server.log()[-1] == "STOPPED"
            assert sum(name in TERMINAL_EVENTS for name in server.log()) == 1

    run(test)


def test_a_pause_lets_what_runs_finish_and_a_resume_goes_on_in_the_same_leg() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2)
            await server.tell(Pause())
            await server.end("1.1")
            assert server.log()[4:] == ["PAUSE_REQUESTED", "STEP_ENDED", "PAUSED"]
            assert server.script.begun == ["1.1"]
            await server.tell(Resume())
            await server.end("2.1")
            assert server.log()[7:] == ["RUN_RESUMED", "STEP_STARTED", "STEP_ENDED", "RUN_FINISHED"]
            assert server.world.runs["r"].row.leg == 1

    run(test)


def test_every_leg_has_exactly_one_terminal_event() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2)
            for _ in range(3):
                await server.tell(Stop())
                await server.tell(Resume())
            await server.end("1.4")
            await server.end("2.1")
            ends = [name for name in server.log() if name in TERMINAL_EVENTS]
            assert ends == ["STOPPED", "STOPPED", "STOPPED", "RUN_FINISHED"]
            assert server.world.runs["r"].row.leg == 4

    run(test)


def test_a_cancel_is_final() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2)
            await server.tell(Cancel())
            assert server.log()[4:] == ["CANCEL_REQUESTED", "STOP_ACKNOWLEDGED", "STEP_ENDED", "RUN_CANCELED"]
            with pytest.raises(Refused):
                await server.tell(Resume())

    run(test)


def test_a_performer_that_crashes_fails_its_effect_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(steps=2, width=2)
            await server.end("1.1", ZeroDivisionError("a bug"))
            assert [e.status for e in events(server.world) if isinstance(e, StepEnded)] == ["failed"]
            await server.end("2.1")
            assert server.log()[-1] == "RUN_FAILED"

    run(test)
    assert [record.message for record in caplog.records] == ["effect.crashed"]


def test_a_refused_commit_halts_that_run_alone_ends_its_work_and_shows_nothing_of_it() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            await server.create("a")
            await server.create("b", steps=0)
            await server.create("c", steps=2)
            before = server.log("a")
            gate.fail_at, gate.error = "append.begin", StoreFailed("the disk is full")
            with pytest.raises(StoreFailed):
                await server.tell(Stop(), "a")
            await quiet()
            assert server.log("a") == before
            assert "a" not in server.supervisor.live
            assert server.script.ended == ["1.1"]
            assert list(server.supervisor.live) == ["c"]

    run(test)


def test_a_run_of_which_something_always_follows_is_halted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = TrivialKind._settle

    def without_end(self: TrivialKind, state: Steps) -> Sequence[Event]:
        return (StepSaid(text="and again"),) if state.common.run_id == "r" else settle(self, state)

    async def test() -> None:
        async with serving() as server:
            with pytest.raises(RuntimeError, match="no end to what follows, the last of it STEP_SAID"):
                await server.create()
            assert server.world.runs == {}
            await server.create("other")
            await server.end("1.1")
            assert server.log("other")[-1] == "RUN_FINISHED"

    monkeypatch.setattr(actor, "MOST_ROUNDS", 100)
    monkeypatch.setattr(TrivialKind, "_settle", without_end)
    run(test)


def test_a_halted_run_is_brought_up_again_by_whoever_asks_next() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            await server.create(steps=2)
            gate.fail_at, gate.error = "append.begin", StoreFailed("the disk is full")
            with pytest.raises(StoreFailed):
                await server.tell(Pause())
            await quiet()
            await server.tell(Stop())
            assert server.log()[4:] == ["RUN_RECOVERED", "STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STEP_ENDED", "STOPPED"]

    run(test)


def test_a_halted_run_says_why_and_is_taken_up_again_without_being_asked() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            await server.create("a", steps=2)
            await server.create("b", steps=2)
            gate.fail_at, gate.error = "append.begin", StoreFailed("the disk is full")
            with pytest.raises(StoreFailed):
                await server.tell(Pause(), "a")
            await quiet()
            assert server.supervisor.halted("a") == "the disk is full"
            assert await server.supervisor.recover() == ["a"]
            assert server.supervisor.halted("a") is None
            assert sorted(server.supervisor.live) == ["a", "b"]
            assert await server.supervisor.recover() == []

    run(test)


def test_a_newer_owner_takes_a_run_over_and_the_old_one_lets_go_without_ending_its_work() -> None:
    async def test() -> None:
        async with serving() as old:
            await old.create(steps=2)
            async with serving(world=old.world) as new:
                assert new.script.begun == ["1.1"]
                await old.end("1.1")
                assert not old.supervisor.live
                assert old.script.ended == []
                await new.end("1.1")
                await new.end("2.1")
                assert new.log()[-1] == "RUN_FINISHED"
                assert new.log().count("STEP_ENDED") == 2

    run(test)


def test_a_stop_right_after_a_restart_ends_what_the_last_owner_had_begun() -> None:
    async def test() -> None:
        async with serving() as first:
            await first.create(steps=2)
            world = first.world
        async with serving(world=world) as second:
            await second.tell(Stop())
            assert second.log()[4:] == ["RUN_RECOVERED", "STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STEP_ENDED", "STOPPED"]
            assert [e.status for e in events(world) if isinstance(e, StepEnded)] == ["ended"]

    run(test)


def test_a_server_that_closes_lets_go_of_effects_and_does_not_end_them() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create()
        assert server.script.let_go == ["1.1"]
        assert server.log() == CREATED

    run(test)


def test_progress_is_recorded_while_the_effect_goes_on() -> None:
    async def test() -> None:
        async with serving() as server:

            def speak(effect: Effect, within: Within) -> None:
                within.record((StepSaid(text=f"{effect.key} begins"),))

            server.script.on_begin = speak
            await server.create()
            assert server.log()[-1] == "STEP_SAID"
            await server.tell(Progress(key="1.1", events=(StepSaid(text="half"),)))
            assert server.log()[-1] == "STEP_SAID"

    run(test)


def test_a_read_sees_committed_state_only() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            await server.create(steps=2)
            gate.hold_at = "append.begin"
            stopping = asyncio.create_task(server.tell(Stop()))
            await gate.held.wait()
            reading = asyncio.create_task(server.supervisor.read("r", lambda _, row: str(row.lifecycle)))
            await quiet()
            assert not reading.done()
            gate.go.set()
            await stopping
            assert await reading == "STOPPING"

    run(test)


def test_a_read_is_answered_although_there_is_no_lull() -> None:
    async def test() -> None:
        async def slow(operation: str) -> None:
            await asyncio.sleep(0.01)

        async def chatter(within: Within) -> None:
            while True:  # more comes while each commit is on its way
                within.record((StepSaid(text="on and on"),))
                await asyncio.sleep(0.003)

        async with serving(point=slow) as server:
            talking: list[asyncio.Task[None]] = []
            server.script.on_begin = lambda _, within: talking.append(asyncio.create_task(chatter(within)))
            await server.supervisor.create("trivial", "r", Create())
            async with asyncio.timeout(1):
                while not talking:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                assert await server.supervisor.read("r", lambda state, row: state.common.seq == row.seq)
            talking[0].cancel()

    run(test)


def test_what_a_reader_asks_wrongly_is_its_own_affair() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create()

            def wrong(*_: object) -> None:
                raise NotFound("no such part")

            with pytest.raises(NotFound):
                await server.supervisor.read("r", wrong)
            assert list(server.supervisor.live) == ["r"]

    run(test)


def test_a_read_that_waits_for_a_commit_ends_when_the_run_halts() -> None:
    async def test() -> None:
        gate = Gatekeeper()
        async with serving(point=gate) as server:
            await server.create(steps=2)
            gate.hold_at = gate.fail_at = "append.begin"
            gate.error = StoreFailed("the disk is full")
            stopping = asyncio.create_task(server.tell(Stop()))
            await gate.held.wait()
            reading = asyncio.create_task(server.supervisor.read("r", lambda _, row: row))
            await quiet()
            gate.go.set()
            with pytest.raises(StoreFailed):
                await stopping
            with pytest.raises(Unavailable):
                await reading

    run(test)


def test_housekeeping_is_done_after_the_stop_and_also_by_the_next_owner() -> None:
    async def test() -> None:
        async with serving() as server:
            await server.create(tidies=True)
            await server.tell(Stop())
            assert server.script.begun == ["1.1", "tidy"]
            await server.end("tidy")
            assert server.log()[-2:] == ["STOPPED", "TIDIED"]
            assert not server.supervisor.live

    run(test)
