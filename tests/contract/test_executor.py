"""What every executor promises, asked of the local one (real processes) and of its in-memory twin alike."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.store.output import FileLogStore
from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.adapters.work.memory import MemoryExecutor, MemoryProgram, MemoryWarden
from pilothouse.core.run.commands import Command, Exit, ExitReason, Grew
from pilothouse.core.run.output import KEPT_HEAD, KEPT_TAIL, SEGMENT_SIZE
from pilothouse.engine.ports import Executor, LogStore
from pilothouse.errors import BadInput, ExecutorFailed

WAIT = 20.0
BINARY = bytes(range(256))
FLOOD = 100 << 20

# What a command does, said twice: for a real machine, and for the twin.
REAL: dict[str, tuple[str, ...]] = {
    "succeed": ("true",),
    "fail": ("sh", "-c", "exit 3"),
    "say": ("sh", "-c", "echo hello; echo world >&2"),
    "segfault": ("sh", "-c", "kill -SEGV $$"),
    "run": ("sleep", "300"),
    "say and run": ("sh", "-c", "echo hello; exec sleep 300"),
    "ignore": ("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 300; done"),
    "missing": ("/no/such/executable",),
    "complain": ("sh", "-c", "echo hello; echo trouble >&2"),
    "complain and run": ("sh", "-c", "echo trouble >&2; exec sleep 300"),
    "complain in binary": ("sh", "-c", "printf '" + "".join(f"\\{byte:03o}" for byte in BINARY) + "' >&2"),
    "complain without end": ("sh", "-c", f"head -c {FLOOD} /dev/zero >&2; echo done"),
    "leak": ("sh", "-c", "printf 'a hunt' >&2; printf 'b hunt'; sleep 0.15; printf 'er2 z' >&2; printf 'er3'"),
    "leave one behind": ("sh", "-c", "sleep 300 >/dev/null & echo left >&2; exit 4"),
}
TWIN: dict[str, MemoryProgram] = {
    "succeed": MemoryProgram(),
    "fail": MemoryProgram(code=3),
    "say": MemoryProgram(output=((0, b"hello\nworld\n"),)),
    "segfault": MemoryProgram(signal=11),
    "run": MemoryProgram(duration_s=300),
    "say and run": MemoryProgram(duration_s=300, output=((0, b"hello\n"),)),
    "ignore": MemoryProgram(duration_s=300, output=((0, b"deaf\n"),), ignores_term=True),
    "missing": MemoryProgram(not_started="cannot run /no/such/executable"),
    "complain": MemoryProgram(output=((0, b"hello\n"),), errors=((0, b"trouble\n"),)),
    "complain and run": MemoryProgram(duration_s=300, errors=((0, b"trouble\n"),)),
    "complain in binary": MemoryProgram(errors=((0, BINARY),)),
    "complain without end": MemoryProgram(
        output=((0, b"done\n"),), errors=((0, bytes(SEGMENT_SIZE)),) * (FLOOD // SEGMENT_SIZE)
    ),
    "leak": MemoryProgram(
        duration_s=0.1,
        output=((0, b"b hunt"), (0.1, b"er3")),
        errors=((0, b"a hunt"), (0.1, b"er2 z")),
    ),
    "leave one behind": MemoryProgram(code=4, errors=((0, b"left\n"),)),
}


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LocalSetting:
    """A data directory; its executors share one warden."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.logs: LogStore = FileLogStore(data_dir / "output")

    def owner(self, epoch: int = 1) -> LocalExecutor:
        return LocalExecutor(self._data_dir, epoch)

    def argv(self, what: str) -> tuple[str, ...]:
        return REAL[what]

    async def end(self) -> None:
        await LocalExecutor(self._data_dir, 1 << 30).shutdown()


class TwinSetting:
    """A world in memory."""

    def __init__(self) -> None:
        logs = MemoryLogStore()
        self.logs: LogStore = logs
        self._world = MemoryWarden(WallClock(), lambda command, _: TWIN[command.argv[0]], logs)

    def owner(self, epoch: int = 1) -> MemoryExecutor:
        return MemoryExecutor(self._world, epoch)

    def argv(self, what: str) -> tuple[str, ...]:
        return (what,)

    async def end(self) -> None:
        pass


Setting = LocalSetting | TwinSetting


