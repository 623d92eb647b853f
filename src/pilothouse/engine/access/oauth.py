"""Connecting accounts of services, and tokens to use them with: OAuth flows, refreshing, revocation.

A flow is begun by a principal and ends for that principal alone; what a service gave is kept among its credentials and
leaves here only as a ``Token``, for a request to that service. How services are spoken to is a ``Provider``'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pilothouse.core.auth.principals import Principal
from pilothouse.core.credentials.accounts import Account, CredentialInfo, Kind, Token
from pilothouse.core.credentials.names import account_named, check_account
from pilothouse.core.credentials.oauth import (
    VERIFIER_BYTES,
    Grant,
    GrantRefused,
    authorize_url,
    exchange_form,
    refresh_form,
    text_of,
)
from pilothouse.core.credentials.refusals import reconnect
from pilothouse.core.credentials.services import Service, find
from pilothouse.engine.access.credentials import Credentials
from pilothouse.engine.ports import Clock
from pilothouse.errors import NotFound

log = logging.getLogger(__name__)

FLOW_MS = 600_000
"""How long a person may take to agree."""
AHEAD_MS = 120_000
"""A token that ends within this time is refreshed before it is used."""
_STATE_BYTES = 32
_MOST_FLOWS = 20
"""Flows of one principal that are under way; the oldest gives way."""
_REFRESHES = 2
"""How often at most one question for a token refreshes: the second time because another question began the first."""


class Provider(Protocol):
    """The way to services."""

    async def grant(self, service: Service, form: Mapping[str, str], now: int) -> Grant:
        """Ask the token endpoint. Raises ``GrantRefused``, ``BadInput``, ``BackendFailed``."""
        ...

    async def identity(self, service: Service, token: str) -> str:
        """What the account of a token is called; empty where that cannot be learnt. Raises nothing."""
        ...

    async def revoke(self, service: Service, token: str) -> None:
        """Best effort: raises nothing."""
        ...

    async def close(self) -> None: ...


class Begun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where to send the person, and until when (milliseconds since 1970)."""

    authorize_url: str
    state: str
    redirect_uri: str
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    service: str
    owner: str
    account: str
    verifier: str
    redirect_uri: str
    expires_at: int


