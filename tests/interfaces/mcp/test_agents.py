"""An agent that answers a turn, at the route of MCP: the tools of its turn, for as long as that waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.interfaces.http.doors import Sent, Served, events, run, served
from tests.interfaces.http.test_guard_agents import Answers
from tests.interfaces.http.test_plans import refusal
from tests.interfaces.mcp.test_door import STATELESS, ask, call, request, said
from tests.support.services import SECRET, happened
from tests.support.tools import TestTool

from pilothouse.core.auth.agent_tokens import make_token
from pilothouse.core.auth.principals import THE_LOCAL_USER, Answering
from pilothouse.core.tools.spec import Touches
from pilothouse.engine.chats.values import Send


@dataclass
class Turn:
    """A turn whose agent is at work. ``agent`` is that agent as a client, at the Unix socket."""

    at: Served
    id: str
    agent: httpx.AsyncClient
    touch: TestTool


@asynccontextmanager
async def answering(folder: Path) -> AsyncIterator[Turn]:
    world, touch = Answers(), TestTool("touch", touches=Touches.WORLD)
    world.tools.add(TestTool("look"))
    world.tools.add(touch)
    async with served(folder, world) as at:
        sent = await at.services.chats.send(Send(message="Hi"), THE_LOCAL_USER)
        await happened(at.services, sent.turn_id, "TEXT_DELTA")
        token = make_token(SECRET, Answering(sent.turn_id, 1))
        transport = httpx.AsyncHTTPTransport(uds=str(at.socket))
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as agent:
            yield Turn(at, sent.turn_id, agent, touch)
        await at.services.chats.abort(sent.turn_id, THE_LOCAL_USER)


async def name_of_call(at: Served, turn_id: str) -> str:
    result = await at.services.chats.result(turn_id, THE_LOCAL_USER)
    return result.tool_calls[-1].id


def test_its_calls_are_its_turns(tmp_path: Path) -> None:
    async def journey() -> None:
        async with answering(tmp_path) as turn:
            tools = (await ask(turn.agent, "tools/list"))["result"]["tools"]
            assert [tool["name"] for tool in tools] == ["look", "touch"]
            result = (await call(turn.agent, "look"))["result"]
            assert (result["isError"], result["structuredContent"]) == (False, {"done": "look"})
            told = await turn.at.services.chats.result(turn.id, THE_LOCAL_USER)
            assert [(each.name, each.status) for each in told.tool_calls] == [("look", "success")]

    run(journey())


def test_it_is_told_what_it_waits_for_and_what_a_person_decided(tmp_path: Path) -> None:
    async def journey() -> None:
        async with answering(tmp_path) as turn:
            body, headers = request("tools/call", STATELESS, name="touch", _meta={"progressToken": 1})
            async with turn.agent.stream("POST", "/mcp", json=body, headers=headers) as response:
                stream, waits = events(response), []
                async for sent in stream:
                    assert isinstance(sent, Sent)
                    waits.append(json.loads(sent.data)["params"]["message"])
                    if "a person is asked" in waits[-1]:
                        break
                assert not turn.touch.calls
                await turn.at.services.chats.confirm(
                    THE_LOCAL_USER, await name_of_call(turn.at, turn.id), "accepted", turn_id=turn.id
                )
                (*_, answer) = [json.loads(sent.data) async for sent in stream if isinstance(sent, Sent)]
                assert answer["result"]["structuredContent"] == {"done": "touch"}
            assert len(turn.touch.calls) == 1

    run(journey())


def test_the_same_call_asked_for_twice_is_one(tmp_path: Path) -> None:
    async def journey() -> None:
        async with answering(tmp_path) as turn:
            body, headers = request("tools/call", STATELESS, name="touch")
            headers["pilothouse-call-id"] = "c1"
            first = asyncio.create_task(turn.agent.post("/mcp", json=body, headers=headers))
            await happened(turn.at.services, turn.id, "NEEDS_APPROVAL")
            first.cancel()  # its agent hangs up
            await asyncio.wait((first,))
            await turn.at.services.chats.confirm(
                THE_LOCAL_USER, await name_of_call(turn.at, turn.id), "accepted", turn_id=turn.id
            )
            headers["pilothouse-call-again"] = "1"
            async with turn.agent.stream("POST", "/mcp", json=body, headers=headers) as response:
                assert (await said(response))[-1]["result"]["structuredContent"] == {"done": "touch"}
            assert len(turn.touch.calls) == 1

    run(journey())


def test_once_its_turn_is_over_it_is_nobody(tmp_path: Path) -> None:
    async def journey() -> None:
        async with answering(tmp_path) as turn:
            await turn.at.services.chats.abort(turn.id, THE_LOCAL_USER)
            await turn.at.services.chats.wait(turn.id, THE_LOCAL_USER, 10.0)
            body, headers = request("tools/list", STATELESS)
            refusal(await turn.agent.post("/mcp", json=body, headers=headers), 401, "invalid_key")

    run(journey())
