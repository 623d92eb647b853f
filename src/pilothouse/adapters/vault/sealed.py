"""The sealed form of a vault: one readable line, then everything else encrypted and authenticated (AES-256-GCM).

::

    pilothouse-vault 1 <where the key lies> <id of the key>\\n
    12 bytes of nonce, ciphertext, 16 bytes of tag

The line says which key opens it before anybody tries, and is authenticated with the rest. Bytes in, bytes out: this
knows neither files nor where a key comes from.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.errors import Unavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_LINE = re.compile(rb"pilothouse-vault (\d+) ([a-z]+) ([0-9a-f]{16})\n")
_VERSION = b"1"


class Damaged(Unavailable):
    """Raised when what lies there is no vault, or is not what was put there, or needs another key."""

    code = "vault_damaged"


@dataclass(frozen=True, slots=True)
class Head:
    """The readable line: ``place`` is where the key lies, ``key_id`` which one it is."""

    place: str
    key_id: str

    @property
    def line(self) -> bytes:
        return b"pilothouse-vault %s %s %s\n" % (_VERSION, self.place.encode(), self.key_id.encode())


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def key_id(key: bytes) -> str:
    """Tells keys apart, and tells nothing of them."""
    return hashlib.sha256(b"pilothouse-vault-key " + key).hexdigest()[:16]


def head_of(sealed: bytes) -> Head:
    """Raises ``Damaged``."""
    found = _LINE.match(sealed)
    if found is None:
        raise Damaged("it is no vault")
    version, place, id_ = found.groups()
    if version != _VERSION:
        raise Damaged(f"it was written by a newer Pilothouse, in format {version.decode()}")
    return Head(place.decode(), id_.decode())


def seal(content: bytes, key: bytes, place: str) -> bytes:
    """Under a nonce of its own each time. Raises ``Unavailable``."""
    head, nonce = Head(place, key_id(key)).line, os.urandom(_NONCE_BYTES)
    return head + nonce + _cipher(key).encrypt(nonce, content, head)


def unseal(sealed: bytes, key: bytes) -> bytes:
    """Raises ``Damaged``, ``Unavailable``."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # an extra; `_cipher` says so when it is missing

    head = head_of(sealed)
    if head.key_id != key_id(key):
        raise Damaged("the key beside it is of another vault")
    nonce, body = sealed[len(head.line) :][:_NONCE_BYTES], sealed[len(head.line) + _NONCE_BYTES :]
    try:
        return _cipher(key).decrypt(nonce, body, head.line)
    except (InvalidTag, ValueError):  # ValueError: too short for a nonce
        raise Damaged("it was changed or cut short since it was written") from None


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # an extra
    except ImportError:
        raise Unavailable("credentials cannot be kept: pip install 'pilothouse[vault]'") from None
    return AESGCM(key)
