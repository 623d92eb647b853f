"""What is remembered of commands beyond the life of a warden: one small file per key.

A line *lost* is written before the command starts, and a line with its end when it has ended; the last whole line
counts. So whatever was ever started is known to every later warden, and a kill at any moment leaves the truth.
Appending one line is as atomic as writing a new file and renaming it, and half the price; a line begins with a line
break too, so that one torn by a full disk does not take the next one with it. Nothing of a command but
its key and its end is kept: no environment, no arguments. Standard library only. Not synced: after a power failure
nothing runs any more, and a missing file means what an unknown key means.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from pilothouse.adapters.work.protocol import ExitDict


class Spool:
    """The status files in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, key: str, exit: ExitDict) -> None:
        """Record how ``key`` ended, for now or for good. Raises ``OSError``."""
        record = json.dumps({"key": key, "exit": exit}, separators=(",", ":")).encode("ascii")
        line = b"\n" + record + b"\n"
        fd = os.open(self._path(key), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(fd, line) != len(line):
                raise OSError(28, "No space left on device")
        finally:
            os.close(fd)

    def read_all(self) -> dict[str, ExitDict]:
        """Every record there is, by key; torn lines are passed over."""
        found: dict[str, ExitDict] = {}
        for path in self._directory.glob("*.jsonl"):
            try:
                lines = path.read_bytes().split(b"\n")
            except OSError:
                continue
            for line in lines:
                try:
                    record = json.loads(line)
                    found[record["key"]] = record["exit"]
                except (ValueError, KeyError, TypeError):
                    continue
        return found

    def remove(self, key: str) -> None:
        """Forget ``key``. Idempotent."""
        Path(self._path(key)).unlink(missing_ok=True)

    def _path(self, key: str) -> str:
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        return f"{self._directory}/{name}.jsonl"
