"""Which processes live, as tests of ending them ask. Zombies do not: they run nothing, and wait to be collected."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Living(NamedTuple):
    """``began`` tells a process from a later one of the same number."""

    pid: int
    began: str
    parent: int
    command: str
    environ: bytes

    @property
    def key(self) -> tuple[int, str]:
        return self.pid, self.began


def living() -> list[Living]:
    """Every process of this user that lives."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent, *more = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue  # it has just ended, or is somebody else's
        if state != "Z":
            found.append(Living(int(entry.name), more[17], int(parent), command, environ))
    return found


def with_marker(marker: str, among: list[Living] | None = None) -> list[Living]:
    """Those that have it in their environment."""
    return [one for one in (living() if among is None else among) if marker.encode() in one.environ]


def kept(data_dir: Path, among: list[Living]) -> list[Living]:
    """All that the keepers over a data directory keep: the trees below them."""
    keepers = {one.pid for one in among if f" {data_dir} " in one.command and "adapters.work" in one.command}
    found: list[Living] = []
    parents = keepers
    while more := [one for one in among if one.parent in parents and one.pid not in keepers]:
        found += more
        parents = {one.pid for one in more}
    return found
