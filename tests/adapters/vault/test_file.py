"""The vault's file: nothing readable in it, nobody else's eyes on it, nothing written over what cannot be opened."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse.adapters.vault.file import FileVault
from pilothouse.adapters.vault.opening import open_vault
from pilothouse.errors import StoreFailed, Unavailable


def put(folder: Path, name: str = "env/TOKEN", value: str = "planted-secret") -> None:
    asyncio.run(open_vault(folder, "file").put("ann", name, {"value": value}))


def get(folder: Path, name: str = "env/TOKEN") -> dict[str, Any]:
    return asyncio.run(open_vault(folder, "file").get("ann", name))


def test_nothing_that_was_put_there_can_be_read_in_the_file_nor_who_put_it_there(tmp_path: Path) -> None:
    put(tmp_path)
    for path in tmp_path.iterdir():
        for word in (b"planted-secret", b"TOKEN", b"ann"):
            assert word not in path.read_bytes(), path.name


def test_only_its_user_can_read_the_vault_and_its_key(tmp_path: Path) -> None:
    put(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"vault": 0o600, "vault.key": 0o600, "vault.lock": 0o600}


def test_a_key_that_others_could_read_is_closed(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "vault.key").chmod(0o644)
    get(tmp_path)
    assert stat.S_IMODE((tmp_path / "vault.key").stat().st_mode) == 0o600


def test_looking_into_a_vault_that_is_not_there_makes_none(tmp_path: Path) -> None:
    async def story() -> None:
        vault = open_vault(tmp_path, "file")
        assert await vault.names("ann") == []

    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


def changed_byte(folder: Path) -> None:
    sealed = bytearray((folder / "vault").read_bytes())
    sealed[-20] ^= 1
    (folder / "vault").write_bytes(sealed)


def cut_short(folder: Path) -> None:
    (folder / "vault").write_bytes((folder / "vault").read_bytes()[:50])


def emptied(folder: Path) -> None:
    (folder / "vault").write_bytes(b"")


def something_else(folder: Path) -> None:
    (folder / "vault").write_bytes(b"{}")


def of_a_newer_version(folder: Path) -> None:
    sealed = (folder / "vault").read_bytes()
    (folder / "vault").write_bytes(sealed.replace(b"pilothouse-vault 1 ", b"pilothouse-vault 2 "))


def said_to_lie_elsewhere(folder: Path) -> None:
    sealed = (folder / "vault").read_bytes()
    (folder / "vault").write_bytes(sealed.replace(b" file ", b" moon "))


def another_key(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    put(other)
    (other / "vault.key").replace(folder / "vault.key")


def no_key(folder: Path) -> None:
    (folder / "vault.key").unlink()


def a_key_that_is_none(folder: Path) -> None:
    (folder / "vault.key").write_bytes(b"nonsense")


@pytest.mark.parametrize(
    "harm",
    [
        changed_byte,
        cut_short,
        emptied,
        something_else,
        of_a_newer_version,
        said_to_lie_elsewhere,
        another_key,
        no_key,
        a_key_that_is_none,
    ],
)
def test_what_cannot_be_opened_is_said_and_never_written_over(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    put(tmp_path)
    harm(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for attempt in (lambda: get(tmp_path), lambda: put(tmp_path, "env/OTHER")):
        with pytest.raises(Unavailable, match=r"cannot be opened.*nothing was changed") as refused:
            attempt()
        assert str(tmp_path / "vault") in str(refused.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_what_a_killed_writer_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "vault.new").write_bytes(b"half of")
    put(tmp_path, "env/OTHER", "more")
    assert get(tmp_path) == {"value": "planted-secret"}
    assert get(tmp_path, "env/OTHER") == {"value": "more"}
    assert not (tmp_path / "vault.new").exists()


def test_writers_in_several_processes_do_not_lose_what_another_wrote(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from pilothouse.adapters.vault.opening import open_vault\n"
        "async def main():\n"
        "    vault = open_vault(Path(sys.argv[1]), 'file')\n"
        "    for n in range(5):\n"
        "        await vault.put('ann', f'{sys.argv[2]}/{n}', {'n': n})\n"
        "asyncio.run(main())\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(n)]) for n in range(3)]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    names = asyncio.run(open_vault(tmp_path, "file").names("ann"))
    assert names == sorted(f"{writer}/{n}" for writer in range(3) for n in range(5))


def test_a_writer_that_does_not_let_go_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr("pilothouse.adapters.vault.file.LOCK_WAIT_S", 0.05)
    put(tmp_path)
    with (tmp_path / "vault.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreFailed, match="another process"):
            put(tmp_path, "env/OTHER")
        assert get(tmp_path) == {"value": "planted-secret"}


def test_a_disk_that_refuses_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pilothouse.adapters.vault.file.os.fsync", full)
    with pytest.raises(StoreFailed, match="No space left"):
        put(tmp_path, "env/OTHER")
    monkeypatch.undo()
    assert asyncio.run(open_vault(tmp_path, "file").names("ann")) == ["env/TOKEN"]


class FakePlace:
    """A keychain that remembers, or is locked."""

    name = "keychain"

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.locked = False
        self.asked = 0

    def read(self) -> bytes | None:
        self.asked += 1
        if self.locked:
            raise Unavailable("the system's keychain does not give the vault's key: locked")
        return self.key

    def write(self, key: bytes) -> None:
        self.key = key


def test_a_key_in_the_keychain_leaves_none_on_the_disk_and_a_locked_one_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        keychain = FakePlace()
        vault = FileVault(tmp_path, {"keychain": keychain}, lambda: "keychain")
        await vault.put("ann", "env/TOKEN", {"value": "x"})
        assert sorted(path.name for path in tmp_path.iterdir()) == ["vault", "vault.lock"]
        keychain.locked = True
        later = FileVault(tmp_path, {"keychain": keychain}, lambda: "keychain")
        with pytest.raises(Unavailable, match="locked"):
            await later.put("ann", "env/TOKEN", {"value": "y"})
        keychain.locked = False
        assert await later.get("ann", "env/TOKEN") == {"value": "x"}

    asyncio.run(story())


def test_a_keychain_is_asked_once_in_the_life_of_a_server(tmp_path: Path) -> None:
    async def story() -> None:
        keychain = FakePlace()
        await FileVault(tmp_path, {"keychain": keychain}, lambda: "keychain").put("ann", "a", {"value": 1})
        keychain.asked = 0
        vault = FileVault(tmp_path, {"keychain": keychain}, lambda: "keychain")
        for n in range(3):
            await vault.put("ann", "b", {"value": n})
            assert await vault.get("ann", "a") == {"value": 1}
        assert keychain.asked == 1

    asyncio.run(story())


def test_a_vault_that_was_put_there_from_elsewhere_is_opened_with_its_own_key(tmp_path: Path) -> None:
    async def story() -> None:
        vault, other = open_vault(tmp_path, "file"), tmp_path / "other"
        await vault.put("ann", "a", {"value": "mine"})
        other.mkdir()
        await open_vault(other, "file").put("ann", "a", {"value": "theirs"})
        for name in ("vault", "vault.key"):
            (other / name).replace(tmp_path / name)
        assert await vault.get("ann", "a") == {"value": "theirs"}

    asyncio.run(story())


def test_without_the_extra_a_vault_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    assert asyncio.run(open_vault(tmp_path, "file").names("ann")) == []
    with pytest.raises(Unavailable, match=r"pip install 'pilothouse\[vault\]'"):
        put(tmp_path)