class OAuth:
    """Flows that are under way are in memory: after a restart a person begins anew."""

    def __init__(
        self, credentials: Credentials, provider: Provider, clock: Clock, random: Callable[[int], bytes]
    ) -> None:
        """``random`` answers so many bytes that nobody can foresee."""
        self._credentials = credentials
        self._provider = provider
        self._clock = clock
        self._random = random
        self._flows: dict[str, _Flow] = {}
        self._refreshing: dict[tuple[str, str, str], asyncio.Task[Account]] = {}

    async def begin(self, principal: Principal, service: str, redirect_uri: str, account: str = "") -> Begun:
        """Begin to connect an account, by default under the name the service has for it. ``redirect_uri`` is where the
        person's browser brings the answer. Raises ``BadInput``."""
        known = find(self._credentials.services, service)
        if account:
            check_account(account)
        state, verifier = text_of(self._random(_STATE_BYTES)), text_of(self._random(VERIFIER_BYTES))
        url = authorize_url(known, redirect_uri=redirect_uri, state=state, verifier=verifier)
        self._forget_old(principal.name)
        ends = self._clock.now_ms() + FLOW_MS
        self._flows[state] = _Flow(
            service=service,
            owner=principal.name,
            account=account,
            verifier=verifier,
            redirect_uri=redirect_uri,
            expires_at=ends,
        )
        return Begun(authorize_url=url, state=state, redirect_uri=redirect_uri, expires_at=ends)

    async def finish(self, owner: str, state: str, code: str) -> CredentialInfo:
        """End the flow that ``owner`` began with what the service told the browser. Works once.

        Raises ``NotFound`` for a state that is not theirs, was used or is too old, ``Refused`` when the service gives
        nothing for the code, ``BadInput``, ``BackendFailed``."""
        flow = self._take(owner, state)
        service = find(self._credentials.services, flow.service)
        now = self._clock.now_ms()
        form = exchange_form(service, code=code, verifier=flow.verifier, redirect_uri=flow.redirect_uri)
        grant = await self._provider.grant(service, form, now)
        name = flow.account or account_named(await self._provider.identity(service, grant.token))
        account = Account(
            kind=Kind.OAUTH,
            token=grant.token,
            refresh_token=grant.refresh_token,
            expires_at=grant.expires_at,
            scopes=grant.scopes or service.scopes,
            created_at=now,
        )
        log.info("account.connected: %s:%s", service.name, name)
        return await self._credentials.keep(owner, service.name, name, account)

    def owner_of(self, state: str) -> str | None:
        """Who began a flow that is under way."""
        flow = self._flows.get(state)
        return flow.owner if flow else None

    def give_up(self, owner: str, state: str) -> None:
        """The person did not agree. Raises ``NotFound``."""
        self._take(owner, state)

    async def disconnect(self, principal: Principal, credential_id: str) -> None:
        """Forget a credential, and tell its service to forget it too. Raises ``NotFound``, ``BadInput``."""
        account = await self._credentials.remove(principal, credential_id)
        service = self._credentials.services.get(credential_id.partition(":")[0])
        if account is not None and account.kind is Kind.OAUTH and service is not None and service.revoke_url:
            await self._provider.revoke(service, account.refresh_token or account.token)

    async def token(self, owner: str, service: str, account: str = "", *, refused: str = "") -> Token:
        """What to ask a service with for an owner, refreshed when it is about to end. ``refused`` is one that the
        service did not take: never answered again.

        Raises ``NotConnected``, ``Reconnect``, ``BackendFailed``, ``StoreFailed``."""
        known = find(self._credentials.services, service)
        name, found = await self._credentials.account(owner, service, account)
        for _ in range(_REFRESHES):
            if found.broken or not self._is_spent(found, refused):
                break
            found = await self._refreshed(owner, known, name, refused)
        if found.broken:
            raise reconnect(service, known.title, name, found.broken, found.kind)
        return Token(value=found.token, account=name, api_url=known.api_url)

    async def close(self) -> None:
        """Let refreshes that are under way end: what they bring is kept nowhere else."""
        if self._refreshing:
            await asyncio.wait(self._refreshing.values())
        await self._provider.close()

    def _is_spent(self, account: Account, refused: str) -> bool:
        """Whether a token is not to be used, or not much longer where another can be had."""
        if account.token == refused:
            return True
        ahead = AHEAD_MS if account.refresh_token else 0
        return account.expires_at is not None and account.expires_at - ahead <= self._clock.now_ms()

    async def _refreshed(self, owner: str, service: Service, name: str, refused: str) -> Account:
        """One refresh at a time for an account, whoever asks. One that is under way outlives who asked for it: by then
        the service has given up the old token."""
        key = (owner, service.name, name)
        task = self._refreshing.get(key)
        if task is None:
            task = self._refreshing[key] = asyncio.create_task(self._refresh(owner, service, name, refused))
            task.add_done_callback(lambda done: self._refresh_ended(key, done))
        return await asyncio.shield(task)

    def _refresh_ended(self, key: tuple[str, str, str], done: asyncio.Task[Account]) -> None:
        del self._refreshing[key]
        if not done.cancelled() and (error := done.exception()) is not None:
            log.info("account.not-refreshed: %s:%s", *key[1:], exc_info=error)

    async def _refresh(self, owner: str, service: Service, name: str, refused: str) -> Account:
        """The account as it is afterwards. What cannot be refreshed comes back as broken."""
        _, seen = await self._credentials.account(owner, service.name, name)
        if seen.broken or not self._is_spent(seen, refused):
            return seen  # somebody else was faster
        if not seen.refresh_token:
            # Not written down: should the service have been wrong about it, nothing has to be done.
            return msgspec.structs.replace(seen, broken="revoked" if seen.token == refused else "expired")
        try:
            grant = await self._provider.grant(service, refresh_form(service, seen.refresh_token), self._clock.now_ms())
            fresh = msgspec.structs.replace(
                seen,
                token=grant.token,
                refresh_token=grant.refresh_token or seen.refresh_token,
                expires_at=grant.expires_at,
                scopes=grant.scopes or seen.scopes,
            )
        except GrantRefused as error:
            fresh = msgspec.structs.replace(seen, broken=error.name)
        return await self._credentials.replace(owner, service.name, name, seen, fresh)

    def _take(self, owner: str, state: str) -> _Flow:
        flow = self._flows.get(state)
        if flow is None or flow.owner != owner or flow.expires_at <= self._clock.now_ms():
            raise NotFound("this answer belongs to no connection that you began; begin again")
        return self._flows.pop(state)

    def _forget_old(self, owner: str) -> None:
        now = self._clock.now_ms()
        self._flows = {state: flow for state, flow in self._flows.items() if flow.expires_at > now}
        theirs = [state for state, flow in self._flows.items() if flow.owner == owner]
        for state in theirs[: len(theirs) - _MOST_FLOWS + 1]:
            del self._flows[state]
