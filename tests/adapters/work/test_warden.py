"""What a warden takes for silence of its owner."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from pilothouse.adapters.work import warden as module
from pilothouse.adapters.work.places import places, prepare
from pilothouse.adapters.work.warden import Warden


@pytest.mark.parametrize(("late", "left"), [(0.0, 0.0), (0.5, 0.0), (300.0, 60.0)])
def test_time_in_which_the_warden_was_stopped_itself_is_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: float, left: float
) -> None:
    now = 1000.0

    def select(timeout: float) -> list[object]:
        nonlocal now
        now += timeout + late
        return []

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    prepare(where := places(tmp_path))
    with socket.socket(socket.AF_UNIX) as listener:
        warden = Warden(where, listener, -1, 60.0)
        warden._selector.close()
        warden._selector = SimpleNamespace(select=select)  # type: ignore[assignment] # only this is asked of it
        assert warden._wait() == []
        assert warden._patience() == left
        warden._wake.close()
        warden._wake_writer.close()
