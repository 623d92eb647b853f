"""How soon the command line answers and a server is ready, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.catalogue import Shown, Size
from benchmarks.figure import Figure, Skipped, Within, in_turns
from benchmarks.workspace import pilothouse, workspace

FLOOR = "python -c pass"
_READY_WITHIN_S = 30.0
_LOOK_AGAIN_S = 0.005


class NotBuilt(Exception):
    """Raised when the command line is not there yet; the text says what it answered."""


class _Scale(NamedTuple):
    help_rounds: int
    serve_rounds: int


_SCALES: dict[Size, _Scale] = {"full": _Scale(20, 9), "quick": _Scale(7, 3), "tiny": _Scale(1, 1)}


def measure(size: Size) -> Iterator[Shown]:
    scale = _SCALES[size]
    with workspace() as folder:
        name = "pilothouse --help"
        try:
            ours, floor = in_turns(scale.help_rounds, _help, _nothing)
            yield Figure(name, ours, floor, FLOOR, Within(0.5, 0.200))
        except NotBuilt as missing:
            yield Skipped(name, str(missing))
        name = "pilothouse serve: ready"
        try:
            ours, floor = in_turns(scale.serve_rounds, lambda: _serve(folder / "data"), _nothing)
            yield Figure(name, ours, floor, FLOOR, Within(0.5, 1.5))
        except NotBuilt as missing:
            yield Skipped(name, str(missing))


def _nothing() -> float:
    return _timed([sys.executable, "-c", "pass"])


def _help() -> float:
    return _timed([*pilothouse(), "--help"])


def _timed(argv: list[str]) -> float:
    began = time.perf_counter()
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    except FileNotFoundError as error:
        raise NotBuilt(f"{argv[0]} is not installed: ./dev setup") from error
    took = time.perf_counter() - began
    if done.returncode:
        raise NotBuilt(f"it failed: {_last_line(done.stderr)}")
    return took


def _serve(data_dir: Path) -> float:
    """From the start of the process until it says over HTTP that it is ready; the data directory is there already."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    began = time.perf_counter()
    server = subprocess.Popen(
        [*pilothouse(), "serve", "--port", str(port), "--data-dir", str(data_dir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PILOTHOUSE_LOG_LEVEL": "ERROR"},
    )
    try:
        while not _is_ready(port):
            if server.poll() is not None:
                assert server.stderr is not None
                raise NotBuilt(f"it ended at once: {_last_line(server.stderr.read())}")
            if time.perf_counter() - began > _READY_WITHIN_S:
                raise NotBuilt(f"it was not ready within {_READY_WITHIN_S:g} s")
            time.sleep(_LOOK_AGAIN_S)
        return time.perf_counter() - began
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        try:
            server.communicate(timeout=_READY_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1][:200]
