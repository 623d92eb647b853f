"""The system's keychain: used when there is a real one, never waited for without end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend

from pilothouse.adapters.vault.places import Keychain
from pilothouse.errors import Unavailable

KEY = bytes(range(32))


class Remembering(KeyringBackend):
    """A keychain in memory."""

    priority = 5.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring has no annotation there
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class Waiting(Remembering):
    """A keychain that waits for somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.go_on.wait(30)
        return None


@pytest.fixture
def restored() -> Iterator[None]:
    before = keyring.get_keyring()
    yield
    keyring.set_keyring(before)


@pytest.mark.usefixtures("restored")
def test_a_key_comes_back_for_the_directory_it_was_kept_for_and_for_no_other(tmp_path: Path) -> None:
    keyring.set_keyring(Remembering())
    Keychain(tmp_path).write(KEY)
    assert Keychain(tmp_path).read() == KEY
    assert Keychain(tmp_path / "other").read() is None


@pytest.mark.usefixtures("restored")
def test_a_keychain_that_waits_for_somebody_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.adapters.vault.places.KEYCHAIN_WAIT_S", 0.05)
    waiting = Waiting()
    keyring.set_keyring(waiting)
    try:
        with pytest.raises(Unavailable, match="may be locked"):
            Keychain(tmp_path).read()
    finally:
        waiting.go_on.set()


@pytest.mark.usefixtures("restored")
def test_what_only_says_that_there_is_none_is_no_keychain() -> None:
    from keyring.backends import fail, null

    for none in (fail.Keyring, null.Keyring):
        keyring.set_keyring(none())
        assert not Keychain.there()
    keyring.set_keyring(Remembering())
    assert Keychain.there()


def test_without_the_extra_there_is_no_keychain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert not Keychain.there()
    with pytest.raises(Unavailable, match="pip install"):
        Keychain(tmp_path).read()
