"""Why a service cannot be used for somebody: each says what its person can do about it."""

from __future__ import annotations

from pilothouse.core.credentials.accounts import Kind
from pilothouse.errors import NotFound, Refused

CONNECT = "pilothouse credentials connect"
ADD = "pilothouse credentials add"


class NotConnected(NotFound):
    """Raised when there is no such account of a service."""

    code = "not_connected"


class Reconnect(Refused):
    """Raised when an account was revoked, or ended, and only its person can bring it back."""

    code = "reconnect"


def not_connected(service: str, title: str) -> NotConnected:
    return NotConnected(f"No {title} account is connected; {CONNECT} {service}")


def no_such_account(service: str, title: str, account: str, there: tuple[str, ...]) -> NotConnected:
    known = f"there are {', '.join(there)}" if there else f"{CONNECT} {service} --account {account}"
    return NotConnected(f"There is no {title} account {account}; {known}")


def reconnect(service: str, title: str, account: str, why: str, kind: Kind) -> Reconnect:
    verb = ADD if kind is Kind.KEY else CONNECT
    return Reconnect(
        f"The {title} account {account} has to be connected again ({why}); {verb} {service} --account {account}"
    )
