"""The system's keychain: used when there is a real one, never waited for without end."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend

from pilothouse.adapters.vault.opening import open_vault
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

        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        self.go_on.wait(30)
        return super().get_password(service, username)


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
def test_any_number_who_need_the_key_ask_one_question_whose_answer_counts_also_when_it_comes_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting()
    keyring.set_keyring(waiting)
    chain = Keychain(tmp_path)
    chain.write(KEY)
    monkeypatch.setattr("pilothouse.adapters.vault.places.KEYCHAIN_WAIT_S", 0.05)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = [threads.submit(chain.read) for _ in range(8)]
        assert all("may be locked" in str(one.exception()) for one in found)
        with pytest.raises(Unavailable, match="may be locked"):
            chain.read()
    finally:
        waiting.go_on.set()
    monkeypatch.setattr("pilothouse.adapters.vault.places.KEYCHAIN_WAIT_S", 20)
    assert chain.read() == KEY
    assert waiting.asked == 1


@pytest.mark.usefixtures("restored")
def test_who_has_refused_is_not_asked_again_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dismissed(Waiting):
        def get_password(self, service: str, username: str) -> str | None:
            self.asked += 1
            raise RuntimeError("prompt dismissed")

    keyring.set_keyring(dismissed := Dismissed())
    chain = Keychain(tmp_path)
    for _ in range(3):
        with pytest.raises(Unavailable, match="prompt dismissed"):
            chain.read()
    assert dismissed.asked == 1
    monkeypatch.setattr("pilothouse.adapters.vault.places.ASKED_AGAIN_S", 0.0)
    with pytest.raises(Unavailable):
        chain.read()
    assert dismissed.asked == 2


@pytest.mark.usefixtures("restored")
def test_a_keychain_that_waits_keeps_no_thread_from_anybody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting()
    waiting.go_on.set()
    keyring.set_keyring(waiting)
    asyncio.run(open_vault(tmp_path, "keychain").put("ann", "a", {"x": 1}))
    waiting.go_on.clear()
    monkeypatch.setattr("pilothouse.adapters.vault.places.KEYCHAIN_WAIT_S", 5.0)

    async def story() -> None:
        vault = open_vault(tmp_path)
        reading = [asyncio.create_task(vault.get("ann", "a")) for _ in range(100)]
        await asyncio.sleep(0)
        async with asyncio.timeout(4):
            await asyncio.to_thread(lambda: None)
        waiting.go_on.set()
        assert await asyncio.gather(*reading) == [{"x": 1}] * 100

    asyncio.run(story())


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
