"""Credentials over HTTP: in and never out, and accounts that are connected by a browser of the right person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from tests.interfaces.http.doors import Served, inside, run, served
from tests.interfaces.http.keyed import keyed
from tests.interfaces.http.test_plans import refusal
from tests.support.outside.accounts import given_for
from tests.support.outside.serving import serving
from tests.support.outside.slack import Slack
from tests.support.services import World

from pilothouse.core.auth.principals import Scope


@dataclass
class Beside:
    """A server, and a Slack beside it."""

    at: Served
    slack: Slack = field(default_factory=Slack)

    async def logged_in(self) -> httpx.AsyncClient:
        browser = self.at.browser()
        assert (await browser.post("/api/login", json={"token": self.at.guard.new_token()})).status_code == 204
        return browser

    async def agreed(self, browser: httpx.AsyncClient, url: str) -> httpx.Response:
        """What a browser is shown that follows an authorize URL back. A page of another site sent it."""
        sent = await browser.get(url)
        assert sent.status_code == 302, sent.text
        back = httpx.URL(sent.headers["location"])
        assert back.host == "127.0.0.1" and back.port == self.at.port
        # Strict cookies stay at home when another site sends a browser here.
        lax = {name: value for name, value in browser.cookies.items() if name.startswith("pilothouse-oauth-")}
        async with httpx.AsyncClient(cookies=lax) as returning:
            return await returning.get(back, headers={"sec-fetch-site": "cross-site"})


@asynccontextmanager
async def beside(folder: Path) -> AsyncIterator[Beside]:
    slack = Slack()
    with serving(Starlette(routes=slack.routes())) as url:
        world = World()
        world.outside = {"slack": given_for(url)}
        async with served(folder, world) as at:
            yield Beside(at, slack)


def test_a_value_goes_in_and_never_comes_out() -> None:
    async def journey() -> None:
        async with inside() as at:
            made = await at.client.post("/api/credentials", json={"name": "API_KEY", "value": "planted-secret"})
            assert (made.status_code, made.json()["id"], made.json()["kind"]) == (201, "env:API_KEY", "value")
            key = {"service": "github", "account": "work", "value": "planted-secret-2"}
            made_key = await at.client.post("/api/credentials", json=key)
            assert made_key.json()["id"] == "github:work"
            listed = await at.client.get("/api/credentials")
            assert [one["id"] for one in listed.json()["credentials"]] == ["env:API_KEY", "github:work"]
            services = {one["name"]: one["registered"] for one in listed.json()["services"]}
            assert services == {"github": False, "google": False, "slack": False}
            for answer in (made, made_key, listed):
                assert "planted" not in answer.text
            assert await at.services.credentials.values("local") == {"API_KEY": "planted-secret"}
            for id in ("env:API_KEY", "github:work"):
                assert (await at.client.delete(f"/api/credentials/{id}")).status_code == 204
            assert (await at.client.get("/api/credentials")).json()["credentials"] == []
            refusal(await at.client.delete("/api/credentials/env:API_KEY"), 404, "not_found")

    run(journey())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "API KEY", "value": "planted"}, "name"),
        ({"name": "API_KEY", "value": ""}, "value"),
        ({"name": "API_KEY", "value": 7}, "value"),
        ({"name": "API_KEY"}, "value"),
        ({"value": "planted"}, None),
        ({"name": "A", "service": "github", "value": "planted"}, None),
        ({"name": "A", "account": "x", "value": "planted"}, None),
        ({"service": "nonsense", "value": "planted"}, "service"),
        ({"service": "github", "account": "a b", "value": "planted"}, "account"),
        ({"service": "github", "value": "plan\nted"}, "value"),
        ({"name": "A", "value": "planted\u0000"}, "value"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(body: dict[str, Any], field: str | None) -> None:
    async def journey() -> None:
        async with inside() as at:
            answer = await at.client.post("/api/credentials", json=body)
            assert answer.status_code == 422, answer.text
            assert answer.json().get("field") == field
            assert "planted" not in answer.text

    run(journey())


def test_nobody_sees_anothers_credentials_not_even_an_admin() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "ann", Scope.RUN) as ann, await keyed(at, "ops", Scope.ADMIN) as ops:
            await ann.post("/api/credentials", json={"name": "API_KEY", "value": "hers"})
            assert (await ops.get("/api/credentials")).json()["credentials"] == []
            refusal(await ops.delete("/api/credentials/env:API_KEY"), 404, "not_found")
            assert await at.services.credentials.values("ann") == {"API_KEY": "hers"}

    run(journey())


def test_an_account_is_connected_in_a_browser_that_began_at_this_server(tmp_path: Path) -> None:
    async def journey() -> None:
        async with beside(tmp_path) as here:
            browser = await here.logged_in()
            begun = (await browser.post("/api/credentials/connect", json={"service": "slack"})).json()
            assert begun["redirectUri"] == f"http://127.0.0.1:{here.at.port}/api/oauth/slack/callback"
            page = await here.agreed(browser, begun["authorizeUrl"])
            assert page.status_code == 200
            assert "slack:Acme-Inc is connected" in page.text
            assert page.headers["cache-control"] == "no-store"
            listed = await browser.get("/api/credentials")
            assert [one["id"] for one in listed.json()["credentials"]] == ["slack:Acme-Inc"]
            for secret in here.slack.tokens.secrets():
                assert secret not in listed.text + page.text + str(page.headers)
            await browser.aclose()

    run(journey())


def test_a_link_of_somebody_elses_connection_connects_nothing(tmp_path: Path) -> None:
    """Who can make a person open a link must not get that person's account."""

    async def journey() -> None:
        async with beside(tmp_path) as here, await keyed(here.at, "eve", Scope.RUN) as eve:
            eve.headers["host"] = f"127.0.0.1:{here.at.port}"
            here.at.guard.listening("127.0.0.1", here.at.port)
            begun = (await eve.post("/api/credentials/connect", json={"service": "slack"})).json()
            victim = await here.logged_in()
            page = await here.agreed(victim, begun["authorizeUrl"])
            assert page.status_code == 404
            assert await here.at.services.credentials.list(here_of("eve")) == []
            await victim.aclose()

    run(journey())


