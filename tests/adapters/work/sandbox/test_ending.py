"""Confined commands under the warden: their whole tree ends as that of any other, the relay with it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from tests.adapters.work.real import alive, follow, in_loop, until, until_output
from tests.adapters.work.sandbox.setting import Setting

from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.core.plan.spec import Network
from pilothouse.core.run.commands import Command, ExitReason

HIDERS = """
deaf='trap "" TERM HUP INT; printf .; while :; do sleep 0.2; done'
setsid sh -c "(setsid sh -c '$deaf' MARKER-twice &) &" &
env -i PATH="$PATH" setsid sh -c "$deaf" MARKER-bare &
"""


@pytest.fixture
def marker() -> str:
    return f"marker{uuid.uuid4().hex}"


@pytest.fixture
def executor_of(setting: Setting) -> Iterator[Setting]:
    yield setting
    asyncio.run(LocalExecutor(setting.data_dir, 1 << 30).shutdown())


def confined(setting: Setting, script: str, network: Network, **options: object) -> Command:
    wrapped = setting.wrap(("sh", "-c", script), network=network, addresses=["127.0.0.1:1"])
    fields: dict[str, object] = {"cwd": str(setting.worktree), "output": "o", "grace_ms": 50} | options
    return Command(argv=wrapped.argv, env=wrapped.env, **fields)  # type: ignore[arg-type] # test shorthand


@pytest.mark.parametrize("network", list(Network))
def test_nothing_of_a_cancelled_tree_is_left(executor_of: Setting, marker: str, network: Network) -> None:
    async def test() -> None:
        async with LocalExecutor(executor_of.data_dir, 1) as executor:
            script = HIDERS.replace("MARKER", marker) + "wait"
            await executor.start(confined(executor_of, script, network), "k")
            await until_output(executor, "k", 2)
            assert len(alive(marker)) >= 2
            await executor.cancel("k")
            exit = await follow(executor, "k")
            assert not alive(marker)
            assert (exit.reason, exit.signal) == (ExitReason.CANCELED, 15)

    in_loop(test)


@pytest.mark.parametrize("network", list(Network))
def test_a_command_that_ends_by_itself_keeps_its_status_and_leaves_nothing(
    executor_of: Setting, marker: str, network: Network
) -> None:
    async def test() -> None:
        async with LocalExecutor(executor_of.data_dir, 1) as executor:
            script = f"setsid sh -c 'sleep 300' {marker} & echo said; echo trouble >&2; exit 7"
            await executor.start(confined(executor_of, script, network, errors="e"), "k")
            exit = await follow(executor, "k")
            assert not alive(marker)
            assert (exit.reason, exit.code, exit.output_to) == (ExitReason.EXITED, 7, len("said\n"))

    in_loop(test)


def test_the_relay_lives_until_the_command_has_said_its_last_words(executor_of: Setting, marker: str) -> None:
    async def test() -> None:
        async with LocalExecutor(executor_of.data_dir, 1) as executor:
            script = f": {marker}; trap 'sleep 0.2; exit 3' TERM; printf .; while :; do sleep 0.01; done"
            await executor.start(confined(executor_of, script, Network.LIMITED, grace_ms=10_000), "k")
            await until_output(executor, "k")
            assert len(alive(marker)) >= 2  # a further one is a fork of the shell on its way to be `sleep`
            await executor.cancel("k")
            exit = await follow(executor, "k")
            assert (exit.reason, exit.code) == (ExitReason.CANCELED, 3)
            await until(lambda: not alive(marker))

    in_loop(test)
