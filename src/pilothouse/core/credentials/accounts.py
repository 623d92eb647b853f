"""An account of a service, as it is kept and as it may be shown.

What is kept never prints itself: it would find its way into a log with the next traceback.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a credential is."""

    VALUE = "value"
    """What stands for ``{{NAME}}``."""
    KEY = "key"
    """An API key or token that a person made at a service."""
    OAUTH = "oauth"
    """What a service gave this program when a person agreed."""


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value with a name."""

    value: str
    created_at: int

    def __repr__(self) -> str:
        return "Value(…)"


class Account(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Times are milliseconds since 1970. ``broken`` is why only its person can bring it back."""

    kind: Kind
    token: str
    created_at: int
    refresh_token: str = ""
    expires_at: int | None = None
    """When the token ends; None: when it is revoked."""
    scopes: tuple[str, ...] = ()
    broken: str = ""

    def __repr__(self) -> str:
        return f"Account({self.kind}, …)"


class Default(msgspec.Struct, frozen=True, kw_only=True):
    """Which account of a service is meant when none is named."""

    account: str


class CredentialInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A credential at a glance, without what it hides. ``state`` is ``ok`` or ``reconnect``; ``why`` belongs to the
    latter. ``expires_at``: when a token that cannot be refreshed ends."""

    id: str
    kind: Kind
    name: str
    """Of a value its name, of an account the account's."""
    created_at: int
    service: str = ""
    default: bool = False
    scopes: tuple[str, ...] = ()
    expires_at: int | None = None
    state: str = "ok"
    why: str = ""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What a request to a service is made with."""

    value: str
    account: str
    api_url: str

    def __repr__(self) -> str:
        return f"Token({self.account}, …)"
