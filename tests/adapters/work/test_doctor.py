"""What the self-check says about ending process trees."""

from __future__ import annotations

import sys

import pytest

from pilothouse.adapters.work.doctor import capabilities


@pytest.mark.skipif(sys.platform != "linux", reason="everywhere else something is missing")
def test_linux_has_all_that_is_needed() -> None:
    assert all(ok for name, ok, _ in capabilities() if not name.startswith("sandbox"))


def test_it_says_whether_commands_can_be_confined() -> None:
    assert "sandbox" in [name for name, _, _ in capabilities()]


def test_every_capability_says_what_it_means() -> None:
    for name, _, detail in capabilities():
        assert name
        assert detail
