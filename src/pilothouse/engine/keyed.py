"""Identifiers that come from what somebody calls a thing, so that asking twice makes it once."""

from __future__ import annotations

import contextlib
import hashlib
from uuid import UUID


def keyed_id(owner: str, key: str) -> str:
    """The id of what ``owner`` submits under ``key``: a UUIDv7 whose time is the key's, if that is one too, and whose
    other bits come from both; else a UUID of version 8, the one for making your own."""
    digest = hashlib.sha256(f"{owner}\0{key}".encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:16], "big")
    version = 8
    with contextlib.suppress(ValueError):
        if (given := UUID(key)).version == 7:
            version, number = 7, given.int >> 80 << 80 | number & ((1 << 80) - 1)
    return str(UUID(int=number & ~(0xF << 76 | 0x3 << 62) | version << 76 | 2 << 62))
