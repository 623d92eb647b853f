"""Where the owner's socket lies when the data directory's name is too long for a socket address."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from pilothouse.errors import Unavailable
from pilothouse.owner import socket_path


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_long_name_is_reached_through_a_private_directory(runtime: Path) -> None:
    data_dir = runtime / ("d" * 150)

    place = socket_path(data_dir)

    assert place.parent.parent == runtime
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert socket_path(data_dir) == place


def test_a_link_that_somebody_put_in_its_place_is_refused_and_not_followed(runtime: Path) -> None:
    data_dir = runtime / ("d" * 150)
    folder = socket_path(data_dir).parent
    folder.rmdir()
    theirs = runtime / "public"
    theirs.mkdir(mode=0o755)
    folder.symlink_to(theirs)

    with pytest.raises(Unavailable):
        socket_path(data_dir)

    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755
