"""Servers of tools as agents are told of them."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from tests.adapters.agents.replay import some_work

from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.run.agents import ToolServer

SECRET = 'it\'s a "$SECRET" `with`\n\\all'
PRINTS = (sys.executable, "-c", "import os, sys; print(os.environ['TOKEN'] + '|'.join(sys.argv[1:]), end='')", "a b")


def test_the_command_starts_the_server_with_its_environment_and_does_not_hold_it(tmp_path: Path) -> None:
    server = ToolServer(name="pilothouse", command=PRINTS, env={"TOKEN": SECRET})
    command = sealed(some_work(run=str(tmp_path), tools=server))
    assert not any("SECRET" in word for word in command)
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == SECRET + "a b"


def test_the_file_with_the_secret_is_for_this_user_alone_and_is_written_anew_each_time(tmp_path: Path) -> None:
    planted = tmp_path / "elsewhere"
    planted.touch()
    (tmp_path / "tools.env").symlink_to(planted)
    for secret in ("one", "two"):
        sealed(some_work(run=str(tmp_path), tools=ToolServer(name="t", command=PRINTS, env={"TOKEN": secret})))
    (file,) = tmp_path.glob("tools.*")
    assert stat.S_IMODE(file.lstat().st_mode) == 0o600
    assert "two" in file.read_text()
    assert planted.read_text() == ""


def test_without_a_server_nothing_is_started_and_nothing_written(tmp_path: Path) -> None:
    assert sealed(some_work(run=str(tmp_path))) == ()
    assert not any(tmp_path.iterdir())
