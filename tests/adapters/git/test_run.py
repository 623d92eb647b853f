"""Running git: its environment, its bounds, and that a cancelled one is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from pilothouse.adapters.git.run import Runner, clean_environment
from pilothouse.errors import GitFailed, Unavailable


@pytest.fixture
def fake_git(tmp_path: Path) -> Path:
    """A stand-in that runs the script in ``$SCRIPT``, so that a test decides what git does."""
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text('#!/bin/sh\nexec /bin/sh -c "$SCRIPT"\n')
    git.chmod(git.stat().st_mode | stat.S_IXUSR)
    return git


@pytest.fixture
def runner(fake_git: Path) -> Runner:
    return Runner({"PATH": f"{fake_git.parent}:{os.environ['PATH']}"})


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def pids_in(file: Path, count: int) -> list[int]:
    async with asyncio.timeout(10):
        while not file.exists() or len(file.read_text().split()) < count:
            await asyncio.sleep(0.005)
    return [int(word) for word in file.read_text().split()]


def test_what_points_git_elsewhere_is_not_inherited() -> None:
    given = {
        "PATH": "/bin",
        "GIT_DIR": "/x",
        "GIT_INDEX_FILE": "/x",
        "GIT_WORK_TREE": "/x",
        "GIT_TRACE": "1",
        "GIT_AUTHOR_DATE": "2000-01-01",
        "PILOTHOUSE_LLM_API_KEY": "secret",
        "GIT_AUTHOR_NAME": "Author",
        "DEPLOY_TOKEN": "secret",
        "SSH_AUTH_SOCK": "/run/agent",
    }
    cleaned = clean_environment(given)
    assert {name for name in given if name in cleaned} == {"PATH", "GIT_AUTHOR_NAME", "SSH_AUTH_SOCK"}
    assert cleaned["GIT_TERMINAL_PROMPT"] == "0"
    assert cleaned["LC_ALL"] == "C"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_command_has_no_terminal_to_ask_at(runner: Runner) -> None:
    answer = asyncio.run(runner.run("x", cwd="/", env={"SCRIPT": "cat /proc/$$/stat"}))
    pid, group, session = (int(answer.text.split()[i]) for i in (0, 4, 5))
    assert pid == group == session


def test_a_failure_carries_command_status_and_stderr(runner: Runner) -> None:
    with pytest.raises(GitFailed) as caught:
        asyncio.run(runner.run("status", cwd="/", env={"SCRIPT": "echo oops >&2; exit 3"}))
    assert (caught.value.argv, caught.value.status, caught.value.stderr) == (["status"], 3, "oops\n")


@pytest.mark.parametrize("size", [0, 1, 5000, 1_000_000])
def test_input_of_any_size_comes_back(runner: Runner, size: int) -> None:
    data = b"x" * size
    assert asyncio.run(runner.run("x", cwd="/", stdin=data, env={"SCRIPT": "cat"})).stdout == data


def test_much_output_on_both_streams_does_not_block(runner: Runner) -> None:
    script = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero"
    assert len(asyncio.run(runner.run("x", cwd="/", env={"SCRIPT": script})).stdout) == 2_000_000


def test_output_beyond_the_limit_ends_the_command(runner: Runner) -> None:
    found = asyncio.run(runner.run("x", cwd="/", env={"SCRIPT": "cat /dev/zero"}, limit=1000))
    assert found.truncated
    assert found.stdout == b"\0" * 1000


def test_a_command_that_takes_too_long_is_ended(runner: Runner) -> None:
    with pytest.raises(GitFailed, match="timed out"):
        asyncio.run(runner.run("x", cwd="/", env={"SCRIPT": "exec sleep 60"}, timeout=0.1))


def test_a_grandchild_that_holds_the_pipes_is_not_waited_for(runner: Runner, tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; echo done"
    try:
        assert asyncio.run(runner.run("x", cwd="/", env={"SCRIPT": script}, timeout=30)).text == "done"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("trap", ["", "trap '' TERM;"])
def test_a_cancelled_command_leaves_no_process(
    runner: Runner, tmp_path: Path, trap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.adapters.git.process._GRACE_SECONDS", 0.1)
    file = tmp_path / "pids"
    script = f"{trap} sleep 60 & echo $$ $! > {file}; wait; sleep 60"

    async def cancelled() -> list[int]:
        task = asyncio.create_task(runner.run("x", cwd="/", env={"SCRIPT": script}))
        pids = await pids_in(file, 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pids

    assert [alive(pid) for pid in asyncio.run(cancelled())] == [False, False]


def test_a_second_cancellation_does_not_leave_it_behind(runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "pids"

    async def cancelled_twice() -> int:
        task = asyncio.create_task(runner.run("x", cwd="/", env={"SCRIPT": f"echo $$ > {file}; exec sleep 60"}))
        (pid,) = await pids_in(file, 1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    assert not alive(asyncio.run(cancelled_twice()))


def test_without_git_it_is_said(tmp_path: Path) -> None:
    runner = Runner({"PATH": str(tmp_path)})
    with pytest.raises(Unavailable):
        asyncio.run(runner.run("version", cwd="/"))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(runner: Runner) -> None:
    async def some() -> None:
        for _ in range(5):
            await runner.run("x", cwd="/", stdin=b"x" * 10_000, env={"SCRIPT": "cat; exit 0"})

    asyncio.run(some())
    before = open_descriptors()
    asyncio.run(some())
    assert open_descriptors() == before
