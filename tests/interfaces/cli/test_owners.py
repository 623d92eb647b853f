"""Finding and starting owners: from one terminal, from several at once, and across versions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.conftest import Say
from tests.interfaces.cli.fake_owner import FakeOwner

from pilothouse.client import owners as starting
from pilothouse.errors import Unavailable
from pilothouse.interfaces.cli import owners
from pilothouse.owner import Owner, owning, read_owner, write_owner

ROOT = Path(__file__).parents[3]


@pytest.fixture
def fakes(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What a client starts is the fake; whatever was started is ended, also what was still on its way."""
    fake = str(ROOT / "tests/interfaces/cli/fake_owner.py")
    monkeypatch.setattr(starting, "OWNER_COMMAND", (sys.executable, fake, "owner"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "src"), str(ROOT))))
    spawned: list[int] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            spawned.append(self.pid)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    yield data_dir
    for pid in spawned:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it had ended


def started(data_dir: Path) -> list[int]:
    """The processes that became owners, in order."""
    path = data_dir / "owners"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_an_owner_is_started_once_and_found_again(fakes: Path) -> None:
    owners.connect(fakes)
    owners.connect(fakes)
    assert len(started(fakes)) == 1


def test_clients_that_start_at_once_end_up_with_one_owner(fakes: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        clients = list(pool.map(lambda _: owners.connect(fakes), range(4)))
    assert len({client.socket_path for client in clients}) == 1
    assert len(started(fakes)) == 1


def test_an_owner_that_was_killed_is_replaced(fakes: Path) -> None:
    owners.connect(fakes)
    (first,) = started(fakes)
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    owners.connect(fakes)
    assert len(started(fakes)) == 2


def test_an_owner_that_is_just_ending_is_waited_for(fakes: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib\nfrom pilothouse.owner import owning\n"
            "with owning(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()",
            str(fakes),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None and holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with ThreadPoolExecutor(1) as pool:
        client = pool.submit(owners.connect, fakes)
        deadline = time.monotonic() + 20
        while not (fakes / "gave-way").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        holder.communicate()
        client.result(timeout=20)
    assert len(started(fakes)) == 1


def test_why_an_owner_cannot_start_is_told_before_where_its_log_is(
    fakes: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fakes / "owner.log").write_text("error: of long ago\n")
    monkeypatch.setenv("FAKE_OWNER_FAILS", "1")
    said = say("plan", "list")
    assert said.code == 2
    assert said.err == (
        f"error: the database is from the future (no server came to life; its log is {fakes}/owner.log)\n"
    )


def test_a_place_that_cannot_be_a_directory_is_refused(data_dir: Path, say: Say) -> None:
    (data_dir / "file").touch()
    said = say("plan", "list", "--data-dir", str(data_dir / "file" / "sub"))
    assert said.code == 2
    assert "nothing can be kept in" in said.err


def test_an_older_owner_in_the_background_makes_room(fakes: Path) -> None:
    with FakeOwner(fakes, version="0.0.1").serving() as old:
        owners.connect(fakes)
        assert old.stepped_down.is_set()
        assert len(started(fakes)) == 1


def test_an_older_server_that_somebody_started_stays_with_a_warning(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOwner(data_dir, version="0.0.1", mode="serve").serving() as old:
        assert owners.connect(data_dir).socket_path == old.socket
    assert capsys.readouterr().err.startswith("warning: the server of ")


def test_what_owner_json_says_is_not_believed_when_nobody_answers(data_dir: Path) -> None:
    write_owner(data_dir, Owner(1, "0.1.0", str(data_dir / "gone.sock"), "background"))
    assert owners.live_owner(data_dir) is None


def test_the_wait_for_an_owner_is_bounded(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "OWNER_COMMAND", (sys.executable, "-c", "0"))
    monkeypatch.setattr(starting, "START_PATIENCE", 0.2)
    with owning(data_dir), pytest.raises(Unavailable, match="no server came to life"):
        owners.connect(data_dir)
    assert read_owner(data_dir) is None
