"""An owner that is no engine, a data directory short enough for its socket, and the command line in this process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interfaces.cli.fake_owner import FakeOwner

from pilothouse.interfaces.cli.main import run_line


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Say = Callable[..., Said]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ph-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def owner(data_dir: Path) -> Iterator[FakeOwner]:
    with FakeOwner(data_dir).serving() as fake:
        yield fake


@pytest.fixture
def say(data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Run one command line against the data directory of the test."""
    monkeypatch.setenv("PILOTHOUSE_DATA_DIR", str(data_dir))

    def say(*arguments: str) -> Said:
        capsys.readouterr()
        code = run_line(arguments)
        captured = capsys.readouterr()
        return Said(int(code), captured.out, captured.err)

    return say
