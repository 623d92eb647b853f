"""Who asks, and how far what they were given goes.

A principal is a name that owns things, together with what the credential it came with allows. Knows nothing of how a
credential looks or what there is to be owned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from pilothouse.errors import BadInput

LOCAL = "local"
"""The user the server runs as, who owns the data directory: over the Unix socket, and in a browser that logged in with
the token printed on their own terminal."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


class Scope(StrEnum):
    """How far a key goes. Each includes the ones before it: who may start work may look at it, and who may answer for
    a person could have started the work that asks."""

    READ = "read"
    RUN = "run"
    APPROVE = "approve"
    ADMIN = "admin"

    def includes(self, other: Scope) -> bool:
        return _LADDER.index(other) <= _LADDER.index(self)


_LADDER = tuple(Scope)

MEANINGS: Mapping[Scope, str] = MappingProxyType(
    {
        Scope.READ: "look at what its user owns",
        Scope.RUN: "start, control and delete runs of its user, register repositories, keep credentials",
        Scope.APPROVE: "answer what waits for a person in them",
        Scope.ADMIN: "everything the owner of the server may do, with what belongs to anybody; make and revoke keys",
    }
)

DEFAULT_SCOPES = (Scope.RUN,)
"""Of a new key: it works, and whatever asks for a person still asks one."""


class Kind(StrEnum):
    """What a principal showed to be let in."""

    LOCAL = "local"
    KEY = "key"
    AGENT = "agent"
    """What an agent was given that answers a turn: it reaches the tools of that turn, and nothing else."""


@dataclass(frozen=True, slots=True)
class Answering:
    """What an agent was started for: a turn's request by its number."""

    turn_id: str
    call: int


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``scopes`` are as granted: an agent has none. ``key_id`` is empty but for a key, ``answering`` None but
    for an agent."""

    name: str
    kind: Kind
    scopes: frozenset[Scope]
    key_id: str = ""
    answering: Answering | None = None

    def may(self, scope: Scope) -> bool:
        return any(granted.includes(scope) for granted in self.scopes)

    @property
    def only(self) -> str | None:
        """The owner whose things it sees, as a filter of lists: None for everybody's."""
        return None if self.may(Scope.ADMIN) else self.name

    def sees(self, owner: str) -> bool:
        """Whether what belongs to ``owner`` exists for it."""
        return self.only in (None, owner)


THE_LOCAL_USER = Principal(LOCAL, Kind.LOCAL, frozenset(Scope))


def check_name(name: str) -> str:
    """The name of a principal, as it may be. Raises ``BadInput``."""
    if _NAME.fullmatch(name) is None:
        fix = "letters, digits and . _ @ + -, beginning with a letter or digit, 64 at most"
        raise BadInput("is no name of a user", field="user", fix=fix)
    return name


def read_scopes(given: Iterable[str]) -> tuple[Scope, ...]:
    """Scopes by name, each once, from the least on. Raises ``BadInput``."""
    names = set(given)
    for name in sorted(names - set(Scope)):
        raise BadInput(f"{name!r} is no scope", field="scopes", fix=f"one of {', '.join(Scope)}")
    if not names:
        raise BadInput("names no scope", field="scopes", fix=f"one of {', '.join(Scope)}")
    return tuple(scope for scope in Scope if scope in names)
