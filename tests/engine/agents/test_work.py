"""Following an agent: what it prints becomes news in the log, once each, whoever follows it; and how that ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from itertools import count

import pytest
from tests.engine.desk import DONE, OUTPUT, Desk, interrupted, printing, work
from tests.engine.server import run

from pilothouse.adapters.agents.lines import Finished, LineReader
from pilothouse.adapters.work.memory import MemoryProgram
from pilothouse.core.plan.agent_events import AgentNoted, AgentText, AgentToolStarted, AgentUsed
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.events import LogAppended
from pilothouse.core.run.agents import AgentEnded, AgentReader, Asked, News, Text, ToolEnded, ToolStarted, Used
from pilothouse.core.run.commands import Exit, ExitReason, Grew
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.run.usage import Usage
from pilothouse.engine.agents import work as agent_work
from pilothouse.engine.agents.work import AgentWork, Reading
from pilothouse.engine.driving.commands import Commands
from pilothouse.errors import BadInput, StoreFailed


def text_of(desk: Desk) -> str:
    return "".join(event.text for event in desk.events(AgentText))


def took(ended: AgentEnded) -> int:
    return ended.exit.ended_at - ended.exit.started_at


def test_what_an_agent_says_is_recorded_and_its_end_is_judged_by_its_reader() -> None:
    async def test() -> None:
        desk = Desk(printing(Text(text="Hello "), Text(text="world"), DONE, duration_s=2.0))
        ended = await desk.ended()
        assert ended.ok and ended.exit.ok
        assert text_of(desk) == "Hello world"
        assert [event.to for event in desk.events()] == [len(b'{"type":"text","text":"Hello "}\n' * 2) - 1]

    run(test)


def test_the_time_it_took_is_usage() -> None:
    async def test() -> None:
        ended = await Desk(printing(DONE, duration_s=2.0)).ended()
        assert ended.news == (Used(usage=Usage(wall_ms=2000)),)

    run(test)


def test_usage_has_its_price_where_it_is_recorded() -> None:
    async def test() -> None:
        usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
        desk = Desk(printing(Used(usage=usage, model="m"), Used(usage=usage, model="unheard-of"), DONE))
        await desk.ended()
        priced, unpriced = desk.events(AgentUsed)
        assert priced.usage.cost == pytest.approx(2.0) and not priced.usage.unpriced_tokens
        assert unpriced.usage.cost == 0 and unpriced.usage.unpriced_tokens == 1_500_000

    run(test)


def test_the_end_of_raw_output_without_a_line_end_is_a_line_too() -> None:
    async def test() -> None:
        desk = Desk(printing(b'{"type":"text","text":"cut off"}'))
        ended = await desk.ended()
        assert not ended.ok
        assert text_of(desk) == "cut off"
        assert desk.events()[-1].to == ended.exit.output_to

    run(test)


def test_raw_output_is_told_of_as_for_any_command() -> None:
    async def test() -> None:
        desk = Desk(printing(Text(text="x"), DONE))
        ended = await desk.ended()
        assert desk.events(LogAppended)[-1].end == ended.exit.output_to

    run(test)


def test_the_tail_of_standard_error_says_why_it_failed() -> None:
    async def test() -> None:
        desk = Desk(MemoryProgram(errors=((0.0, b"x" * 100_000 + b" no credit left\n"),), code=1))
        ended = await desk.ended()
        assert not ended.ok
        assert ended.error.endswith("no credit left") and len(ended.error) < 10_000

    run(test)


# When it is recorded.


def test_pieces_of_text_are_recorded_a_few_times_a_second() -> None:
    async def test() -> None:
        words = [(n / 100, Text(text=f"{n} ")) for n in range(200)]
        desk = Desk(printing(*words, DONE))
        await desk.ended()
        assert text_of(desk) == "".join(f"{n} " for n in range(200))
        assert 10 <= len(desk.events(AgentText)) <= 20

    run(test)


def test_tools_and_questions_are_recorded_at_once_with_what_came_before() -> None:
    async def test() -> None:
        told: tuple[tuple[float, News], ...] = (
            (1.0, Text(text="first")),
            (1.01, Text(text="then")),
            (1.02, ToolStarted(call_id="1", tool="edit")),
            (1.03, ToolEnded(call_id="1")),
            (1.04, Asked(request_id="r", tool="shell", title="rm -r /")),
        )
        desk = Desk(printing(*told, (5.0, DONE)))
        await desk.ended()
        when = [(at, [event.type_name() for event in events]) for at, events in desk.recorded if at < 2]
        assert [entry for entry in when if entry[1] != ["LOG_APPENDED"]] == [
            (1.0, ["AGENT_TEXT"]),
            (1.02, ["AGENT_TEXT", "AGENT_TOOL_STARTED"]),
            (1.03, ["AGENT_TOOL_ENDED"]),
            (1.04, ["NEEDS_APPROVAL"]),
        ]
        (asked,) = desk.events(NeedsApproval)
        assert (asked.action, asked.wait.scope, asked.request_id) == ("shell", "n1", "r")

    run(test)


# Another owner.


@pytest.mark.parametrize("after_s", [0.001, 0.1, 0.35, 0.5, 0.77, 1.0, 1.5])
def test_an_owner_that_takes_over_loses_nothing_and_doubles_nothing(after_s: float) -> None:
    async def test() -> None:
        words = [(n / 50, Text(text=f"{n} ")) for n in range(50)]
        desk = Desk(printing(*words, (0.99, ToolStarted(call_id="1", tool="t")), DONE, duration_s=1.2))
        effect = await interrupted(desk, after_s)
        ended = await desk.ended(effect)
        assert ended.ok and desk.started == 1
        assert text_of(desk) == "".join(f"{n} " for n in range(50))
        assert len(desk.events(AgentToolStarted)) == 1
        offsets = [event.to for event in desk.events()]
        assert offsets == sorted(offsets)

    run(test)


def test_the_reader_of_a_later_owner_has_seen_what_the_first_one_did() -> None:
    async def test() -> None:
        desk = Desk(printing(DONE, (0.5, Text(text="after")), duration_s=1.0))
        effect = await interrupted(desk, 0.2)
        assert (await desk.ended(effect)).ok

    run(test)


def test_an_agent_that_nobody_knows_is_lost() -> None:
    async def test() -> None:
        ended = await Desk(printing(DONE)).ended(work(adopted=True))
        assert not ended.ok and ended.exit.reason is ExitReason.LOST

    run(test)


def test_what_a_lost_agent_had_printed_is_told() -> None:
    async def test() -> None:
        desk = Desk(printing((0.5, Text(text="so far")), duration_s=1000.0))
        effect = await interrupted(desk, 0.1)
        await desk.clock.sleep(1.0)
        desk.warden.kill()
        for key in desk.warden.inventory().ended:
            desk.warden.forget(key)
        ended = await desk.ended(effect)
        assert ended.exit.reason is ExitReason.LOST
        assert text_of(desk) == "so far"
        assert ended.exit.output_to == desk.events()[-1].to

    run(test)


# Its end.


def test_an_agent_that_lingers_after_its_final_event_is_ended_and_has_succeeded() -> None:
    async def test() -> None:
        desk = Desk(printing(DONE, duration_s=1000.0), linger_s=3.0)
        ended = await desk.ended()
        assert ended.ok and ended.exit.reason is ExitReason.CANCELED
        assert took(ended) == 3000

    run(test)


def test_one_that_lingers_and_has_failed_has_failed() -> None:
    async def test() -> None:
        desk = Desk(printing(Finished(ok=False, error="no idea"), duration_s=1000.0))
        ended = await desk.ended()
        assert (ended.ok, ended.error, took(ended)) == (False, "no idea", 10_000)

    run(test)


def test_an_unwanted_agent_is_ended_and_what_it_said_is_recorded() -> None:
    async def test() -> None:
        desk = Desk(printing(Text(text="so far"), duration_s=1000.0))
        following = asyncio.create_task(desk.follow())
        await desk.clock.sleep(1.0)
        desk.within.unwanted.set()
        ended = await following
        assert isinstance(ended, AgentEnded) and ended.exit.reason is ExitReason.CANCELED and not ended.ok
        assert text_of(desk) == "so far"

    run(test)


def test_one_that_is_unwanted_before_it_is_started_is_never_started() -> None:
    async def test() -> None:
        desk = Desk(printing(DONE))
        desk.within.unwanted.set()
        assert isinstance(await desk.follow(), Ended)
        assert desk.started == 0

    run(test)


def test_an_agent_that_cannot_be_given_its_work_has_failed_without_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        desk = Desk(printing(DONE))

        async def command(_: RunWork) -> None:
            raise BadInput("it is gone")

        monkeypatch.setattr(desk.agents, "command", command)
        ended = await desk.follow()
        assert isinstance(ended, Failed) and "it is gone" in ended.error
        assert desk.started == 0

    run(test)


# Trouble with what it prints.


def test_a_reader_that_fails_does_not_end_the_agent_and_what_came_of_it_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        class Broken(LineReader):
            def line(self, line: bytes) -> Iterable[News]:
                raise ZeroDivisionError("a bug")

        desk = Desk(printing(Text(text="x"), (5.0, DONE)))
        monkeypatch.setattr(desk.agents, "reader", lambda _: Broken())
        ended = await desk.ended()
        assert not ended.ok and "a bug" in ended.error
        assert ended.exit.ok and took(ended) == 5000

    run(test)


def test_a_reader_that_does_not_come_to_a_judgement_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agent_work, "JUDGE_S", 0.01)
    let_go = threading.Event()

    class Stuck(LineReader):
        def end(self, exit: Exit, errors: str) -> AgentEnded:
            let_go.wait(10)
            return super().end(exit, errors)

    async def test() -> None:
        desk = Desk(printing(Text(text="x"), DONE))
        monkeypatch.setattr(desk.agents, "reader", lambda _: Stuck())
        try:
            ended = await desk.ended()
        finally:
            let_go.set()
        assert not ended.ok and "could not be understood" in ended.error

    asyncio.run(test())  # real threads, so a real loop


def test_what_ends_while_its_reader_is_still_being_made_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        desk = Desk(printing(Text(text="x"), DONE))
        make, attach, calls = desk.agents.reader, desk.executor.attach, count()
        asked, asked_again, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

        def slowly(effect: RunWork) -> AgentReader:
            if next(calls) == 0:
                loop.call_soon_threadsafe(asked.set)
            else:
                asked_again.set()  # whoever followed it was stopped, and its end is being read
            assert asked_again.wait(30)
            return make(effect)

        async def ending_then(key: str, from_offset: int = 0) -> AsyncIterator[Grew | Exit]:
            async for item in attach(key, from_offset):
                if isinstance(item, Exit):
                    await asked.wait()
                yield item

        monkeypatch.setattr(desk.agents, "reader", slowly)
        monkeypatch.setattr(desk.executor, "attach", ending_then)
        assert (await desk.ended()).ok
        assert text_of(desk) == "x"

    asyncio.run(test())  # real threads, so a real loop


def test_what_was_read_for_somebody_who_is_cancelled_twice_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        desk, reading, told = Desk(printing(Text(text="x"), DONE)), Reading(), asyncio.Event()
        attach, loop, begun, let_go = (
            desk.executor.attach,
            asyncio.get_running_loop(),
            asyncio.Event(),
            threading.Event(),
        )

        class Slow(LineReader):
            def line(self, line: bytes) -> Iterable[News]:
                loop.call_soon_threadsafe(begun.set)
                assert let_go.wait(30)
                return super().line(line)

        async def late(key: str, from_offset: int = 0) -> AsyncIterator[Grew | Exit]:
            async for item in attach(key, from_offset):
                await told.wait()
                yield item

        monkeypatch.setattr(desk.agents, "reader", lambda _: Slow())
        monkeypatch.setattr(desk.executor, "attach", late)
        performer = AgentWork(Commands(desk.executor, desk.clock), desk.agents, desk.logs, desk.clock)
        following = asyncio.create_task(performer.run(work(), desk.within, reading=reading))
        while not await desk.logs.size(OUTPUT):
            await asyncio.sleep(0)
        asking = asyncio.create_task(reading.catch_up())
        await begun.wait()
        for _ in range(2):
            asking.cancel()
            await asyncio.sleep(0)
        let_go.set()
        await asyncio.wait((asking,))
        told.set()
        ended = await following
        assert isinstance(ended, AgentEnded) and ended.ok
        assert text_of(desk) == "x"

    asyncio.run(asyncio.wait_for(test(), 30))  # real threads, so a real loop


def test_output_that_cannot_be_read_for_a_while_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        desk = Desk(printing(Text(text="x"), (1.0, DONE)))
        read, failures = desk.logs.read, [StoreFailed("no"), OSError("no"), StoreFailed("no")]

        async def sometimes(output: str, start: int = 0, limit: int = 1 << 20) -> tuple[int, bytes]:
            if failures:
                raise failures.pop()
            return await read(output, start, limit)

        monkeypatch.setattr(desk.logs, "read", sometimes)
        assert (await desk.ended()).ok
        assert text_of(desk) == "x"

    run(test)


def test_a_question_that_could_not_be_read_is_asked_although_nothing_more_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        desk = Desk(printing(Asked(request_id="r", tool="t"), duration_s=1000.0))
        read, failures = desk.logs.read, [StoreFailed("no")]

        async def sometimes(output: str, start: int = 0, limit: int = 1 << 20) -> tuple[int, bytes]:
            if failures:
                raise failures.pop()
            return await read(output, start, limit)

        monkeypatch.setattr(desk.logs, "read", sometimes)
        following = asyncio.create_task(desk.follow())
        await desk.clock.sleep(10.0)
        assert len(desk.events(NeedsApproval)) == 1
        following.cancel()
        await asyncio.wait((following,))

    run(test)


def test_output_that_cannot_be_read_at_all_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        desk = Desk(printing(DONE))

        async def never(*_: object) -> tuple[int, bytes]:
            raise StoreFailed("no disk")

        monkeypatch.setattr(desk.logs, "read", never)
        ended = await desk.ended()
        assert not ended.ok and "no disk" in ended.error

    run(test)


def test_what_was_not_kept_is_said_once_and_the_rest_is_read() -> None:
    async def test() -> None:
        desk = Desk(
            printing(Text(text="begin, "), *[Text(text="middle")] * 20, Text(text="end"), DONE), segment_size=48
        )
        assert (await desk.ended()).ok
        told = text_of(desk)
        assert told.startswith("begin, ") and told.endswith("end") and told.count("middle") < 20
        (note,) = desk.events(AgentNoted)
        assert note.text.endswith("bytes of its output: not kept")

    run(test)


def test_a_line_that_is_too_long_is_left_out_and_said() -> None:
    async def test() -> None:
        desk = Desk(printing(b"x" * 5000 + b"\n", Text(text="after"), DONE), max_line=1000)
        assert (await desk.ended()).ok
        assert [event.text for event in desk.events(AgentNoted)] == [
            "5,000 bytes of its output: one line that is too long"
        ]
        assert text_of(desk) == "after"

    run(test)


def test_binary_output_does_no_harm() -> None:
    async def test() -> None:
        junk = bytes(range(256)) * 2000
        desk = Desk(printing(junk, b"\n", Text(text="after"), DONE))
        assert (await desk.ended()).ok
        assert text_of(desk) == "after"

    run(test)


def test_a_flood_is_told_in_part_and_its_end_in_full() -> None:
    async def test() -> None:
        junk = b"this is none of its events\n" * 40_000
        desk = Desk(printing(junk, Used(usage=Usage(turns=1)), Text(text="after"), DONE))
        assert (await desk.ended()).ok
        notes = desk.events(AgentNoted)
        assert len(notes) == 501 and notes[-1].text == "… more in the raw output"
        assert text_of(desk) == "after"
        assert desk.events(AgentUsed)

    run(test)


def test_a_stop_does_not_wait_for_a_flood_to_be_read() -> None:
    async def test() -> None:
        desk = Desk(printing((0.0, b"junk\n" * 1_000_000), duration_s=1000.0))
        desk.warden.start(await desk.agents.command(work()), "p/n1/1/work")
        desk.within.unwanted.set()
        ended = await desk.ended(work(adopted=True))
        assert ended.exit.reason is ExitReason.CANCELED
        assert desk.logs.end(OUTPUT) == 5_000_000

    run(test)


def test_one_that_could_not_be_started_says_why() -> None:
    async def test() -> None:
        desk = Desk(MemoryProgram(not_started="no such file"))
        ended = await desk.ended()
        assert ended.exit.reason is ExitReason.NOT_STARTED
        assert "no such file" in ended.error

    run(test)
