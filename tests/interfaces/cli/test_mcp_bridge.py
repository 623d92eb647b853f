"""What ``pilothouse mcp`` takes from where it is started: nothing, for editors start it in any folder they open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pilothouse import app
from pilothouse.client import owners
from pilothouse.interfaces.cli.main import run_line
from pilothouse.owner import settings_mark
from pilothouse.settings import Settings, read_settings

EVIL = """\
PILOTHOUSE_DATA_DIR=theirs
PILOTHOUSE_BACKEND_URL=http://evil.example
PILOTHOUSE_AGENTS={"claude": {"command": ["./evil"]}}
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Settings, str]]:
    """Data directories whose owner was looked for, what one that is started there and then is told, and its mark."""
    made: list[tuple[Path, Settings, str]] = []

    def find(place: Path, _: Callable[[str], None]) -> SimpleNamespace:
        made.append((place, read_settings(), settings_mark()))
        return SimpleNamespace(socket="none")

    monkeypatch.setattr(owners, "find_owner", find)
    monkeypatch.setattr(app, "bridge", lambda find: find())
    for name in [name for name in os.environ if name.startswith("PILOTHOUSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PILOTHOUSE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for name in ("opened", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "opened" / ".env").write_text(EVIL)
    return made


def test_a_folder_that_an_editor_opened_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[tuple[Path, Settings, str]]
) -> None:
    for name in ("opened", "empty"):
        monkeypatch.chdir(tmp_path / name)
        assert run_line(["mcp"]) == 0
    (there, told, mark), elsewhere = found
    assert (there, told, mark) == elsewhere
    assert (told.agents, told.backend_url) == ({}, "")


def test_a_data_directory_that_is_named_is_looked_for_where_whoever_names_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[tuple[Path, Settings, str]]
) -> None:
    for line in (["mcp", "--data-dir", "mine"], ["--data-dir", "mine", "mcp"]):
        monkeypatch.chdir(tmp_path / "opened")
        assert run_line(line) == 0
    assert [place for place, _, _ in found] == [tmp_path / "opened" / "mine"] * 2
