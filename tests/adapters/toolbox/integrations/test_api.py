"""What is the same for all services: tokens, limits, services in trouble, and whose account it is."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.support.outside.accounts import accounts
from tests.support.outside.github import GitHub, Repo
from tests.support.outside.google import Google
from tests.support.outside.serving import serving
from tests.support.outside.slack import Slack

from pilothouse.adapters.toolbox.integrations.api import LARGEST, LONGEST_WAIT_S, Web
from pilothouse.adapters.toolbox.integrations.every import integration_tools
from pilothouse.core.credentials.accounts import Token
from pilothouse.core.tools.spec import Touches

SERVICES = {"slack": Slack, "github": GitHub, "google": Google}
LOOK = {"slack": "slack_list_channels", "github": "github_list_repos", "google": "gmail_search"}


class NoTokens:
    async def token(self, owner: str, service: str, account: str = "", *, refused: str = "") -> Token:
        raise AssertionError


def test_tools_that_others_notice_are_asked_about_and_all_name_their_service() -> None:
    tools = integration_tools(NoTokens(), Web())
    acting = {tool.spec.name for tool in tools if tool.spec.touches is Touches.WORLD}
    assert acting == {"slack_send", "github_create_issue", "github_comment", "github_create_pr", "gmail_send"}
    assert {tool.spec.touches for tool in tools} == {Touches.NOTHING, Touches.WORLD}
    assert {tool.spec.service for tool in tools} == set(SERVICES)
    for tool in tools:
        assert "account" in tool.spec.parameters["properties"], tool.spec.name
        assert tool.spec.repeatable == (tool.spec.touches is Touches.NOTHING)


@pytest.mark.parametrize("name", SERVICES)
def test_without_an_account_the_error_says_how_to_connect_one(name: str) -> None:
    async def story() -> None:
        async with accounts(name, SERVICES[name](), connect=False) as at:
            title = at.credentials.services[name].title
            said = await at.refused(LOOK[name])
            assert said == f"No {title} account is connected; pilothouse credentials connect {name}"

    asyncio.run(story())


@pytest.mark.parametrize("name", SERVICES)
def test_a_token_that_ended_early_is_replaced_and_the_call_goes_through(name: str) -> None:
    async def story() -> None:
        service = SERVICES[name]()
        async with accounts(name, service) as at:
            await at.done(LOOK[name])
            service.tokens.end_access()
            await at.done(LOOK[name])
            assert service.tokens.refreshes == 1

    asyncio.run(story())


@pytest.mark.parametrize("name", SERVICES)
def test_an_account_that_was_revoked_has_to_be_connected_again_and_no_token_is_told(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def story() -> None:
        service = SERVICES[name]()
        async with accounts(name, service) as at:
            service.tokens.revoke_all()
            said = await at.refused(LOOK[name])
            assert f"pilothouse credentials connect {name}" in said
            logged = "".join(record.getMessage() for record in caplog.records)
            for token in (*service.tokens.access, *service.tokens.refresh, *service.tokens.spent):
                assert token not in said
                assert token not in logged

    asyncio.run(story())


@pytest.mark.parametrize("name", SERVICES)
def test_a_token_that_the_service_never_takes_ends_in_words_and_not_in_a_loop(name: str) -> None:
    async def story() -> None:
        service = SERVICES[name]()
        no = {"ok": False, "error": "invalid_auth"} if name == "slack" else {"message": "Bad credentials"}
        async with accounts(name, service) as at:
            service.asked.clear()
            service.trouble = [JSONResponse(no, 200 if name == "slack" else 401) for _ in range(10)]
            assert await at.refused(LOOK[name])
            assert len(service.asked) == 2

    asyncio.run(story())


@pytest.mark.parametrize("name", SERVICES)
def test_a_short_wait_that_a_service_asks_for_is_kept_and_a_long_one_is_said(name: str) -> None:
    def busy(seconds: float) -> Response:
        body = {"ok": False, "error": "ratelimited"} if name == "slack" else {"message": "API rate limit exceeded"}
        return JSONResponse(body, 429, {"retry-after": f"{seconds:.0f}"})

    async def story() -> None:
        service = SERVICES[name]()
        async with accounts(name, service) as at:
            service.trouble = [busy(0)]
            await at.done(LOOK[name])
            service.trouble = [busy(LONGEST_WAIT_S + 60)]
            assert "try again in 75 s" in await at.refused(LOOK[name])
            service.trouble = [busy(0) for _ in range(10)]
            assert "takes no more requests" in await at.refused(LOOK[name])

    asyncio.run(story())


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_in_trouble_is_told_in_words(name: str) -> None:
    async def story() -> None:
        service = SERVICES[name]()
        async with accounts(name, service) as at:
            service.trouble = [Response("<html>oops</html>", 502, media_type="text/html")]
            assert "502" in await at.refused(LOOK[name])
            service.trouble = [Response("{", 200, media_type="application/json")]
            await at.call(LOOK[name])  # neither JSON nor a crash
            service.trouble = [JSONResponse(["unexpected"], 200)]
            assert "internal error" not in (await at.call(LOOK[name])).error
            service.trouble = [Response(b" " * (LARGEST + 1))]
            assert "MiB" in await at.refused(LOOK[name])

    asyncio.run(story())


def test_what_may_have_been_done_is_not_said_to_have_failed() -> None:
    class Breaks(httpx.AsyncBaseTransport):
        def __init__(self, error: type[httpx.TransportError]) -> None:
            self.error = error

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise self.error("broke")

    async def said(error: type[httpx.TransportError], tool: str, **arguments: object) -> str:
        class Known:
            async def token(self, owner: str, service: str, account: str = "", *, refused: str = "") -> Token:
                return Token(value="t", account="a", api_url="http://127.0.0.1:1")

        web = Web()
        web._made = httpx.AsyncClient(transport=Breaks(error))
        found = {one.spec.name: one for one in integration_tools(Known(), web)}
        from pilothouse.core.tools.spec import ToolContext
        from pilothouse.errors import BackendFailed

        with pytest.raises(BackendFailed) as failed:
            await found[tool].run(arguments, ToolContext(owner="ann"))
        await web.close()
        return str(failed.value)

    async def story() -> None:
        issue = {"repo": "a/b", "title": "t"}
        assert "look before" in await said(httpx.ReadTimeout, "github_create_issue", **issue)
        assert "look before" in await said(httpx.RemoteProtocolError, "github_create_issue", **issue)
        assert "look before" not in await said(httpx.ConnectError, "github_create_issue", **issue)
        assert "look before" not in await said(httpx.ReadTimeout, "github_list_repos")

    asyncio.run(story())


def test_a_service_that_sends_elsewhere_does_not_send_the_token_along() -> None:
    seen: list[str] = []

    async def elsewhere(request: Request) -> Response:
        seen.append(request.headers.get("authorization", ""))
        return JSONResponse([])

    async def story() -> None:
        service = GitHub(repos={"a/b": Repo()})
        routes = [Route("/{path:path}", elsewhere, methods=["GET", "POST"])]
        with serving(Starlette(routes=routes)) as other:
            async with accounts("github", service) as at:
                service.trouble = [RedirectResponse(f"{other}/user/repos", 302)]
                assert (await at.done("github_list_repos"))["repos"] == []
                assert seen == [""]
                service.trouble = [RedirectResponse(f"{other}/issues", 307)]
                assert "307" in await at.refused("github_create_issue", repo="a/b", title="t")
                assert seen == [""]

    asyncio.run(story())


def test_the_account_that_is_named_is_used_and_one_that_is_not_there_is_said() -> None:
    async def story() -> None:
        service = GitHub(repos={"a/b": Repo()})
        async with accounts("github", service) as at:
            await at.connect("work")
            await at.done("github_list_repos", account="work")
            assert "there are grace, work" in await at.refused("github_list_repos", account="else")

    asyncio.run(story())


def test_a_key_that_a_person_made_at_the_service_will_do() -> None:
    async def story() -> None:
        from tests.support.outside.accounts import ANN
        from tests.support.outside.tokens import Granted

        service = GitHub(repos={"a/b": Repo()})
        async with accounts("github", service, connect=False) as at:
            service.tokens.access["ghp_made"] = Granted("by hand", "repo")
            await at.credentials.add_key(ANN, "github", "ghp_made\n")
            assert [one["repo"] for one in (await at.done("github_list_repos"))["repos"]] == ["a/b"]
            service.tokens.revoke_all()
            assert "pilothouse credentials add github --account default" in await at.refused("github_list_repos")

    asyncio.run(story())


@pytest.mark.parametrize("name", SERVICES)
def test_arguments_that_do_not_fit_are_refused_by_name(name: str) -> None:
    async def story() -> None:
        async with accounts(name, SERVICES[name]()) as at:
            assert (await at.refused(LOOK[name], limit=0)).startswith("limit")
            assert (await at.refused(LOOK[name], nonsense=1)).startswith("nonsense")

    asyncio.run(story())