@pytest.fixture(params=["local", "memory"])
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setting]:
    made: Setting = LocalSetting(tmp_path / "data") if request.param == "local" else TwinSetting()
    yield made
    asyncio.run(made.end())


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT):
            await test()

    asyncio.run(bounded())


def command(
    setting: Setting,
    what: str,
    key: str,
    *,
    timeout_ms: int = 0,
    grace_ms: int = 50,
    errors: str = "",
    redact: tuple[str, ...] = (),
) -> Command:
    return Command(
        argv=setting.argv(what),
        cwd="/",
        output=f"run/{key}",
        errors=errors,
        redact=redact,
        env={"PATH": os.environ["PATH"]},
        timeout_ms=timeout_ms,
        grace_ms=grace_ms,
    )


async def follow(executor: Executor, key: str) -> tuple[list[Grew], Exit]:
    """All of an attach; checks that one exit comes, last."""
    seen = [event async for event in executor.attach(key)]
    *grown, exit = seen
    assert isinstance(exit, Exit)
    assert all(isinstance(event, Grew) for event in grown)
    return [event for event in grown if isinstance(event, Grew)], exit


async def until_output(events: AsyncIterator[Grew | Exit]) -> None:
    async for event in events:
        assert isinstance(event, Grew)
        return


def test_a_command_that_succeeds_exits_with_code_0(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.open("attempt", 1)
            await executor.start(command(setting, "succeed", "k"), "k")
            _, exit = await follow(executor, "k")
            assert (exit.reason, exit.code, exit.signal) == (ExitReason.EXITED, 0, None)
            assert exit.ok
            assert 0 < exit.started_at <= exit.ended_at

    in_loop(test)


def test_the_exit_code_of_a_failed_command_is_told(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "fail", "k"), "k")
            _, exit = await follow(executor, "k")
            assert (exit.reason, exit.code, exit.ok) == (ExitReason.EXITED, 3, False)

    in_loop(test)


def test_the_signal_that_killed_a_command_is_told(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "segfault", "k"), "k")
            _, exit = await follow(executor, "k")
            assert (exit.reason, exit.code, exit.signal) == (ExitReason.EXITED, None, 11)

    in_loop(test)


def test_output_of_both_streams_is_in_the_log_store_when_its_growth_is_told(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "say", "k"), "k")
            grown, exit = await follow(executor, "k")
            assert grown[-1].to == exit.output_to == len(b"hello\nworld\n")
            assert await setting.logs.read("run/k") == (0, b"hello\nworld\n")

    in_loop(test)


def test_attaching_from_an_offset_tells_only_of_growth_beyond_it(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "say", "k"), "k")
            _, exit = await follow(executor, "k")
            again = [event async for event in executor.attach("k", exit.output_to)]
            assert again == [exit]

    in_loop(test)


def test_growth_is_told_while_the_command_runs(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "say and run", "k"), "k")
            await until_output(executor.attach("k"))
            assert (await executor.inventory()).running == {"k"}
            await executor.cancel("k")

    in_loop(test)


def test_a_command_that_cannot_be_started_ends_as_not_started_and_says_why(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "missing", "k"), "k")
            grown, exit = await follow(executor, "k")
            assert (exit.reason, exit.code, exit.signal) == (ExitReason.NOT_STARTED, None, None)
            assert "/no/such/executable" in exit.error
            assert not grown

    in_loop(test)


def test_a_timeout_ends_the_command(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "run", "k", timeout_ms=30), "k")
            _, exit = await follow(executor, "k")
            assert (exit.reason, exit.code) == (ExitReason.TIMEOUT, None)

    in_loop(test)


def test_cancel_ends_the_command_and_may_be_repeated(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "run", "k"), "k")
            await executor.cancel("k")
            await executor.cancel("k")
            _, exit = await follow(executor, "k")
            await executor.cancel("k")
            await executor.cancel("never heard of")
            assert (exit.reason, exit.signal, exit.ok) == (ExitReason.CANCELED, 15, False)

    in_loop(test)


def test_a_command_that_ignores_the_polite_signal_is_killed_after_the_grace(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "ignore", "k"), "k")
            await until_output(executor.attach("k"))
            await executor.cancel("k")
            _, exit = await follow(executor, "k")
            assert (exit.reason, exit.signal) == (ExitReason.CANCELED, 9)

    in_loop(test)


