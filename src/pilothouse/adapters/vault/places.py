"""Where the key of a vault lies: in a file beside it, or in the system's keychain.

Knows nothing of what the key opens. Every call blocks.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pilothouse.adapters.vault.sealed import KEY_BYTES, Damaged
from pilothouse.errors import Unavailable

log = logging.getLogger(__name__)

KEYCHAIN_WAIT_S = 20.0
"""How long a keychain may take, which may be asking a person for a password. After that whoever needs the key is told
at once that it is still waited for."""
ASKED_AGAIN_S = 30.0
"""How long a refusal counts: a person who has dismissed the question is not asked again for every call."""
_SERVICE = "pilothouse"

T = TypeVar("T")


class KeyPlace(Protocol):
    """``name`` is what the vault's first line says."""

    name: str

    def read(self) -> bytes | None:
        """None: there is none yet. Raises ``Unavailable``."""
        ...

    def write(self, key: bytes) -> None:
        """Only when there is none yet. Raises ``Unavailable``."""
        ...


class KeyFile:
    """A file that only its owner can read."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.getuid():
                    raise Unavailable(f"{self._path} belongs to another user")
                if stat.S_IMODE(found.st_mode) & 0o077:
                    log.warning("vault.key-open: %s could be read by others; closed", self._path)
                    os.fchmod(file.fileno(), 0o600)
                text = file.read(1000)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be read: {error.strerror}") from error
        return _decode(text, str(self._path))

    def write(self, key: bytes) -> None:
        """Whole or not at all: what was begun in a crash must not stand in the way of the next try."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(base64.b64encode(key) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(fresh, self._path)  # unlike a rename this never replaces a key
            finally:
                fresh.unlink()
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}") from error


class Keychain:
    """An entry of the system's keychain, named after the place of the vault."""

    name = "keychain"

    def __init__(self, vault: Path) -> None:
        self._entry = f"vault {hashlib.sha256(os.fsencode(vault.absolute())).hexdigest()[:16]}"
        self._asking = threading.Lock()
        self._asked: _Question[str | None] | None = None
        """The question that was asked last, by whoever came first; it may be answered after all have given up."""

    @staticmethod
    def there() -> bool:
        """Whether this system has a real one, which encrypts what it keeps."""
        try:
            import keyring  # noqa: PLC0415  # an extra
        except ImportError:
            return False
        try:
            priority = _Question(lambda: keyring.get_keyring().priority).answer()
        except Exception:  # whatever a backend may say, it is none to rely on
            log.info("vault.no-keychain", exc_info=True)
            return False
        return float(priority) >= 1

    def read(self) -> bytes | None:
        """Any number of threads may ask at once: the keychain is asked one question."""
        keyring = _keyring()
        with self._asking:
            if self._asked is None or self._asked.failed_before(ASKED_AGAIN_S):
                self._asked = _Question(lambda: keyring.get_password(_SERVICE, self._entry))
            asked = self._asked
        text = _answer(asked)
        with self._asking:
            if self._asked is asked:
                self._asked = None
        return None if text is None else _decode(text.encode(), "the keychain's entry")

    def write(self, key: bytes) -> None:
        keyring = _keyring()
        _answer(_Question(lambda: keyring.set_password(_SERVICE, self._entry, base64.b64encode(key).decode())))


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str) -> None: ...


def _keyring() -> _Keyring:
    """Raises ``Unavailable``."""
    try:
        import keyring  # noqa: PLC0415  # an extra
    except ImportError:
        raise Unavailable("the system's keychain cannot be asked: pip install 'pilothouse[vault]'") from None
    return keyring


def _answer(asked: _Question[T]) -> T:
    """Raises ``Unavailable``."""
    try:
        return asked.answer()
    except Exception as error:  # each backend has errors of its own
        raise Unavailable(f"the system's keychain does not give the vault's key: {error}") from error


class _Question(Generic[T]):
    """Asked on a thread of its own: a keychain that waits for somebody must not keep the process from ending."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._began = time.monotonic()
        self._over = threading.Event()
        self._ended = 0.0
        self._answers: list[T] = []
        self._errors: list[BaseException] = []
        threading.Thread(target=self._ask, name="keychain", daemon=True).start()

    def answer(self) -> T:
        """Raises what the call does, and ``TimeoutError`` when it has taken ``KEYCHAIN_WAIT_S``, whoever asked."""
        if not self._over.wait(max(0.0, self._began + KEYCHAIN_WAIT_S - time.monotonic())):
            raise TimeoutError("it does not answer; it may be locked, or be asking for a password")
        if self._errors:
            raise self._errors[0]
        return self._answers[0]

    def failed_before(self, seconds: float) -> bool:
        """Whether it ended with an error so long ago."""
        return self._over.is_set() and bool(self._errors) and time.monotonic() - self._ended >= seconds

    def _ask(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:  # for whoever asked
            self._errors.append(error)
        self._ended = time.monotonic()
        self._over.set()


def _decode(text: bytes, what: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise Damaged(f"{what} holds no key of a vault")
    return key
