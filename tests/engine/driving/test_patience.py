"""Work that may not hold up whoever waits for it."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.server import run

from pilothouse.core.run.contract import Ended
from pilothouse.engine.driving.patience import Patience, TooLong


class Work:
    """``stubborn``: it does not end when it is cancelled."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.stubborn = stubborn
        self.go = asyncio.Event()
        self.ended = False

    async def run(self) -> str:
        try:
            while True:
                try:
                    await self.go.wait()
                    return "done"
                except asyncio.CancelledError:
                    if not self.stubborn:
                        raise
        finally:
            self.ended = True


def test_an_answer_in_time_is_the_answer() -> None:
    async def journey() -> None:
        work = Work()
        work.go.set()
        assert await Patience().wait(work.run(), asyncio.Event(), 1.0) == "done"

    run(journey)


def test_a_failure_is_raised() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def journey() -> None:
        with pytest.raises(ZeroDivisionError):
            await Patience().wait(fail(), asyncio.Event(), 1.0)

    run(journey)


def test_what_takes_too_long_is_ended() -> None:
    async def journey() -> None:
        work = Work()
        assert await Patience().wait(work.run(), asyncio.Event(), 1.0) == TooLong()
        assert work.ended

    run(journey)


def test_what_nobody_wants_is_ended_or_not_begun() -> None:
    async def journey() -> None:
        work, unwanted, patience = Work(), asyncio.Event(), Patience()
        asyncio.get_running_loop().call_later(1, unwanted.set)
        assert await patience.wait(work.run(), unwanted) == Ended()
        assert work.ended
        never = Work()
        assert await patience.wait(never.run(), unwanted) == Ended()
        assert not never.ended

    run(journey)


def test_what_will_not_end_is_left_behind_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    async def journey() -> None:
        work, patience = Work(stubborn=True), Patience()
        assert await patience.wait(work.run(), asyncio.Event(), 1.0) == TooLong()
        assert (work.ended, patience.left) == (False, 1)
        work.go.set()
        await asyncio.sleep(1)
        assert (work.ended, patience.left) == (True, 0)

    run(journey)
    assert "work.stuck" in caplog.text


def test_an_answer_that_came_while_it_was_being_ended_counts() -> None:
    async def journey() -> None:
        work = Work(stubborn=True)
        asyncio.get_running_loop().call_later(2, work.go.set)
        assert await Patience().wait(work.run(), asyncio.Event(), 1.0) == "done"

    run(journey)


def test_whoever_is_cancelled_while_waiting_ends_the_work_first() -> None:
    async def journey() -> None:
        work = Work()
        waiting = asyncio.create_task(Patience().wait(work.run(), asyncio.Event()))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        assert work.ended

    run(journey)


def test_whoever_is_cancelled_over_and_over_leaves_no_work_that_goes_on() -> None:
    async def journey() -> None:
        work = Work()
        waiting = asyncio.create_task(Patience(grace_s=None).wait(work.run(), asyncio.Event()))
        await asyncio.sleep(0.001)
        while not waiting.done():
            waiting.cancel()
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert work.ended

    run(journey)


def test_what_will_not_end_is_waited_for_once() -> None:
    async def journey() -> None:
        work, loop = Work(stubborn=True), asyncio.get_running_loop()
        began = loop.time()
        assert await Patience(grace_s=3.0).wait(work.run(), asyncio.Event(), 1.0) == TooLong()
        assert loop.time() - began == pytest.approx(4.0)
        work.go.set()
        await asyncio.sleep(0.001)

    run(journey)


def test_work_that_is_as_good_as_done_may_go_on_a_little_when_it_is_not_wanted_any_more() -> None:
    async def journey() -> None:
        work, unwanted = Work(), asyncio.Event()
        asyncio.get_running_loop().call_later(1, unwanted.set)
        asyncio.get_running_loop().call_later(3, work.go.set)
        assert await Patience().wait(work.run(), unwanted, last_s=5.0) == "done"
        late, unwanted = Work(), asyncio.Event()
        asyncio.get_running_loop().call_later(1, unwanted.set)
        assert await Patience().wait(late.run(), unwanted, last_s=5.0) == Ended()
        assert late.ended

    run(journey)


def test_without_a_grace_it_is_waited_for_until_it_has_ended() -> None:
    async def journey() -> None:
        work, unwanted = Work(stubborn=True), asyncio.Event()
        asyncio.get_running_loop().call_later(1, unwanted.set)
        asyncio.get_running_loop().call_later(3600, work.go.set)
        assert await Patience(grace_s=None).wait(work.run(), unwanted) == "done"

    run(journey)


def test_work_that_somebody_else_cancels_has_failed() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def journey() -> None:
        with pytest.raises(RuntimeError, match="cancelled"):
            await Patience().wait(cancelled(), asyncio.Event())

    run(journey)
