"""Connecting accounts and using their tokens, against services that give tokens as the real ones do."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.outside.serving import serving
from tests.support.outside.tokens import Tokens, said_to

from pilothouse.adapters.vault.memory import MemoryVault
from pilothouse.adapters.vault.provider import HttpProvider
from pilothouse.core.auth.principals import Kind as Shown
from pilothouse.core.auth.principals import Principal, Scope
from pilothouse.core.credentials.accounts import CredentialInfo, Token
from pilothouse.core.credentials.oauth import GrantRefused
from pilothouse.core.credentials.refusals import NotConnected, Reconnect
from pilothouse.core.credentials.services import Given, services
from pilothouse.engine.access.credentials import Credentials
from pilothouse.engine.access.oauth import AHEAD_MS, FLOW_MS, OAuth
from pilothouse.errors import BackendFailed, BadInput, NotFound

WITHIN_S = 30
CALLBACK = "http://127.0.0.1:1/callback"
ANN = Principal("ann", Shown.KEY, frozenset({Scope.RUN}))
BOB = Principal("bob", Shown.KEY, frozenset({Scope.RUN}))

MANNERS = ["google", "github", "slack"]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@dataclass
class Connected:
    """A service and an engine beside it. ``name`` is the service's, ``tokens`` are its books."""

    name: str
    tokens: Tokens
    vault: MemoryVault
    credentials: Credentials
    oauth: OAuth
    clock: Clock
    identities: list[str] = field(default_factory=lambda: ["Grace Hopper"])

    async def agree(self, url: str) -> dict[str, str]:
        """What a person's browser brings back from the authorize page."""
        async with httpx.AsyncClient() as browser:
            answer = await browser.get(url)
        assert answer.status_code == 302, answer.text
        assert answer.headers["location"].startswith(CALLBACK)
        return said_to(answer.headers["location"])

    async def connect(self, who: Principal = ANN, account: str = "") -> CredentialInfo:
        begun = await self.oauth.begin(who, self.name, CALLBACK, account)
        said = await self.agree(begun.authorize_url)
        return await self.oauth.finish(who.name, said["state"], said["code"])


async def being_refreshed(at: Connected) -> asyncio.Task[Token]:
    """Somebody asks for a token that is too old, and the service has been asked for a new one."""
    at.clock.now += 3600_000
    asking = asyncio.create_task(at.oauth.token("ann", "google"))
    while len(at.tokens.asked) < 2:
        await asyncio.sleep(0)
    return asking


