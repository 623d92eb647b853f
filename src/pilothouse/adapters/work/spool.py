"""What is remembered of commands beyond the life of a warden: one small file per key.

A file is written as *lost* before its command starts and replaced when the command has ended, so whatever was ever
started is known to every later warden. Nothing of a command but its key and its end is kept here: no environment,
no arguments. Standard library only. Not synced: after a power failure nothing runs any more, and a missing or torn
file means what an unknown key means.
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
        """Record how ``key`` ended, atomically. Raises ``OSError``."""
        path = self._path(key)
        temporary = path.with_suffix(".tmp")
        data = json.dumps({"version": 1, "key": key, "exit": exit}).encode("ascii")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
        temporary.replace(path)

    def read_all(self) -> dict[str, ExitDict]:
        """Every record there is, by key. Unreadable ones and leftovers of a crash are passed over."""
        found: dict[str, ExitDict] = {}
        for path in self._directory.glob("*.json"):
            try:
                record = json.loads(path.read_bytes())
                found[record["key"]] = record["exit"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return found

    def remove(self, key: str) -> None:
        """Forget ``key``. Idempotent."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        return self._directory / f"{name}.json"