def test_the_grace_of_a_cancel_goes_before_that_of_the_command(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "ignore", "k", grace_ms=600_000), "k")
            await until_output(executor.attach("k"))
            await executor.cancel("k")
            await executor.cancel("k", grace_ms=10)
            _, exit = await follow(executor, "k")
            assert exit.signal == 9

    in_loop(test)


def test_a_cancel_wakes_whoever_is_attached_already(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "say and run", "k"), "k")
            events = executor.attach("k")
            await until_output(events)
            ended = asyncio.ensure_future(anext(events))
            await executor.inventory()
            await executor.cancel("k")
            exit = await ended
            assert isinstance(exit, Exit)
            assert exit.reason is ExitReason.CANCELED

    in_loop(test)


def test_a_known_key_is_not_started_again(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "say", "k"), "k")
            _, first = await follow(executor, "k")
            await executor.start(command(setting, "say", "k"), "k")
            _, second = await follow(executor, "k")
            assert second == first
            assert await setting.logs.size("run/k") == first.output_to

    in_loop(test)


def test_an_unknown_key_is_lost(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            grown, exit = await follow(executor, "nobody")
            assert (exit.reason, grown) == (ExitReason.LOST, [])

    in_loop(test)


def test_the_inventory_tells_what_runs_and_what_has_ended(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            instance = await executor.open("attempt", 1)
            await executor.start(command(setting, "run", "a"), "a")
            await executor.start(command(setting, "fail", "b"), "b")
            _, exit = await follow(executor, "b")
            inventory = await executor.inventory()
            assert (inventory.instance, inventory.running, inventory.ended) == (instance, frozenset("a"), {"b": exit})
            assert inventory.knows("a")
            assert not inventory.knows("c")
            await executor.cancel("a")

    in_loop(test)


def test_what_is_forgotten_is_unknown_and_what_runs_is_not_forgotten(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "run", "a"), "a")
            await executor.start(command(setting, "succeed", "b"), "b")
            await follow(executor, "b")
            for key in ("a", "b", "b", "c"):
                await executor.forget(key)
            inventory = await executor.inventory()
            assert inventory.running == {"a"}
            assert not inventory.ended
            await executor.cancel("a")

    in_loop(test)


def test_an_older_fence_of_an_attempt_is_refused(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            instance = await executor.open("attempt", 2)
            assert await executor.open("attempt", 2) == instance
            assert await executor.open("another", 1) == instance
            with pytest.raises(ExecutorFailed):
                await executor.open("attempt", 1)
            await executor.open("attempt", 3)

    in_loop(test)


def test_a_newer_owner_adopts_what_runs_and_the_older_one_is_refused(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner(1) as older, setting.owner(2) as newer:
            instance = await older.open("attempt", 1)
            await older.start(command(setting, "say and run", "k"), "k")
            await until_output(older.attach("k"))
            following = asyncio.create_task(follow(older, "k"))
            await older.inventory()

            found = await newer.inventory()
            assert (found.instance, found.running) == (instance, frozenset("k"))
            with pytest.raises(ExecutorFailed):
                await following
            with pytest.raises(ExecutorFailed):
                await older.start(command(setting, "run", "other"), "other")
            with pytest.raises(ExecutorFailed):
                await older.cancel("k")

            await newer.cancel("k")
            grown, exit = await follow(newer, "k")
            assert (exit.reason, grown) == (ExitReason.CANCELED, [Grew(exit.output_to)])
            assert (await newer.inventory()).running == frozenset()

    in_loop(test)


def test_what_ended_while_nobody_watched_is_told_to_the_next_owner(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner(1) as first:
            await first.start(command(setting, "fail", "k"), "k")
        async with setting.owner(2) as second:
            _, exit = await follow(second, "k")
            assert (exit.reason, exit.code) == (ExitReason.EXITED, 3)

    in_loop(test)


def test_several_may_follow_one_command(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "say and run", "k"), "k")
            followers = [asyncio.create_task(follow(executor, "k")) for _ in range(3)]
            await until_output(executor.attach("k"))
            await executor.cancel("k")
            exits = {exit for _, exit in await asyncio.gather(*followers)}
            assert len(exits) == 1

    in_loop(test)


def test_twenty_commands_run_at_once(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            keys = [f"k{number}" for number in range(20)]
            for key in keys:
                await executor.start(command(setting, "run", key), key)
            assert (await executor.inventory()).running == set(keys)
            for key in keys:
                await executor.cancel(key)
            exits = await asyncio.gather(*(follow(executor, key) for key in keys))
            assert {exit.reason for _, exit in exits} == {ExitReason.CANCELED}

    in_loop(test)


def test_errors_go_to_their_own_output_where_one_is_named(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "complain", "k", errors="run/errors"), "k")
            _, exit = await follow(executor, "k")
            assert exit.output_to == len(b"hello\n")
            assert await setting.logs.read("run/k") == (0, b"hello\n")
            assert await setting.logs.read("run/errors") == (0, b"trouble\n")

    in_loop(test)


@pytest.mark.parametrize("errors", ["", "run/k"])
def test_errors_go_to_the_output_where_nothing_or_the_output_itself_is_named(setting: Setting, errors: str) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "complain", "k", errors=errors), "k")
            _, exit = await follow(executor, "k")
            assert exit.output_to == len(b"hello\ntrouble\n")
            assert await setting.logs.read("run/k") == (0, b"hello\ntrouble\n")

    in_loop(test)


def test_growth_of_errors_alone_is_told_and_counts_nothing_as_output(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "complain and run", "k", errors="run/errors"), "k")
            assert await anext(aiter(executor.attach("k"))) == Grew(0)
            assert await setting.logs.read("run/errors") == (0, b"trouble\n")
            await executor.cancel("k")
            grown, exit = await follow(executor, "k")
            assert {item.to for item in grown} <= {0}
            assert exit.output_to == 0

    in_loop(test)


