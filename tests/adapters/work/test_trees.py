"""Whole process trees end, however they hide and whoever dies first. Real processes only."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.work.real import alive, exists, follow, in_loop, parent, shell, until, until_output

from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.core.run.commands import ExitReason

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")

# Six that hide: in a session of their own, forked twice, without environment, deaf to the polite signal. Each shows
# the marker on its command line, and reports itself by one byte.
HIDERS = """
deaf='trap "" TERM HUP INT; printf .; while :; do sleep 0.2; done'
sh -c "$deaf" MARKER-plain &
setsid sh -c "$deaf" MARKER-session &
setsid sh -c "(setsid sh -c '$deaf' MARKER-twice &) &" &
env -i PATH="$PATH" setsid sh -c "$deaf" MARKER-bare &
(trap "" TERM; nohup setsid sh -c "$deaf" MARKER-nohup 2>&1 &)
sh -c "$deaf" MARKER-kid &
"""
HIDER_COUNT = 6


@pytest.fixture
def marker() -> str:
    return f"marker{uuid.uuid4().hex}"


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    asyncio.run(LocalExecutor(tmp_path, 1 << 30).shutdown())


def hiders(marker: str, end: str = "wait") -> str:
    return HIDERS.replace("MARKER", marker) + end


def keeper_of(marker: str) -> int:
    """The keeper adopts what forks twice."""
    return parent(alive(f"{marker}-twice")[0])


def test_nothing_of_a_cancelled_tree_is_left_when_its_exit_arrives(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell(hiders(marker)), "k")
            await until_output(executor, "k", HIDER_COUNT)
            assert len(alive(marker)) >= HIDER_COUNT
            await executor.cancel("k")
            exit = await follow(executor, "k")
            assert not alive(marker)
            assert exit.reason is ExitReason.CANCELED

    in_loop(test)


def test_what_a_command_leaves_behind_is_ended_and_its_exit_code_stands(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell(hiders(marker, "sleep 0.1; exit 7")), "k")
            exit = await follow(executor, "k")
            assert not alive(marker)
            assert (exit.reason, exit.code) == (ExitReason.EXITED, 7)

    in_loop(test)


def test_what_holds_nothing_but_the_errors_open_is_ended_like_everything_else(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            script = f"setsid sh -c 'sleep 300' {marker} </dev/null >/dev/null & exit 7"
            await executor.start(shell(script, errors="errors"), "k")
            exit = await follow(executor, "k")
            assert not alive(marker)
            assert (exit.reason, exit.code) == (ExitReason.EXITED, 7)

    in_loop(test)


def test_a_stopped_tree_ends_too(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell(f"sh -c 'printf .; kill -STOP $$; sleep 300' {marker}; wait"), "k")
            await until_output(executor, "k")
            await executor.cancel("k")
            await follow(executor, "k")
            assert not alive(marker)

    in_loop(test)


def test_a_moderate_fork_bomb_ends(data_dir: Path, marker: str) -> None:
    """Each process replaces itself by a new one all the time, deaf to the polite signal."""
    hop = f'trap "" TERM; printf .; [ $(($1)) -gt 3000 ] || sh "$0" $(($1 + 1)) {marker} &'

    async def test() -> None:
        script = data_dir / "hop"
        script.write_text(hop)
        async with LocalExecutor(data_dir, 1) as executor:
            lines = "; ".join(f"sh {script} 0 {marker}" for _ in range(10))
            await executor.start(shell(f"{lines}; sleep 300"), "k")
            await until_output(executor, "k", 200)
            await executor.cancel("k", grace_ms=10)
            await follow(executor, "k")
            assert not alive(marker)

    in_loop(test)


def test_a_killed_warden_takes_its_trees_along_and_its_successor_says_lost(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            instance = await executor.open("a", 1)
            await executor.start(shell(hiders(marker)), "k")
            await executor.start(shell("exit 4", "p"), "past")
            await follow(executor, "past")
            await until_output(executor, "k", HIDER_COUNT)
            following = asyncio.create_task(follow(executor, "k"))
            await executor.inventory()

            os.kill(await executor.warden_pid(), signal.SIGKILL)

            exit = await following
            assert (exit.reason, exit.error) == (ExitReason.LOST, "its warden was killed")
            assert not alive(marker)
            inventory = await executor.inventory()
            assert inventory.instance != instance
            assert set(inventory.ended) == {"k", "past"}
            assert inventory.ended["past"].code == 4
            await executor.start(shell("echo again"), "k")
            assert (await follow(executor, "k")).reason is ExitReason.LOST

    in_loop(test)


def test_a_killed_keeper_takes_its_tree_along(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell(hiders(marker)), "k")
            await executor.start(shell("printf .; sleep 300", "other"), "other")
            await until_output(executor, "k", HIDER_COUNT)
            await until_output(executor, "other")

            os.kill(keeper_of(marker), signal.SIGKILL)

            exit = await follow(executor, "k")
            assert exit.reason is ExitReason.LOST
            assert exit.output_to == HIDER_COUNT
            assert not alive(marker)
            assert (await executor.inventory()).running == {"other"}

    in_loop(test)


def test_a_killed_warden_and_keeper_leave_the_key_known_as_lost(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell(hiders(marker)), "k")
            await until_output(executor, "k", HIDER_COUNT)
            survivors = alive(marker)
            keeper, warden = keeper_of(marker), await executor.warden_pid()
            os.kill(warden, signal.SIGSTOP)
            os.kill(keeper, signal.SIGKILL)
            os.kill(warden, signal.SIGKILL)
            try:
                assert (await follow(executor, "k")).reason is ExitReason.LOST
            finally:
                for pid in survivors:  # nobody is left who could: this is beyond what is promised
                    if exists(pid):
                        os.kill(pid, signal.SIGKILL)

    in_loop(test)


def test_without_an_owner_everything_ends_after_the_grace_and_the_warden_too(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1, orphan_grace=0.3) as executor:
            await executor.start(shell(hiders(marker)), "k")
            await until_output(executor, "k", HIDER_COUNT)
            warden = await executor.warden_pid()
        await until(lambda: not alive(marker) and not exists(warden))
        async with LocalExecutor(data_dir, 2) as executor:
            exit = await follow(executor, "k")
            assert (exit.reason, exit.error) == (ExitReason.LOST, "no owner")

    in_loop(test)


def test_an_idle_warden_without_an_owner_goes(data_dir: Path) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1, orphan_grace=0.1) as executor:
            warden = await executor.warden_pid()
        await until(lambda: not exists(warden))

    in_loop(test)


def test_an_owner_that_lives_keeps_its_warden_beyond_the_grace(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1, orphan_grace=0.2) as executor:
            await executor.start(shell(f"sleep 0.7; exit 5 # {marker}"), "k")
            assert (await follow(executor, "k")).code == 5

    in_loop(test)


def test_a_stalled_owner_is_fenced_off_when_its_grace_has_passed(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1, orphan_grace=0.2) as executor:
            await executor.start(shell(f"sleep 300 # {marker}"), "k")
            warden = await executor.warden_pid()
            executor._heartbeat.cancel()  # type: ignore[union-attr] # the stall
            await until(lambda: not exists(warden))
            assert not alive(marker)

    in_loop(test)


def test_shutdown_ends_what_runs_and_the_warden(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        executor = LocalExecutor(data_dir, 1)
        await executor.start(shell(hiders(marker)), "k")
        await until_output(executor, "k", HIDER_COUNT)
        warden = await executor.warden_pid()
        await executor.shutdown()
        assert not alive(marker)
        await until(lambda: not exists(warden))
        async with LocalExecutor(data_dir, 1) as successor:
            assert (await follow(successor, "k")).reason is ExitReason.CANCELED

    in_loop(test)


def test_a_warden_asked_to_end_when_idle_lets_work_finish(data_dir: Path) -> None:
    async def test() -> None:
        executor = LocalExecutor(data_dir, 1)
        await executor.start(shell("sleep 0.2; exit 6"), "k")
        warden = await executor.warden_pid()
        await executor.shutdown(when_idle=True)
        await until(lambda: not exists(warden))
        async with LocalExecutor(data_dir, 1) as successor:
            assert (await follow(successor, "k")).code == 6

    in_loop(test)


def test_several_executors_starting_at_once_share_one_warden(data_dir: Path) -> None:
    async def test() -> None:
        executors = [LocalExecutor(data_dir, 1) for _ in range(5)]
        try:
            assert len({await pid for pid in asyncio.as_completed([e.warden_pid() for e in executors])}) == 1
        finally:
            for executor in executors:
                await executor.aclose()

    in_loop(test)


def test_a_command_that_stops_its_keeper_still_has_its_end_told(data_dir: Path) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell("kill -STOP $PPID; exit 7"), "k")
            exit = await follow(executor, "k")
            assert (exit.reason, exit.code) == (ExitReason.EXITED, 7)

    in_loop(test)


def test_a_command_that_stops_its_keeper_still_has_its_time_limit(data_dir: Path, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.start(shell(f"kill -STOP $PPID; sleep 300 # {marker}", timeout_ms=300), "k")
            assert (await follow(executor, "k")).reason is ExitReason.TIMEOUT
            assert not alive(marker)

    in_loop(test)
