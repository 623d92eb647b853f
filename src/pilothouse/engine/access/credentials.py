"""Credentials of a principal: values for ``{{NAME}}``, keys and accounts of services. Kept in the vault, shown never.

What is hidden leaves here in two ways only: ``values`` for whoever puts them into a tool's arguments, and ``account``
for whoever asks a service. Knows no service's protocol.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from pilothouse.core.auth.principals import Principal
from pilothouse.core.credentials.accounts import Account, CredentialInfo, Default, Kind, Value
from pilothouse.core.credentials.names import (
    ENV,
    account_id,
    account_place,
    check_account,
    check_value_name,
    default_place,
    read_id,
    read_place,
    value_id,
    value_place,
)
from pilothouse.core.credentials.refusals import no_such_account, not_connected
from pilothouse.core.credentials.services import Service, find
from pilothouse.engine.chat_ports import Vault
from pilothouse.engine.ports import Clock
from pilothouse.errors import BadInput, NotFound

LONGEST_VALUE = 65_536
"""Characters of a value or a key."""
MOST = 1000
"""Credentials of one principal."""

_Kept = TypeVar("_Kept", bound=msgspec.Struct)


class Credentials:
    """Credentials by owner. An owner is a principal's name; nobody reaches another's, not even an admin."""

    def __init__(self, vault: Vault, clock: Clock, services: Mapping[str, Service]) -> None:
        self.services = services
        self._vault = vault
        self._clock = clock
        self._changing = asyncio.Lock()

    async def list(self, principal: Principal) -> builtins.list[CredentialInfo]:
        """All of a principal's, values first, each kind by name."""
        kept = await self._vault.everything(principal.name)
        found = []
        for place, secret in kept.items():
            match read_place(place):
                case ("env", _, name):
                    found.append(_value_info(name, msgspec.convert(secret, Value)))
                case (_, service, name):
                    default = kept.get(default_place(service), {}).get("account") == name
                    found.append(account_info(service, name, msgspec.convert(secret, Account), default=default))
        return sorted(found, key=lambda info: (info.kind is not Kind.VALUE, info.id))

    async def set_value(self, principal: Principal, name: str, value: str) -> CredentialInfo:
        """Keep what stands for ``{{name}}``; replaces the one there is. Raises ``BadInput``."""
        check_value_name(name)
        kept = Value(value=_checked(value), created_at=self._clock.now_ms())
        async with self._changing:
            await self._write(principal.name, value_place(name), kept)
        return _value_info(name, kept)

    async def add_key(self, principal: Principal, service: str, key: str, account: str = "") -> CredentialInfo:
        """Keep a key or token that a person made at a service, by default as the account ``default``; replaces the one
        of that name. Raises ``BadInput``."""
        find(self.services, service)
        name = check_account(account or "default")
        key = _checked(key.strip())
        if not (key.isascii() and key.isprintable()):
            raise BadInput("has characters that no key has", field="value", fix="give it as the service showed it")
        return await self.keep(
            principal.name, service, name, Account(kind=Kind.KEY, token=key, created_at=self._clock.now_ms())
        )

    async def keep(self, owner: str, service: str, name: str, account: Account) -> CredentialInfo:
        """Keep an account; the first one of its service is the default."""
        async with self._changing:
            await self._write(owner, account_place(service, name), account)
            default = await self._default(owner, service)
            if not default:
                default = name
                await self._write(owner, default_place(service), Default(account=name))
        return account_info(service, name, account, default=name == default)

    async def replace(self, owner: str, service: str, name: str, seen: Account, fresh: Account) -> Account:
        """Put ``fresh`` in the place of ``seen``; answers what is there then, which is another one if the account was
        connected anew meanwhile. Raises ``NotConnected`` when it was removed."""
        async with self._changing:
            _, there = await self.account(owner, service, name)
            if there != seen:
                return there
            await self._write(owner, account_place(service, name), fresh)
        return fresh

    async def remove(self, principal: Principal, credential_id: str) -> Account | None:
        """Forget a credential; answers the account that it was. Raises ``NotFound``."""
        owner = principal.name
        service, name = read_id(credential_id)
        async with self._changing:
            place = value_place(name) if service == ENV else account_place(service, name)
            try:
                secret = await self._vault.get(owner, place)
            except NotFound:
                raise NotFound(f"there is no credential {credential_id}") from None
            await self._vault.delete(owner, place)
            if service == ENV:
                return None
            if await self._default(owner, service) == name:
                await self._vault.delete(owner, default_place(service))
                if others := await self.accounts(owner, service):
                    await self._write(owner, default_place(service), Default(account=others[0]))
        return msgspec.convert(secret, Account)

    async def make_default(self, principal: Principal, credential_id: str) -> CredentialInfo:
        """Mean this account where none of its service is named. Raises ``NotFound``, ``BadInput``."""
        service, name = read_id(credential_id)
        if service == ENV and value_place(name) in await self._vault.names(principal.name):
            raise BadInput("is no account of a service", field="id", fix="as in slack:work")
        async with self._changing:
            try:
                account = await self._read(principal.name, account_place(service, name), Account)
            except NotFound:
                raise NotFound(f"there is no credential {credential_id}") from None
            await self._write(principal.name, default_place(service), Default(account=name))
        return account_info(service, name, account, default=True)

    async def values(self, owner: str) -> dict[str, str]:
        """What stands for ``{{NAME}}``, by name. For the server alone: never for an answer, a log or a model."""
        found = {}
        for place, secret in (await self._vault.everything(owner)).items():
            match read_place(place):
                case ("env", _, name):
                    found[name] = msgspec.convert(secret, Value).value
        return found

    async def accounts(self, owner: str, service: str) -> tuple[str, ...]:
        """The names of an owner's accounts of a service."""
        known = (read_place(place) for place in await self._vault.names(owner))
        return tuple(sorted(found[2] for found in known if found and found[0] != ENV and found[1] == service))

    async def account(self, owner: str, service: str, name: str = "") -> tuple[str, Account]:
        """An account, by default the default one, and its name. Raises ``NotConnected``, ``BadInput``."""
        title = find(self.services, service).title
        wanted = name or await self._default(owner, service)
        if wanted:
            try:
                return wanted, await self._read(owner, account_place(service, check_account(wanted)), Account)
            except NotFound:
                pass
        there = await self.accounts(owner, service)
        if there and name:
            raise no_such_account(service, title, name, there)
        if there:  # the default was lost
            return there[0], await self._read(owner, account_place(service, there[0]), Account)
        raise not_connected(service, title)

    async def _default(self, owner: str, service: str) -> str:
        try:
            return (await self._read(owner, default_place(service), Default)).account
        except NotFound:
            return ""

    async def _read(self, owner: str, place: str, kind: type[_Kept]) -> _Kept:
        return msgspec.convert(await self._vault.get(owner, place), kind)

    async def _write(self, owner: str, place: str, secret: msgspec.Struct) -> None:
        names = await self._vault.names(owner)
        if len(names) >= MOST and place not in names:
            raise BadInput(f"there are {len(names)} credentials already", fix="remove some")
        await self._vault.put(owner, place, msgspec.to_builtins(secret))


def account_info(service: str, name: str, account: Account, *, default: bool) -> CredentialInfo:
    return CredentialInfo(
        id=account_id(service, name),
        kind=account.kind,
        name=name,
        service=service,
        created_at=account.created_at,
        default=default,
        scopes=account.scopes,
        expires_at=None if account.refresh_token else account.expires_at,
        state="reconnect" if account.broken else "ok",
        why=account.broken,
    )


def _value_info(name: str, value: Value) -> CredentialInfo:
    return CredentialInfo(id=value_id(name), kind=Kind.VALUE, name=name, created_at=value.created_at)


def _checked(value: str) -> str:
    if not value:
        raise BadInput("is empty", field="value", fix="give the value itself")
    if len(value) > LONGEST_VALUE or "\0" in value:
        raise BadInput("is no value", field="value", fix=f"up to {LONGEST_VALUE} characters, none of them NUL")
    return value
