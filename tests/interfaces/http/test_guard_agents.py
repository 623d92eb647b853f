"""Agents that answer turns, at both doors: their tools, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.interfaces.http.doors import Inside, client_of, from_user, inside, run
from tests.interfaces.http.test_plans import refusal
from tests.support.services import SECRET, World, happened

from pilothouse.adapters.agents.lines import encode
from pilothouse.adapters.work.memory import MemoryProgram, MemoryWarden
from pilothouse.core.auth.agent_tokens import make_token
from pilothouse.core.auth.principals import THE_LOCAL_USER, Answering, Kind
from pilothouse.core.run.agents import Text
from pilothouse.core.run.commands import Command
from pilothouse.engine.chats.values import Send
from pilothouse.interfaces.http.access import ROUTES
from pilothouse.interfaces.http.guard import AGENTS_PATH, principal_of


class Answers(World):
    """A machine where an agent answers, for as long as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = "scripted"
        self.warden = MemoryWarden(self.clock, self._says, self.logs)

    def _says(self, _: Command, __: str) -> MemoryProgram:
        return MemoryProgram(output=((0.0, encode(Text(text="Hm."))),), duration_s=1e6)


@dataclass
class Asked:
    at: Inside
    turn_id: str
    token: str

    def clients(self) -> list[httpx.AsyncClient]:
        """At either door, with either header, as an agent's."""
        self.at.guard.listening("127.0.0.1", 80)
        unix = from_user(self.at.guard.unix(self.at.app), os.getuid())
        tcp = self.at.guard.tcp(self.at.app)
        made = []
        for app, base in ((unix, "http://localhost"), (tcp, "http://127.0.0.1")):
            for header in ({"x-api-key": self.token}, {"authorization": f"Bearer {self.token}"}):
                client = client_of(app, base)
                client.headers.update(header)
                made.append(client)
        return made


@asynccontextmanager
async def asked() -> AsyncIterator[Asked]:
    """A turn that its agent is answering."""
    async with inside(Answers()) as at:
        sent = await at.services.chats.send(Send(message="Hi"), THE_LOCAL_USER)
        await happened(at.services, sent.turn_id, "TEXT_DELTA")
        yield Asked(at, sent.turn_id, make_token(SECRET, Answering(sent.turn_id, 1)))
        await at.services.chats.abort(sent.turn_id, THE_LOCAL_USER)


def test_both_doors_know_it_and_who_it_works_for() -> None:
    async def journey() -> None:
        async with asked() as found:

            async def who(request: Request) -> Response:
                principal, stands = principal_of(request), request.state.stands()
                told = {"kind": principal.kind, "name": principal.name, "scopes": len(principal.scopes), "up": stands}
                return JSONResponse(told)

            # What answers there is not this test's.
            found.at.app.router.routes.insert(0, Route(AGENTS_PATH, who, methods=["POST"]))
            for client in found.clients():
                async with client:
                    answered = await client.post(AGENTS_PATH)
                    assert answered.json() == {"kind": Kind.AGENT, "name": "local", "scopes": 0, "up": True}

    run(journey())


def test_it_reaches_no_other_route() -> None:
    async def journey() -> None:
        async with asked() as found:
            document = (await found.at.client.get("/openapi.json")).json()
            there = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
            for client in found.clients():
                async with client:
                    for route in sorted(there | {*ROUTES}):
                        method, path = route.split(" ")
                        if path != AGENTS_PATH:
                            refusal(await client.request(method, path, json={}), 403, "denied")

    run(journey())


def test_nor_pages_and_what_does_not_exist() -> None:
    async def journey() -> None:
        async with asked() as found:
            for client in found.clients():
                async with client:
                    for path in ("/docs", "/openapi.json", "/nope", "/", "/mcp/", "/mcp/x", "//mcp", "/MCP"):
                        refusal(await client.get(path), 403, "denied")

    run(journey())


def test_once_its_turn_has_ended_it_is_nobody() -> None:
    async def journey() -> None:
        async with asked() as found:
            await found.at.services.chats.abort(found.turn_id, THE_LOCAL_USER)
            for client in found.clients():
                async with client:
                    refused = await client.post(AGENTS_PATH, json={})
                    refusal(refused, 401, "invalid_key")
                    assert found.token not in refused.text

    run(journey())


@pytest.mark.parametrize("what", ["secret", "call", "turn", "form"])
def test_a_wrong_one_is_refused_at_both_doors(what: str) -> None:
    async def journey() -> None:
        async with asked() as found:
            secret = bytes(32) if what == "secret" else SECRET
            turn_id = "01890a5d-ac96-774b-bcce-b302099a8057" if what == "turn" else found.turn_id
            found.token = make_token(secret, Answering(turn_id, 2 if what == "call" else 1))
            found.token += "0" if what == "form" else ""
            for client in found.clients():
                async with client:
                    refusal(await client.post(AGENTS_PATH, json={}), 401, "invalid_key")

    run(journey())


def test_it_is_nowhere_in_the_log_or_in_what_is_printed() -> None:
    async def journey() -> None:
        async with asked() as found:
            events = await found.at.services.queries.events(found.turn_id)
            assert found.token.encode() not in b"".join(map(found.at.services.supervisor.hub.wire, events))
            for response in await asyncio.gather(
                found.at.client.get(f"/api/runs/{found.turn_id}"),
                found.at.client.get(f"/api/runs/{found.turn_id}/events?after=0&tail=false"),
            ):
                assert found.token not in response.text

    run(journey())