def here_of(name: str) -> Any:
    from pilothouse.core.auth.principals import Kind, Principal

    return Principal(name, Kind.KEY, frozenset({Scope.RUN}))


def test_a_person_who_does_not_agree_is_told_so_and_nothing_is_kept(tmp_path: Path) -> None:
    async def journey() -> None:
        async with beside(tmp_path) as here:
            here.slack.tokens.agrees = False
            browser = await here.logged_in()
            begun = (await browser.post("/api/credentials/connect", json={"service": "slack"})).json()
            page = await here.agreed(browser, begun["authorizeUrl"])
            assert (page.status_code, "access_denied" in page.text) == (409, True)
            assert (await browser.get("/api/credentials")).json()["credentials"] == []
            await browser.aclose()

    run(journey())


def test_the_page_shows_what_it_was_given_as_text(tmp_path: Path) -> None:
    async def journey() -> None:
        async with beside(tmp_path) as here:
            browser = await here.logged_in()
            begun = (await browser.post("/api/credentials/connect", json={"service": "slack"})).json()
            page = await browser.get(
                "/api/oauth/slack/callback", params={"state": begun["state"], "error": "<script>alert(1)</script>"}
            )
            assert "<script>" not in page.text
            assert "default-src 'none'" in page.headers["content-security-policy"]
            await browser.aclose()

    run(journey())


def test_whoever_listens_on_their_own_machine_brings_the_answer_themselves(tmp_path: Path) -> None:
    async def journey() -> None:
        async with beside(tmp_path) as here:
            client, redirect = here.at.client, "http://127.0.0.1:1/callback"
            body = {"service": "slack", "account": "work", "redirectUri": redirect}
            begun = (await client.post("/api/credentials/connect", json=body)).json()
            async with httpx.AsyncClient() as browser:
                sent = await browser.get(begun["authorizeUrl"])
            code = httpx.URL(sent.headers["location"]).params["code"]
            made = await client.post("/api/credentials/connected", json={"state": begun["state"], "code": code})
            assert (made.status_code, made.json()["id"], made.json()["state"]) == (201, "slack:work", "ok")
            again = await client.post("/api/credentials/connected", json={"state": begun["state"], "code": code})
            refusal(again, 404, "not_found")
            assert (await client.post("/api/credentials/slack:work/default")).json()["default"] is True
            assert (await client.delete("/api/credentials/slack:work")).status_code == 204
            assert here.slack.tokens.revoked

    run(journey())


@pytest.mark.parametrize(
    "redirect",
    [
        "https://evil.example/callback",
        "http://127.0.0.1.evil.example:1/callback",
        "http://127.0.0.1/callback",
        "https://127.0.0.1:1/callback",
        "http://[::1",
        "javascript:alert(1)",
        "x",
    ],
)
def test_answers_are_sent_to_the_loopback_interface_only(redirect: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            body = {"service": "slack", "redirectUri": redirect}
            answer = await at.client.post("/api/credentials/connect", json=body)
            assert (answer.status_code, answer.json()["field"]) == (422, "redirectUri")

    run(journey())


def test_at_the_unix_socket_a_browser_cannot_come_back_by_itself() -> None:
    async def journey() -> None:
        async with inside() as at:
            answer = await at.client.post("/api/credentials/connect", json={"service": "slack"})
            assert (answer.status_code, answer.json()["field"]) == (422, "redirectUri")

    run(journey())
