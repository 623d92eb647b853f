"""What a real command gets, what becomes of its output, and what stays secret."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.work.real import follow, in_loop, shell, until_output

from pilothouse.adapters.store.output import FileLogStore
from pilothouse.adapters.work.local import LocalExecutor
from pilothouse.adapters.work.places import places
from pilothouse.core.run.commands import Command, Exit, ExitReason
from pilothouse.core.run.output import KEPT_HEAD, KEPT_TAIL, SEGMENT_SIZE
from pilothouse.errors import ExecutorFailed


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    asyncio.run(LocalExecutor(tmp_path, 1 << 30).shutdown())


async def run(data_dir: Path, command: Command) -> tuple[Exit, bytes]:
    async with LocalExecutor(data_dir, 1) as executor:
        await executor.start(command, "k")
        exit = await follow(executor, "k")
        return exit, (await FileLogStore(executor.outputs).read(command.output))[1]


def test_twenty_megabytes_keep_their_head_and_tail(data_dir: Path) -> None:
    size = 20 << 20

    async def test() -> None:
        script = f"head -c {size - 8} /dev/zero | tr '\\0' x; printf finished"
        exit, head = await run(data_dir, shell(script))
        assert exit.output_to == size
        assert head == b"x" * min(1 << 20, KEPT_HEAD * SEGMENT_SIZE)
        logs = FileLogStore(data_dir / "output")
        assert (await logs.read("o", size - 10))[1] == b"xxfinished"
        begin, _ = await logs.read("o", KEPT_HEAD * SEGMENT_SIZE)
        assert begin == size - KEPT_TAIL * SEGMENT_SIZE

    in_loop(test)


def test_binary_output_arrives_unchanged(data_dir: Path) -> None:
    async def test() -> None:
        source = data_dir / "source"
        source.write_bytes(os.urandom(300_000))
        _, output = await run(data_dir, shell(f"cat {source}"))
        assert output == source.read_bytes()

    in_loop(test)


def test_a_secret_split_over_two_writes_is_redacted(data_dir: Path) -> None:
    async def test() -> None:
        script = "printf 'a hunt'; sleep 0.15; printf 'er2 z hunt'"
        exit, output = await run(data_dir, shell(script, redact=("hunter2",)))
        assert output == b"a [redacted] z hunt"
        assert exit.output_to == len(output)

    in_loop(test)


def test_output_is_appended_to_what_the_engine_wrote_before(data_dir: Path) -> None:
    async def test() -> None:
        await FileLogStore(data_dir / "output").append("o", b"$ echo hi\n")
        exit, output = await run(data_dir, shell("echo hi"))
        assert output == b"$ echo hi\nhi\n"
        assert exit.output_to == len(output)

    in_loop(test)


def test_stdin_is_the_given_text_or_nothing(data_dir: Path) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            text = "grüße\n" * 50_000
            await executor.start(shell("cat", "text", stdin=text), "text")
            await executor.start(shell("cat", "none"), "none")
            logs = FileLogStore(executor.outputs)
            await follow(executor, "text")
            await follow(executor, "none")
            assert (await logs.read("text"))[1].decode() == text
            assert await logs.size("none") == 0

    in_loop(test)


def test_a_command_has_its_own_environment_directory_and_session_and_nothing_of_the_warden(
    data_dir: Path,
) -> None:
    async def test() -> None:
        script = """
            env -u PWD -u SHLVL -u _ -u OLDPWD; pwd; ls /proc/$$/fd | tr '\\n' ' '; echo
            grep -E '^(SigBlk|SigIgn|SigCgt)' /proc/$$/status | tr -d '\\t'; cut -d' ' -f6 /proc/$$/stat; echo $$
        """
        env = {"PATH": os.environ["PATH"], "GREETING": "hello"}
        _, output = await run(data_dir, shell(script, cwd=str(data_dir), env=env))
        *variables, cwd, descriptors, blocked, ignored, _caught, session, pid = output.decode().splitlines()
        assert dict(line.split("=", 1) for line in variables) == env
        assert cwd == str(data_dir)
        assert descriptors.split() == ["0", "1", "2"]
        assert blocked == "SigBlk:" + "0" * 16
        # glibc's posix_spawn ignores 32 and 33, its own, on the way; every program resets them when it needs them.
        assert int(ignored.removeprefix("SigIgn:"), 16) & 0x7FFF_FFFF == 0
        assert session == pid

    in_loop(test)


def test_nothing_of_the_environment_or_the_arguments_is_in_the_spool_or_on_another_command_line(
    data_dir: Path,
) -> None:
    secret = "correct-horse-battery-staple"

    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            env = {"PATH": os.environ["PATH"], "MY_SECRET": secret}
            await executor.start(shell(f": {secret}; printf .; exec sleep 300", env=env), "k")
            await until_output(executor, "k")
            warden = await executor.warden_pid()
            relatives = [warden, *map(int, Path(f"/proc/{warden}/task/{warden}/children").read_text().split())]
            assert len(relatives) >= 2
            for pid in relatives:
                for shown in ("cmdline", "environ"):
                    assert secret.encode() not in Path(f"/proc/{pid}/{shown}").read_bytes()
            await executor.cancel("k")
            await follow(executor, "k")
        for file in data_dir.rglob("*"):
            if file.is_file():
                assert secret.encode() not in file.read_bytes(), file

    in_loop(test)


@pytest.mark.parametrize(
    ("argv", "cwd", "says"),
    [
        (("no-such-program",), "/", "no-such-program"),
        (("/etc/passwd",), "/", "Permission denied"),
        (("/",), "/", "Permission denied"),
        (("true",), "/no/such/directory", "/no/such/directory"),
        (("",), "/", "no executable named"),
    ],
)
def test_a_command_that_cannot_be_started_says_what_is_missing(
    data_dir: Path, argv: tuple[str, ...], cwd: str, says: str
) -> None:
    async def test() -> None:
        exit, output = await run(data_dir, Command(argv=argv, cwd=cwd, output="o", env={"PATH": os.environ["PATH"]}))
        assert exit.reason is ExitReason.NOT_STARTED
        assert says in exit.error
        assert output == b""

    in_loop(test)


def test_the_executable_is_looked_up_on_the_path_of_the_command(data_dir: Path) -> None:
    async def test() -> None:
        tool = data_dir / "bin" / "mytool"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\necho mine\n")
        tool.chmod(0o755)
        command = Command(argv=("mytool",), cwd="/", output="o", env={"PATH": f"/nowhere:{tool.parent}"})
        exit, output = await run(data_dir, command)
        assert (exit.code, output) == (0, b"mine\n")

    in_loop(test)


def test_a_command_that_closes_its_output_is_still_followed_to_its_end(data_dir: Path) -> None:
    async def test() -> None:
        exit, _ = await run(data_dir, shell("exec >&- 2>&-; sleep 0.1; exit 9"))
        assert exit.code == 9

    in_loop(test)


@pytest.mark.parametrize("field", [{"stdin": "a\ud800"}, {"redact": ("secret\ud800",)}])
def test_text_that_is_no_unicode_is_refused_and_the_key_stays_free(data_dir: Path, field: dict[str, Any]) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            with pytest.raises(ExecutorFailed):
                await executor.start(shell("true", **field), "k")
            assert not (await executor.inventory()).knows("k")

    in_loop(test)


def test_output_that_cannot_be_written_does_not_end_the_command(data_dir: Path) -> None:
    async def test() -> None:
        (data_dir / "output").mkdir()
        (data_dir / "output" / "blocked").write_text("a file where a directory should be")
        exit, _ = await run(data_dir, shell("echo hi; exit 2", "blocked/o"))
        assert exit.code == 2
        assert "output could not be written" in exit.error

    in_loop(test)


def test_a_client_that_speaks_nonsense_is_refused_and_harms_nobody(data_dir: Path) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            instance = await executor.open("a", 1)
            for line in (
                b"garbage\n",
                b"[1]\n",
                b'{"op":"inventory","id":1}\n',
                b'{"op":"hello","id":1,"version":99}\n',
            ):
                with socket.socket(socket.AF_UNIX) as other:
                    other.settimeout(5)
                    other.connect(str(places(data_dir).socket))
                    other.sendall(line)
                    answer = await asyncio.to_thread(other.recv, 1000)
                    assert answer == b"" or json.loads(answer)["ok"] is False
            assert await executor.open("a", 1) == instance

    in_loop(test)


def test_a_data_directory_with_a_long_path_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)

    async def test() -> None:
        exit, output = await run(deep, shell("echo hi"))
        assert (exit.code, output) == (0, b"hi\n")
        await LocalExecutor(deep, 2).shutdown()

    in_loop(test)


def test_the_warden_directory_is_private(data_dir: Path) -> None:
    async def test() -> None:
        async with LocalExecutor(data_dir, 1) as executor:
            await executor.open("a", 1)
            where = places(data_dir)
            assert where.socket.parent.stat().st_mode & 0o777 == 0o700
            assert where.ended.stat().st_mode & 0o777 == 0o700

    in_loop(test)