def test_a_newer_owner_follows_both_streams(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner(1) as older:
            await older.start(command(setting, "complain and run", "k", errors="run/errors"), "k")
            await until_output(older.attach("k"))
        async with setting.owner(2) as newer:
            assert await anext(aiter(newer.attach("k"))) == Grew(0)
            assert await setting.logs.read("run/errors") == (0, b"trouble\n")
            await newer.cancel("k")

    in_loop(test)


def test_a_secret_in_pieces_is_redacted_in_each_stream_for_itself(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            leak = command(setting, "leak", "k", errors="run/errors", redact=("hunter2",))
            await executor.start(leak, "k")
            await follow(executor, "k")
            assert await setting.logs.read("run/errors") == (0, b"a [redacted] z")
            assert await setting.logs.read("run/k") == (0, b"b hunter3")

    in_loop(test)


def test_binary_errors_are_kept_as_they_are(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "complain in binary", "k", errors="run/errors"), "k")
            await follow(executor, "k")
            assert await setting.logs.read("run/errors") == (0, BINARY)

    in_loop(test)


def test_of_errors_without_end_the_head_and_the_tail_are_kept(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "complain without end", "k", errors="run/errors"), "k")
            _, exit = await follow(executor, "k")
            assert exit.output_to == len(b"done\n")
            assert await setting.logs.size("run/errors") == FLOOD
            begin, _ = await setting.logs.read("run/errors", KEPT_HEAD * SEGMENT_SIZE, 1)
            assert begin == FLOOD - KEPT_TAIL * SEGMENT_SIZE

    in_loop(test)


def test_what_holds_nothing_but_the_errors_open_does_not_outlive_its_command(setting: Setting) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            await executor.start(command(setting, "leave one behind", "k", errors="run/errors"), "k")
            _, exit = await follow(executor, "k")
            assert (exit.reason, exit.code) == (ExitReason.EXITED, 4)
            assert await setting.logs.read("run/errors") == (0, b"left\n")

    in_loop(test)


@pytest.mark.parametrize("names", [("../../k", ""), ("k", "../../errors")])
def test_an_output_name_that_would_leave_its_directory_is_refused(setting: Setting, names: tuple[str, str]) -> None:
    async def test() -> None:
        async with setting.owner() as executor:
            output, errors = names
            bad = Command(argv=setting.argv("succeed"), cwd="/", output=output, errors=errors)
            with pytest.raises((ExecutorFailed, BadInput)):
                await executor.start(bad, "k")
            assert not (await executor.inventory()).knows("k")

    in_loop(test)


def test_a_closed_executor_refuses_to_work(setting: Setting) -> None:
    async def test() -> None:
        executor = setting.owner()
        await executor.open("attempt", 1)
        await executor.aclose()
        await executor.aclose()
        with pytest.raises(ExecutorFailed):
            await executor.inventory()

    in_loop(test)
