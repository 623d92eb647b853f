"""Asking a program something briefly: its version, its models. Bounded in time and output, whatever it does.

It is started with an empty standard input, in a process group of its own, and nothing of that group is left when this
returns. Commands of plans are none of this: they belong to an executor.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

MAX_OUTPUT = 1 << 20
"""Bytes. A program that prints more is ended."""
_POLL_S = 0.01


class Probed(NamedTuple):
    """What came of it. ``status``: None when it was ended for want of an answer."""

    status: int | None
    out: str
    errors: str


async def probe(argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float) -> Probed:
    """Run ``argv`` to its end, at most ``timeout_s``. Cancelled, it ends the program too. Raises ``OSError``."""
    unwanted = threading.Event()
    try:
        return await asyncio.to_thread(_run, argv, env, cwd, timeout_s, unwanted)
    finally:
        unwanted.set()


def _run(argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float, unwanted: threading.Event) -> Probed:
    # Files rather than pipes: a child of it that keeps them open holds nobody up.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
        deadline = time.monotonic() + timeout_s
        try:
            while not (ended := _has_ended(process)) and not unwanted.is_set() and time.monotonic() < deadline:
                if max(os.fstat(out.fileno()).st_size, os.fstat(errors.fileno()).st_size) > MAX_OUTPUT:
                    break
                unwanted.wait(_POLL_S)
        finally:
            _end_group(process.pid)
            status = process.wait()
        return Probed(status if ended else None, _content(out), _content(errors))


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without collecting it, where that is possible: until then the number of its group is nobody else's."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_OUTPUT).decode(errors="replace")
