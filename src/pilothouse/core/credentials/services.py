"""Services that give tokens: where they are asked, and for what. Addresses are the public ones unless set otherwise.

No client ids: whoever runs a server registers it with a service, and sets what the service gave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from pilothouse.core.credentials.names import check_service
from pilothouse.errors import BadInput


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service. ``identity`` is (path of the API, field of the answer) that tell what an account is called."""

    name: str
    title: str
    api_url: str = ""
    authorize_url: str = ""
    token_url: str = ""
    revoke_url: str = ""
    """Takes ``token`` as a form; empty where that needs more."""
    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    scope_parameter: str = "scope"
    scope_separator: str = " "
    extra: tuple[tuple[str, str], ...] = ()
    """More that is asked when a person is sent there."""
    identity: tuple[str, str] = ("", "")
    redirect_url: str = ""
    """Where this server can be reached from a browser for answers, if not where it listens."""

    def __repr__(self) -> str:
        return f"Service({self.name})"


PUBLIC: Mapping[str, Service] = MappingProxyType(
    {
        service.name: service
        for service in (
            Service(
                name="github",
                title="GitHub",
                api_url="https://api.github.com",
                authorize_url="https://github.com/login/oauth/authorize",
                token_url="https://github.com/login/oauth/access_token",
                scopes=("repo", "read:user"),
                identity=("/user", "login"),
            ),
            Service(
                name="google",
                title="Google",
                api_url="https://gmail.googleapis.com",
                authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
                token_url="https://oauth2.googleapis.com/token",
                revoke_url="https://oauth2.googleapis.com/revoke",
                scopes=(
                    "https://www.googleapis.com/auth/gmail.readonly",
                    "https://www.googleapis.com/auth/gmail.send",
                ),
                # Without these a token ends after an hour, and nothing comes with it that would bring another.
                extra=(("access_type", "offline"), ("prompt", "consent")),
                identity=("/gmail/v1/users/me/profile", "emailAddress"),
            ),
            Service(
                name="slack",
                title="Slack",
                api_url="https://slack.com/api",
                authorize_url="https://slack.com/oauth/v2/authorize",
                token_url="https://slack.com/api/oauth.v2.access",
                revoke_url="https://slack.com/api/auth.revoke",
                scopes=(
                    "channels:history",
                    "channels:read",
                    "chat:write",
                    "groups:history",
                    "groups:read",
                    "users:read",
                ),
                # A person's own scopes: where a program listens on its own machine, Slack gives no bot's.
                scope_parameter="user_scope",
                scope_separator=",",
                identity=("/auth.test", "team"),
            ),
        )
    }
)


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a service; empty: as it is."""

    client_id: str = ""
    client_secret: str = ""
    authorize_url: str = ""
    token_url: str = ""
    revoke_url: str = ""
    api_url: str = ""
    redirect_url: str = ""
    scopes: tuple[str, ...] = ()
    scope_parameter: str = ""

    def __repr__(self) -> str:
        return f"Given({self.client_id})"


def services(given: Mapping[str, Given]) -> dict[str, Service]:
    """The public ones, as they are set, and those that only settings know."""
    found = dict(PUBLIC)
    for name, settings in given.items():
        known = found.get(check_service(name), Service(name=name, title=name.capitalize()))
        said = {field: value for field, value in msgspec.structs.asdict(settings).items() if value}
        found[name] = msgspec.structs.replace(known, **said)
    return found


def find(services: Mapping[str, Service], name: str) -> Service:
    """Raises ``BadInput``."""
    try:
        return services[name]
    except KeyError:
        raise BadInput(f"{name!r} is no service known here", field="service", fix=_one_of(services)) from None


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(sorted(names))}"
