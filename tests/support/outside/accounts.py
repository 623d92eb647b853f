"""Somebody whose accounts are connected to services on the loopback, and the tools that use them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from starlette.applications import Starlette
from starlette.routing import Route
from tests.support.outside.serving import serving
from tests.support.outside.tokens import Tokens, said_to

from pilothouse.adapters.system.clock import SystemClock
from pilothouse.adapters.toolbox.integrations.api import Web
from pilothouse.adapters.toolbox.integrations.every import integration_tools
from pilothouse.adapters.vault.memory import MemoryVault
from pilothouse.adapters.vault.provider import HttpProvider
from pilothouse.core.auth.principals import Kind, Principal, Scope
from pilothouse.core.credentials.services import Given, services
from pilothouse.core.tools.spec import ToolAnswer, ToolContext
from pilothouse.engine.access.credentials import Credentials
from pilothouse.engine.access.oauth import OAuth
from pilothouse.engine.tools.registry import ToolRegistry

WITHIN_S = 30
ANN = Principal("ann", Kind.KEY, frozenset({Scope.RUN}))
CALLBACK = "http://127.0.0.1:1/callback"


class Service(Protocol):
    """One on the loopback."""

    tokens: Tokens

    def routes(self) -> list[Route]: ...


def given_for(url: str) -> Given:
    """The settings of a service at ``url``."""
    return Given(
        client_id="client-1",
        client_secret="secret-1",
        authorize_url=f"{url}/authorize",
        token_url=f"{url}/token",
        revoke_url=f"{url}/revoke",
        api_url=url,
    )


@dataclass
class Accounts:
    service: str
    credentials: Credentials
    oauth: OAuth
    tools: ToolRegistry

    async def connect(self, account: str = "") -> None:
        """A person agrees."""
        begun = await self.oauth.begin(ANN, self.service, CALLBACK, account)
        async with httpx.AsyncClient() as browser:
            answer = await browser.get(begun.authorize_url)
        said = said_to(answer.headers["location"])
        await self.oauth.finish(ANN.name, said["state"], said["code"])

    async def call(self, tool: str, **arguments: Any) -> ToolAnswer:
        """As a turn of Ann's calls it."""
        return await self.tools.run(tool, arguments, ToolContext(owner=ANN.name))

    async def done(self, tool: str, **arguments: Any) -> Any:
        """What it answers when it does not fail."""
        answer = await self.call(tool, **arguments)
        assert answer.ok, answer.error
        return answer.result

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Why it fails."""
        answer = await self.call(tool, **arguments)
        assert not answer.ok, answer.result
        return answer.error


@asynccontextmanager
async def accounts(name: str, service: Service, *, connect: bool = True) -> AsyncIterator[Accounts]:
    """``service`` under ``name``, with Ann's account connected."""
    with serving(Starlette(routes=service.routes())) as url:
        credentials = Credentials(MemoryVault(), SystemClock(), services({name: given_for(url)}))
        oauth, web = OAuth(credentials, HttpProvider(), SystemClock(), secrets.token_bytes), Web()
        tools = ToolRegistry(integration_tools(oauth, web), secrets=credentials)
        try:
            async with asyncio.timeout(WITHIN_S):
                found = Accounts(name, credentials, oauth, tools)
                if connect:
                    await found.connect()
                yield found
        finally:
            await oauth.close()
            await web.close()
