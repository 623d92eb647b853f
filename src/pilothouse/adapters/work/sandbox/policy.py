"""What a sandboxed command sees and reaches: the value that the wrapper hands to the launcher.

Knows neither how it is found out (``folders``) nor how it is enforced (``root``, ``network``). Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What appears at a place."""

    READ = "read"
    """What lies at ``source``, unchangeable."""
    WRITE = "write"
    """What lies at ``source``."""
    EMPTY = "empty"
    """An empty directory, over whatever an earlier entry has brought there."""
    LINK = "link"
    """A symbolic link that says ``source``, unless something is there already."""


class Entry(NamedTuple):
    """One place of the file system as the command sees it. Later entries lie over earlier ones."""

    kind: Kind
    path: str
    source: str


class Endpoint(NamedTuple):
    """A host, by name or IPv4 address, and a port that may be connected to."""

    host: str
    port: int


class Policy(NamedTuple):
    """Everything. ``scratch`` is a directory to build in that exists. ``endpoints`` count when ``network`` is
    ``limited``."""

    entries: tuple[Entry, ...]
    scratch: str
    network: str = "full"
    endpoints: tuple[Endpoint, ...] = ()

    def writable(self) -> Iterable[str]:
        return (entry.path for entry in self.entries if entry.kind is Kind.WRITE)

    def to_json(self) -> str:
        return json.dumps(self, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        entries, scratch, network, endpoints = json.loads(text)
        return cls(
            tuple(Entry(Kind(kind), path, source) for kind, path, source in entries),
            scratch,
            network,
            tuple(Endpoint(host, port) for host, port in endpoints),
        )
