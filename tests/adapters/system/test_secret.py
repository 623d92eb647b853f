"""The server's own secret: made once, private, the same for whoever asks."""

from __future__ import annotations

import multiprocessing
import stat
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

from pilothouse.adapters.system.secret import kept_secret
from pilothouse.errors import Unavailable

SIZE = 32


def test_it_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "some.key"
    made = kept_secret(path, SIZE)
    assert len(made) == SIZE
    assert kept_secret(path, SIZE) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_secret(tmp_path / "other.key", SIZE) != made
    assert {entry.name for entry in tmp_path.iterdir()} == {"some.key", "other.key"}


def _asks(path: Path, answers: SimpleQueue[bytes]) -> None:
    answers.put(kept_secret(path, SIZE))


def test_processes_that_make_it_at_once_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: SimpleQueue[bytes] = context.SimpleQueue()
    asking = [context.Process(target=_asks, args=(tmp_path / "some.key", answers)) for _ in range(3)]
    for process in asking:
        process.start()
    found = {answers.get() for _ in asking}
    for process in asking:
        process.join()
    assert len(found) == 1


def test_what_others_could_have_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "some.key"
    kept_secret(path, SIZE)
    path.chmod(0o640)
    with pytest.raises(Unavailable, match="could be read by others"):
        kept_secret(path, SIZE)


def test_what_is_damaged_or_leads_elsewhere_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "some.key"
    path.touch(0o600)
    with pytest.raises(Unavailable, match="damaged"):
        kept_secret(path, SIZE)
    path.unlink()
    kept_secret(tmp_path / "other.key", SIZE)
    path.symlink_to("other.key")
    with pytest.raises(Unavailable, match="cannot be used"):
        kept_secret(path, SIZE)


def test_where_nothing_can_be_kept_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be used"):
        kept_secret(tmp_path / "nowhere" / "some.key", SIZE)
