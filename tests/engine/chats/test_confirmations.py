"""Decisions about tool calls that are made in another process than the one that drives the turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.redis_server import RedisServer, redis_server

from pilothouse.adapters.signals.memory import MemoryPlace, MemorySignals
from pilothouse.adapters.signals.over_redis import RedisSignals
from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.engine.chat_ports import Signals
from pilothouse.engine.chats.confirmations import CHANNEL, Confirmations, key
from pilothouse.errors import BadInput, Refused, StoreFailed, Unavailable

WITHIN_S = 30
TURN, CALL = "turn-1", "call-1"

Open = Callable[[], Signals]


@pytest.fixture(params=["memory", "redis"])
def open_end(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if request.param == "memory":
        place = MemoryPlace()
        yield lambda: MemorySignals(place)
        return
    with redis_server(tmp_path) as server:
        yield lambda: RedisSignals(server.url)


def decision(status: str = "accepted", by: str = "ann") -> Confirm:
    return Confirm(tool_call_id=CALL, status=status, by=by, arguments={"path": "a"})


class Process:
    """One process and the turns it drives, each with one call: somebody is to allow it; then it is running, which can
    be sent to the background, and ends with what its executor tells."""

    def __init__(self, signals: Signals, *live: str, shared: bool = True) -> None:
        self.signals = signals
        self.live = set(live)
        self.told: list[Confirm] = []
        self.troubles: list[Exception] = []
        """Met by the next decisions, one each."""
        self.confirmations = Confirmations(
            signals=signals, tell=self.tell, drives=self.live.__contains__, waiting=self.waiting, shared=shared
        )

    async def tell(self, run_id: str, given: Confirm) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        if given.status == "nonsense":
            raise BadInput("'nonsense' is no decision", field="status")
        follows = {None: {"accepted", "rejected"}, "accepted": {"background", "success"}, "background": {"success"}}
        last = self.told[-1].status if self.told else None
        if run_id not in self.live or given.status not in follows.get(last, ()):
            raise Refused("the call has been decided: it is executing")
        self.told.append(given)

    async def waiting(self) -> list[RunRow]:
        wait = Wait(id=f"{TURN}.{CALL}", kind=WaitKind.APPROVAL, scope=CALL)
        return [_row(turn_id, wait) for turn_id in self.live if not self.told]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            async with self.confirmations.taking():
                yield
        finally:
            await self.signals.close()


def _row(turn_id: str, wait: Wait) -> RunRow:
    return RunRow(id=turn_id, kind="turn", name="", owner="ann", lifecycle=Lifecycle.RUNNING, waits=(wait,))


def two(open_end: Open, story: Callable[[Process, Process], Awaitable[None]]) -> None:
    """Run a story on a process that drives the turn, and one that does not."""

    async def told() -> None:
        driver, other = Process(open_end(), TURN), Process(open_end())
        async with asyncio.timeout(WITHIN_S), driver.running(), other.running():
            await story(driver, other)

    asyncio.run(told())


def test_a_decision_made_elsewhere_reaches_the_turn_and_is_in_its_log_on_return(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        await other.confirmations.confirm(TURN, decision())
        assert driver.told == [decision()]
        assert await other.signals.kept(key(TURN, CALL)) is None, "the log has it"

    two(open_end, story)


def test_of_decisions_made_everywhere_at_once_one_counts_and_the_others_are_told(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        def deciding(process: Process, n: int) -> Awaitable[None]:
            return process.confirmations.confirm(TURN, decision(by=f"person{n}"))

        ends = await asyncio.gather(
            *(deciding(process, n) for n, process in enumerate([driver, other] * 5)), return_exceptions=True
        )
        assert [end for end in ends if end is not None and not isinstance(end, Refused)] == []
        assert ends.count(None) == 1
        assert driver.told == [decision(by=f"person{ends.index(None)}")]

    two(open_end, story)


def test_who_executes_a_call_elsewhere_takes_it_and_then_tells_what_it_brought(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        await other.confirmations.confirm(TURN, decision())
        await other.confirmations.confirm(TURN, decision("success"))
        with pytest.raises(Refused):
            await other.confirmations.confirm(TURN, decision("error"))
        assert [one.status for one in driver.told] == ["accepted", "success"]

    two(open_end, story)


def test_a_running_call_is_sent_to_the_background_from_any_process(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        await driver.confirmations.confirm(TURN, decision(by="bob"))
        with pytest.raises(Refused):
            await other.confirmations.confirm(TURN, decision("rejected"))
        await other.confirmations.confirm(TURN, decision("background"))
        with pytest.raises(Refused):
            await other.confirmations.confirm(TURN, decision("background", by="cleo"))
        assert [one.status for one in driver.told] == ["accepted", "background"]

    two(open_end, story)


@pytest.mark.parametrize("trouble", [StoreFailed("the disk is full"), Unavailable("closing"), RuntimeError("a bug")])
def test_a_decision_that_could_not_be_taken_for_now_is_kept_and_counts_later(
    open_end: Open, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr("pilothouse.engine.chats.confirmations.LOOK_EVERY_S", 0.02)

    async def story(driver: Process, other: Process) -> None:
        driver.troubles = [trouble] * 5
        with pytest.raises(Unavailable):
            await other.confirmations.confirm(TURN, decision())
        while not driver.told:
            await asyncio.sleep(0.01)
        assert driver.told == [decision()]
        while await other.signals.kept(key(TURN, CALL)) is not None:
            await asyncio.sleep(0.01)

    two(open_end, story)


def test_a_decision_that_was_kept_first_counts_before_one_that_is_heard_of_first(
    open_end: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.engine.chats.confirmations.ANSWER_WITHIN_S", 0.3)

    async def story(driver: Process, other: Process) -> None:
        driver.live.clear()
        with pytest.raises(Unavailable, match="kept"):
            await other.confirmations.confirm(TURN, decision("rejected"))
        with pytest.raises(Refused, match="made before"):
            await other.confirmations.confirm(TURN, decision())
        driver.live.add(TURN)
        with pytest.raises(Refused, match="decided"):
            await other.confirmations.confirm(TURN, decision(by="cleo"))
        assert driver.told == [decision("rejected")]

    two(open_end, story)


def test_what_lies_in_the_place_of_a_decision_and_is_none_is_cleared_away(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        for thing in (
            b"nonsense",
            b'{"turnId": "else", "confirm": {"toolCallId": "c", "status": "accepted", "by": ""}}',
        ):
            await other.signals.keep(key(TURN, CALL), thing, 60)
            with pytest.raises(BadInput):
                await other.confirmations.confirm(TURN, decision("nonsense"))
            assert await other.signals.kept(key(TURN, CALL)) is None
        await other.confirmations.confirm(TURN, decision())

    two(open_end, story)


def test_the_same_decision_made_again_is_the_same_decision(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        await other.confirmations.confirm(TURN, decision())
        await other.confirmations.confirm(TURN, decision())
        assert driver.told == [decision()]
        with pytest.raises(Refused):
            await other.confirmations.confirm(TURN, decision("rejected"))

    two(open_end, story)


def test_a_decision_that_the_turn_refuses_stands_in_nobodys_way(open_end: Open) -> None:
    async def story(driver: Process, other: Process) -> None:
        with pytest.raises(BadInput, match="nonsense"):
            await other.confirmations.confirm(TURN, decision("nonsense"))
        assert await other.signals.kept(key(TURN, CALL)) is None
        await other.confirmations.confirm(TURN, decision())
        assert driver.told == [decision()]

    two(open_end, story)


def test_a_decision_that_nobody_takes_is_kept_and_counts_when_somebody_drives_the_turn_again(
    open_end: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.engine.chats.confirmations.ANSWER_WITHIN_S", 0.05)
    monkeypatch.setattr("pilothouse.engine.chats.confirmations.LOOK_EVERY_S", 0.02)

    async def story(driver: Process, other: Process) -> None:
        driver.live.clear()
        with pytest.raises(Unavailable, match="kept"):
            await other.confirmations.confirm(TURN, decision())
        driver.live.add(TURN)
        while not driver.told:
            await asyncio.sleep(0.01)
        assert driver.told == [decision()]

    two(open_end, story)


def test_what_is_no_decision_harms_nothing(open_end: Open, caplog: pytest.LogCaptureFixture) -> None:
    async def story(driver: Process, other: Process) -> None:
        await other.signals.publish(CHANNEL, b"nonsense")
        await other.signals.publish(CHANNEL, b'{"turnId": 1}')
        await other.confirmations.confirm(TURN, decision())
        assert driver.told == [decision()]

    two(open_end, story)
    assert "confirmations.not-understood" in caplog.text


def test_without_other_processes_a_decision_is_told_and_kept_nowhere() -> None:
    async def story() -> None:
        alone = Process(MemorySignals(), TURN, shared=False)
        await alone.confirmations.confirm(TURN, decision())
        assert alone.told == [decision()]
        assert await alone.signals.kept(key(TURN, CALL)) is None
        with pytest.raises(Refused):
            await alone.confirmations.confirm("turn-2", decision())

    asyncio.run(story())


def test_when_the_server_for_signals_is_gone_turns_that_are_driven_here_can_still_be_decided(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def story(server: RedisServer) -> None:
        driver = Process(RedisSignals(server.url), TURN)
        async with asyncio.timeout(WITHIN_S), driver.running():
            await asyncio.to_thread(server.stop)
            await driver.confirmations.confirm(TURN, decision())
            assert driver.told == [decision()]
            while "signals.lost" not in caplog.text:
                await asyncio.sleep(0.01)

    with redis_server(tmp_path) as server:
        asyncio.run(story(server))
