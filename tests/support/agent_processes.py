"""Runs one real agent CLI to its end, or to where a test stops it. Owns its process group, so that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.agent_commands import COMMANDS, Job


@dataclass(frozen=True)
class Finished:
    """``code``: None when it had to be killed for taking too long. ``seconds``: since its start, or since its stop."""

    code: int | None
    out: str
    err: str
    seconds: float


def run(
    agent: str, programs: Path, job: Job, *, patience: float = 60.0, stop_when: Callable[[], object] | None = None
) -> Finished:
    """``patience`` in seconds. ``stop_when`` returns when the agent shall be sent SIGTERM."""
    command = COMMANDS[agent](programs / agent, job)
    path = f"{programs}{os.pathsep}{command.env['PATH']}"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command.argv,
            cwd=job.worktree,
            env={**command.env, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            started = time.monotonic()
            if stop_when:
                stop_when()
                started = time.monotonic()
                os.killpg(process.pid, signal.SIGTERM)
            code = _wait(process, patience)
            seconds = time.monotonic() - started
        finally:
            _end(process)
        out.seek(0)
        err.seek(0)
        return Finished(code, out.read().decode(), err.read().decode(), round(seconds, 2))


def _wait(process: subprocess.Popen[bytes], patience: float) -> int | None:
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of the group has ended
    process.wait()
