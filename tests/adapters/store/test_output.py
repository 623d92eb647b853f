"""What only outputs in files can meet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pilothouse.adapters.store.output import FileLogStore
from pilothouse.core.run.output import segment_name


def test_a_link_named_like_a_segment_is_not_read(tmp_path: Path) -> None:
    directory = tmp_path / "output/run"
    directory.mkdir(parents=True)
    (directory / segment_name(0)).write_bytes(b"one\n")
    (directory / segment_name(4)).symlink_to(tmp_path / "missing")
    logs = FileLogStore(tmp_path / "output")

    assert asyncio.run(logs.read("run")) == (0, b"one\n")
    assert asyncio.run(logs.tail("run", 5)) == "one"
