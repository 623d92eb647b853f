"""The bridge as a process: what it imports, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.interfaces.mcp.owners import Answers, Exchange, FakeOwner
from tests.support.services import PATIENCE_S
from tests.support.terminal import until

BRIDGE = (sys.executable, "-m", "pilothouse.interfaces.mcp.bridge")
SOURCE = str(Path(__file__).parents[3] / "src")
HEAVY = {"asyncio", "fastapi", "httpx", "mcp", "msgspec", "platformdirs", "pydantic", "starlette", "typer", "uvicorn"}
REQUEST = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


@contextmanager
def started(socket: Path, answers: Answers) -> Iterator[tuple[subprocess.Popen[bytes], FakeOwner]]:
    env = {**os.environ, "PYTHONPATH": SOURCE, "PILOTHOUSE_MCP_SOCKET": str(socket), "PILOTHOUSE_MCP_TOKEN": "s3cret"}
    with FakeOwner(socket, answers).listening() as owner:
        process = subprocess.Popen(
            BRIDGE, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            try:
                yield process, owner
            finally:
                process.kill()


def hangs(exchange: Exchange) -> None:
    exchange.begin()
    exchange.wait()


def test_it_imports_nothing_that_takes_long() -> None:
    code = "import sys, pilothouse.interfaces.mcp.bridge; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": SOURCE}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert not HEAVY & {name.partition(".")[0] for name in said.split()}
    ours = {name for name in said.split() if name.startswith("pilothouse.")}
    assert not {name for name in ours if name.split(".")[1] in {"engine", "core", "adapters", "settings", "owner"}}


def test_it_answers_and_ends_with_its_input(tmp_path: Path) -> None:
    with started(tmp_path / "s", lambda exchange: exchange.answer(5)) as (process, owner):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(REQUEST)
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": 5}
        assert owner.asked[0].headers["authorization"] == "Bearer s3cret"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_it_ends_with_its_input_also_while_a_call_waits(tmp_path: Path) -> None:
    with started(tmp_path / "s", hangs) as (process, owner):
        assert process.stdin is not None
        process.stdin.write(REQUEST)
        process.stdin.flush()
        until(lambda: len(owner.asked) == 1)
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        until(lambda: owner.asked[0].gone.is_set())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_it_ends_when_it_is_told_to_and_hangs_up(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with started(tmp_path / "s", hangs) as (process, owner):
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(REQUEST)
        process.stdin.flush()
        until(lambda: len(owner.asked) == 1)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
        until(lambda: owner.asked[0].gone.is_set())
        assert process.stderr.read() == b""


def test_it_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    with started(tmp_path / "s", lambda exchange: exchange.answer("x" * 1_000_000)) as (process, _):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(REQUEST)
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""


def test_without_a_socket_it_says_what_people_use() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PILOTHOUSE")}
    done = subprocess.run(BRIDGE, env={**env, "PYTHONPATH": SOURCE}, capture_output=True, text=True, input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pilothouse mcp" in done.stderr
