"""What credentials are called: by people and doors (``env:NAME``, ``slack:work``), and where they are kept.

A value that a person gave a name is for ``{{NAME}}``; an account belongs to a service, which may have several. Knows
nothing of what hides behind a name.
"""

from __future__ import annotations

import re

from pilothouse.errors import BadInput, NotFound

VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SERVICE = re.compile(r"[a-z][a-z0-9-]{0,31}")
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_NOT_IN_ACCOUNT = re.compile(r"[^A-Za-z0-9._@+-]+")

ENV = "env"
"""Before the name of a value: so no service may be called this."""


def check_value_name(name: str) -> str:
    """Raises ``BadInput``."""
    if VALUE.fullmatch(name) is None:
        raise BadInput("is no name of a value", field="name", fix="letters, digits and _, such as API_KEY")
    return name


def check_service(name: str) -> str:
    """Raises ``BadInput``."""
    if _SERVICE.fullmatch(name) is None or name == ENV:
        raise BadInput("is no name of a service", field="service", fix="lower case, such as slack or github")
    return name


def check_account(name: str) -> str:
    """Raises ``BadInput``."""
    if _ACCOUNT.fullmatch(name) is None:
        raise BadInput("is no name of an account", field="account", fix="letters, digits and . _ @ + -, 64 at most")
    return name


def account_named(text: str) -> str:
    """What an account is called that its service calls ``text``."""
    return _NOT_IN_ACCOUNT.sub("-", text).strip("-._@+")[:64] or "default"


def value_id(name: str) -> str:
    return f"{ENV}:{name}"


def account_id(service: str, account: str) -> str:
    return f"{service}:{account}"


def read_id(text: str) -> tuple[str, str]:
    """``env`` or a service, and the name there. Raises ``NotFound`` for what can be no credential's."""
    kind, _, name = text.partition(":")
    names = VALUE if kind == ENV else _ACCOUNT
    if _SERVICE.fullmatch(kind) is None or names.fullmatch(name) is None:
        raise NotFound(f"there is no credential {text}")
    return kind, name


# Where they are kept: names in a vault.


def value_place(name: str) -> str:
    return f"value/{name}"


def account_place(service: str, account: str) -> str:
    return f"account/{service}/{account}"


def default_place(service: str) -> str:
    return f"default/{service}"


def read_place(place: str) -> tuple[str, str, str] | None:
    """``("env", "", name)`` or ``("account", service, account)``; None for what is no credential."""
    match place.split("/"):
        case ["value", name]:
            return ENV, "", name
        case ["account", service, account]:
            return "account", service, account
    return None