@asynccontextmanager
async def connected(manner: str = "google", **settings: object) -> AsyncIterator[Connected]:
    tokens = Tokens(manner)
    for name, value in settings.items():
        setattr(tokens, name, value)
    identities = ["Grace Hopper"]

    async def identity(request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not tokens.accepts(token) or not identities:
            return JSONResponse({"error": "no"}, 401)
        return JSONResponse(dict.fromkeys(("login", "emailAddress", "team"), identities[0]))

    paths = ("/user", "/gmail/v1/users/me/profile", "/auth.test")
    app = Starlette(routes=[*tokens.routes(), *(Route(path, identity) for path in paths)])
    with serving(app) as url:
        given = Given(
            client_id="client-1",
            client_secret="secret-1",
            authorize_url=f"{url}/authorize",
            token_url=f"{url}/token",
            revoke_url=f"{url}/revoke",
            api_url=url,
        )
        vault, clock = MemoryVault(), Clock()
        credentials = Credentials(vault, clock, services({manner: given}))
        oauth = OAuth(credentials, HttpProvider(), clock, secrets.token_bytes)
        try:
            async with asyncio.timeout(WITHIN_S):
                yield Connected(manner, tokens, vault, credentials, oauth, clock, identities)
        finally:
            await oauth.close()


@pytest.mark.parametrize("manner", MANNERS)
def test_an_account_is_connected_and_its_token_is_good(manner: str) -> None:
    async def story() -> None:
        async with connected(manner) as at:
            info = await at.connect()
            assert (info.id, info.default, info.state) == (f"{manner}:Grace-Hopper", True, "ok")
            assert set(info.scopes) == set(at.credentials.services[manner].scopes)
            token = await at.oauth.token("ann", manner)
            assert at.tokens.accepts(token.value)
            assert token.account == "Grace-Hopper"
            assert at.tokens.asked[0]["code_verifier"]

    asyncio.run(story())


def test_a_service_that_does_not_say_who_it_is_of_makes_it_the_default_account() -> None:
    async def story() -> None:
        async with connected() as at:
            at.identities.clear()
            assert (await at.connect()).id == "google:default"

    asyncio.run(story())


def test_a_state_is_good_once_for_its_principal_and_not_for_ever() -> None:
    async def story() -> None:
        async with connected() as at:
            begun = await at.oauth.begin(ANN, "google", CALLBACK)
            said = await at.agree(begun.authorize_url)
            for owner, state in (("bob", said["state"]), ("ann", "guessed"), ("ann", "")):
                with pytest.raises(NotFound):
                    await at.oauth.finish(owner, state, said["code"])
            await at.oauth.finish("ann", said["state"], said["code"])
            with pytest.raises(NotFound):
                await at.oauth.finish("ann", said["state"], said["code"])

            late = await at.oauth.begin(ANN, "google", CALLBACK)
            said = await at.agree(late.authorize_url)
            at.clock.now += FLOW_MS
            with pytest.raises(NotFound):
                await at.oauth.finish("ann", said["state"], said["code"])
            assert await at.vault.names("bob") == []

    asyncio.run(story())


@pytest.mark.parametrize("manner", MANNERS)
def test_a_code_of_another_flow_gives_nothing(manner: str) -> None:
    async def story() -> None:
        async with connected(manner) as at:
            theirs = await at.agree((await at.oauth.begin(BOB, manner, CALLBACK)).authorize_url)
            mine = await at.oauth.begin(ANN, manner, CALLBACK)
            with pytest.raises(GrantRefused):
                await at.oauth.finish("ann", mine.state, theirs["code"])
            assert await at.vault.names("ann") == []

    asyncio.run(story())


@pytest.mark.parametrize("manner", MANNERS)
def test_a_token_is_refreshed_ahead_of_its_end_and_the_new_one_is_kept(manner: str) -> None:
    async def story() -> None:
        async with connected(manner) as at:
            await at.connect()
            first = await at.oauth.token("ann", manner)
            at.clock.now += 3600_000 - AHEAD_MS - 1
            assert (await at.oauth.token("ann", manner)).value == first.value
            at.clock.now += 1
            second = await at.oauth.token("ann", manner)
            assert second.value != first.value
            assert at.tokens.accepts(second.value)
            assert (await at.oauth.token("ann", manner)).value == second.value
            at.clock.now += 3600_000
            assert at.tokens.accepts((await at.oauth.token("ann", manner)).value)
            assert at.tokens.refreshes == 2

    asyncio.run(story())


def test_a_service_that_keeps_its_refresh_token_is_asked_with_the_same_one() -> None:
    async def story() -> None:
        async with connected("google", rotates=False) as at:
            await at.connect()
            for _ in range(2):
                at.clock.now += 3600_000
                assert at.tokens.accepts((await at.oauth.token("ann", "google")).value)
            assert at.tokens.refreshes == 2

    asyncio.run(story())


def test_however_many_ask_at_once_one_refresh_is_made() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect()
            at.clock.now += 3600_000
            found = await asyncio.gather(*(at.oauth.token("ann", "google") for _ in range(20)))
            assert len({token.value for token in found}) == 1
            assert at.tokens.refreshes == 1
            assert at.tokens.accepts(found[0].value)

    asyncio.run(story())


def test_a_token_that_the_service_did_not_take_is_replaced_once_for_all_who_had_it() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect()
            old = await at.oauth.token("ann", "google")
            at.tokens.end_access()
            found = await asyncio.gather(
                *(at.oauth.token("ann", "google", refused=old.value) for _ in range(5)),
            )
            late = await at.oauth.token("ann", "google", refused=old.value)
            assert {token.value for token in (*found, late)} == {late.value}
            assert at.tokens.accepts(late.value)
            assert at.tokens.refreshes == 1

    asyncio.run(story())


def test_a_refresh_outlives_who_asked_for_it_because_the_old_token_is_spent_by_then() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect()
            asking = await being_refreshed(at)
            asking.cancel()
            await asyncio.wait((asking,))
            assert at.tokens.accepts((await at.oauth.token("ann", "google")).value)
            assert at.tokens.refreshes == 1

    asyncio.run(story())


@pytest.mark.parametrize("manner", MANNERS)
def test_what_was_revoked_has_to_be_connected_again_and_the_error_says_how(manner: str) -> None:
    async def story() -> None:
        async with connected(manner) as at:
            await at.connect(account="work")
            at.tokens.revoke_all()
            old = await at.oauth.token("ann", manner)
            command = f"pilothouse credentials connect {manner} --account work"
            for _ in range(2):
                with pytest.raises(Reconnect, match=command):
                    await at.oauth.token("ann", manner, refused=old.value)
            assert len(at.tokens.asked) == 2  # the service is not asked again about what is over
            (info,) = await at.credentials.list(ANN)
            assert info.state == "reconnect"
            await at.connect(account="work")
            assert at.tokens.accepts((await at.oauth.token("ann", manner)).value)
            assert (await at.credentials.list(ANN))[0].state == "ok"

    asyncio.run(story())


def test_a_token_that_cannot_be_refreshed_is_used_to_its_end_and_then_said_to_have_ended() -> None:
    async def story() -> None:
        async with connected("github", lasts_s=None) as at:
            await at.connect()
            at.clock.now += 10**12
            token = await at.oauth.token("ann", "github")
            with pytest.raises(Reconnect, match="revoked"):
                await at.oauth.token("ann", "github", refused=token.value)
            # Not for good: it may have been the service's mistake.
            assert (await at.oauth.token("ann", "github")).value == token.value

    asyncio.run(story())


def test_a_service_in_trouble_is_not_taken_for_a_revocation() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect()
            at.clock.now += 3600_000
            at.tokens.trouble = [
                Response("oops", 503),
                JSONResponse({"error": "server_error"}, 400),
                Response("<html>", 200),
                JSONResponse(["no object"]),
            ]
            for _ in range(4):
                with pytest.raises(BackendFailed):
                    await at.oauth.token("ann", "google")
            assert at.tokens.accepts((await at.oauth.token("ann", "google")).value)

    asyncio.run(story())


@pytest.mark.parametrize("manner", MANNERS)
def test_what_this_server_is_set_to_is_not_blamed_on_the_account(manner: str) -> None:
    async def story() -> None:
        async with connected(manner) as at:
            await at.connect()
            at.clock.now += 3600_000
            at.tokens.clients["client-1"] = "another"
            with pytest.raises(BadInput) as wrong:
                await at.oauth.token("ann", manner)
            assert wrong.value.field == f"oauth.{manner}"
            at.tokens.clients["client-1"] = "secret-1"
            assert at.tokens.accepts((await at.oauth.token("ann", manner)).value)

    asyncio.run(story())


def test_a_service_has_several_accounts_and_one_is_meant_when_none_is_named() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect(account="home")
            await at.connect(account="work")
            assert (await at.oauth.token("ann", "google")).account == "home"
            assert (await at.oauth.token("ann", "google", "work")).account == "work"
            await at.credentials.make_default(ANN, "google:work")
            assert (await at.oauth.token("ann", "google")).account == "work"
            with pytest.raises(NotConnected, match="there are home, work"):
                await at.oauth.token("ann", "google", "else")
            await at.oauth.disconnect(ANN, "google:work")
            assert (await at.oauth.token("ann", "google")).account == "home"
            with pytest.raises(NotConnected, match="No Google account is connected; pilothouse credentials connect"):
                await at.oauth.token("bob", "google")

    asyncio.run(story())


def test_what_is_removed_is_revoked_at_the_service_too() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect()
            token = await at.oauth.token("ann", "google")
            await at.oauth.disconnect(ANN, "google:Grace-Hopper")
            assert not at.tokens.accepts(token.value)
            assert await at.vault.names("ann") == []
            with pytest.raises(NotFound):
                await at.oauth.disconnect(ANN, "google:Grace-Hopper")

    asyncio.run(story())


def test_an_account_that_was_removed_while_it_was_refreshed_stays_removed() -> None:
    async def story() -> None:
        async with connected() as at:
            await at.connect()
            asking = await being_refreshed(at)
            await at.credentials.remove(ANN, "google:Grace-Hopper")
            with pytest.raises(NotConnected):
                await asking
            assert await at.vault.names("ann") == []

    asyncio.run(story())


def test_a_server_that_is_not_registered_says_what_to_set_and_what_to_do_instead() -> None:
    async def story() -> None:
        oauth = OAuth(Credentials(MemoryVault(), Clock(), services({})), HttpProvider(), Clock(), secrets.token_bytes)
        with pytest.raises(BadInput, match=r"PILOTHOUSE_OAUTH.*pilothouse credentials add slack"):
            await oauth.begin(ANN, "slack", CALLBACK)
        with pytest.raises(BadInput, match="one of github, google, slack"):
            await oauth.begin(ANN, "nonsense", CALLBACK)

    asyncio.run(story())


def test_flows_that_nobody_ends_do_not_pile_up() -> None:
    async def story() -> None:
        async with connected() as at:
            flows = [await at.oauth.begin(ANN, "google", CALLBACK) for _ in range(50)]
            said = await at.agree(flows[0].authorize_url)
            with pytest.raises(NotFound):
                await at.oauth.finish("ann", said["state"], said["code"])
            said = await at.agree(flows[-1].authorize_url)
            await at.oauth.finish("ann", said["state"], said["code"])

    asyncio.run(story())


@pytest.mark.parametrize("manner", MANNERS)
def test_no_token_is_in_the_log_or_in_what_is_told_of_an_account(manner: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []

    async def story() -> None:
        async with connected(manner) as at:
            told.append(repr(await at.connect()))
            at.clock.now += 3600_000
            token = await at.oauth.token("ann", manner)
            told.append(f"{token!r} {token}")
            _, account = await at.credentials.account("ann", manner)
            told.append(f"{account!r} {account} {at.credentials.services[manner]!r}")
            told.append(repr(await at.credentials.list(ANN)))
            at.tokens.revoke_all()
            try:
                await at.oauth.token("ann", manner, refused=token.value)
            except Reconnect as error:
                told.append(str(error))
            await at.oauth.disconnect(ANN, f"{manner}:Grace-Hopper")
            logged = "".join(record.getMessage() for record in caplog.records)
            for secret in at.tokens.secrets():
                assert secret not in "".join(told)
                # The test's own browser is told codes, and its library logs what it is told.
                assert secret in at.tokens.codes or secret not in logged

    asyncio.run(story())
    assert len(told) == 5
