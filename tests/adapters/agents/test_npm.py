"""The program behind a loader of npm."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from pilothouse.adapters.agents.npm import native


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return tmp_path / "lib" / "node_modules"


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_it_is_in_the_package_of_the_platform_beside_the_loaders(modules: Path, tmp_path: Path) -> None:
    loader = program(modules / "@x" / "agent" / "loader.js")
    real = program(modules / "@x" / "agent-linux-x64" / "agent")
    found = tmp_path / "bin" / "agent"
    found.parent.mkdir()
    found.symlink_to(loader)

    assert native(str(found), "@x/agent", "agent", ("linux", "linuxmusl")) == str(real)


def test_it_may_be_below_the_loaders_package_and_of_another_c_library(modules: Path) -> None:
    loader = program(modules / "@x" / "agent" / "loader.js")
    real = program(modules / "@x" / "agent" / "node_modules" / "@x" / "agent-linuxmusl-x64" / "agent")

    assert native(str(loader), "@x/agent", "agent", ("linux", "linuxmusl")) == str(real)


def test_what_is_no_loader_is_started_itself(modules: Path, tmp_path: Path) -> None:
    loader = program(modules / "@x" / "agent" / "loader.js")
    (modules / "@x" / "agent-linux-x64").mkdir()
    (modules / "@x" / "agent-linux-x64" / "agent").write_text("not executable")
    other = program(tmp_path / "bin" / "agent")

    assert native(str(loader), "@x/agent", "agent", ("linux",)) == str(loader)
    assert native(str(other), "@x/agent", "agent", ("linux",)) == str(other)
