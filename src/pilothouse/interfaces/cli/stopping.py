"""Waiting, after a stop or a cancel, until nothing of a run is left alive."""

from __future__ import annotations

import time
from typing import Any

from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.door import ExitCode, note
from pilothouse.interfaces.cli.printing import print_json
from pilothouse.interfaces.cli.words import counted, one_line, short

ENDED = frozenset({"STOPPED", "SUCCEEDED", "PARTIAL", "FAILED", "CANCELED"})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


def await_end(client: Client, run_id: str, timeout: float) -> dict[str, Any]:
    """The row of the run once it has ended, or after ``timeout`` seconds as it is then."""
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while True:
        row: dict[str, Any] = client.get(f"/api/runs/{run_id}")
        left = deadline - time.monotonic()
        if row["lifecycle"] in ENDED or left <= 0:
            return row
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)


def report_end(row: dict[str, Any], *, as_json: bool) -> int:
    """Print how a stop went; answers the exit code: 1 when it has not ended yet."""
    if as_json:
        print_json(row)
    else:
        counts = f" ({counted(row['counts'])})" if row["counts"] else ""
        print(f"{one_line(row['name'])}: {row['lifecycle'].lower()}{counts}")
    if row["lifecycle"] in ENDED:
        return ExitCode.SUCCEEDED
    note(f"it has not ended yet; see `pilothouse runs show {short(row['id'])}`")
    return ExitCode.FAILED
