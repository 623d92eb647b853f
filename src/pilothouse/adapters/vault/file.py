"""The vault: one encrypted file in the data directory, rewritten as a whole at each change.

Owns the file and its lock; what is in it is a table of owners, each with their credentials by name. Knows nothing of
what a credential means. What cannot be opened is never written over.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pilothouse.adapters.vault.places import KeyPlace
from pilothouse.adapters.vault.sealed import Damaged, Head, head_of, new_key, seal, unseal
from pilothouse.errors import NotFound, StoreFailed, Unavailable

FILE = "vault"
LOCK_WAIT_S = 10.0
_ASK_EVERY_S = 0.01
_THREADS = 4

T = TypeVar("T")
Owners = dict[str, dict[str, dict[str, Any]]]


class FileVault:
    """As ``engine.chat_ports.Vault``. Besides, every method raises ``Unavailable`` for a vault that cannot be opened,
    saying what can be done, and ``StoreFailed`` when the disk refuses.

    Any number of these, in any number of processes, may use one directory."""

    def __init__(self, folder: Path, places: Mapping[str, KeyPlace], choose: Callable[[], str]) -> None:
        """``places`` are where a key may lie, by name; ``choose`` says where a new one goes, and may block."""
        self._folder = folder
        self._path = folder / FILE
        self._places = places
        self._choose = choose
        self._opened: dict[Head, bytes] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "vault")

    async def put(self, owner: str, name: str, secret: Mapping[str, Any]) -> None:
        kept = msgspec.json.decode(msgspec.json.encode(dict(secret)), type=dict[str, Any])

        def change(owners: Owners) -> bool:
            owners.setdefault(owner, {})[name] = kept
            return True

        await self._on_thread(lambda: self._change(change))

    async def get(self, owner: str, name: str) -> dict[str, Any]:
        owners = await self._on_thread(self._read)
        try:
            return owners[owner][name]
        except KeyError:
            raise NotFound(f"there is no credential {name}") from None

    async def names(self, owner: str) -> list[str]:
        return sorted((await self._on_thread(self._read)).get(owner, {}))

    async def everything(self, owner: str) -> dict[str, dict[str, Any]]:
        return dict(sorted((await self._on_thread(self._read)).get(owner, {}).items()))

    async def delete(self, owner: str, name: str) -> None:
        def change(owners: Owners) -> bool:
            there = owners.get(owner, {}).pop(name, None) is not None
            if not owners.get(owner, True):
                del owners[owner]
            return there

        await self._on_thread(lambda: self._change(change))

    async def _on_thread(self, work: Callable[[], T]) -> T:
        """Not on those that the process shares: a keychain may keep each of them for a while."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _change(self, change: Callable[[Owners], bool]) -> None:
        with self._locked():
            owners = self._read()
            if change(owners):
                self._write(owners)

    def _read(self) -> Owners:
        try:
            sealed = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be read: {error.strerror}") from error
        try:
            head = head_of(sealed)
            key = self._key_of(head)
            content = unseal(sealed, key)
            self._opened[head] = key
            return msgspec.json.decode(content, type=Owners)
        except Damaged as error:
            way_out = "nothing was changed: bring back a copy of it, or move it away to begin with an empty one"
            raise Damaged(f"the vault {self._path} cannot be opened: {error}; {way_out}") from None
        except msgspec.DecodeError as error:  # authenticated, so it was written like that
            raise Damaged(
                f"the vault {self._path} was written by another Pilothouse, which this one cannot read"
            ) from error

    def _write(self, owners: Owners) -> None:
        place, key = self._key()
        sealed = seal(msgspec.json.encode(owners), key, place)
        fresh = self._path.with_name(f"{FILE}.new")
        try:
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()  # of a process that was killed: we hold the lock
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreFailed(f"the vault {self._path} cannot be written: {error.strerror}") from error

    def _key_of(self, head: Head) -> bytes:
        """Asked for once: a keychain may ask a person each time. Raises ``Damaged``, ``Unavailable``."""
        if (known := self._opened.get(head)) is not None:
            return known
        place = self._places.get(head.place)
        if place is None:
            raise Damaged(f"its key lies in a place that this Pilothouse does not know: {head.place}")
        key = place.read()
        if key is None:
            raise Damaged(f"its key, which lay in the {head.place}, is gone")
        return key

    def _key(self) -> tuple[str, bytes]:
        """The key to write with, and where it lies: what is there was opened before."""
        with contextlib.suppress(FileNotFoundError):
            head = head_of(self._path.read_bytes())
            return head.place, self._key_of(head)
        name = self._choose()
        place = self._places[name]
        key = place.read()  # of an earlier vault, which was moved away
        if key is None:
            key = new_key()
            place.write(key)
        return name, key

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, over all processes. A dead process holds nothing."""
        deadline = time.monotonic() + LOCK_WAIT_S
        try:
            lock = os.open(self._folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreFailed(f"the vault cannot be locked: {error.strerror}") from error
        try:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StoreFailed("another process is writing to the vault and does not end") from None
                    time.sleep(_ASK_EVERY_S)
                else:
                    break
            yield
        finally:
            os.close(lock)
