"""Every route there is, tried by those who may not: what belongs to others is not there, and scopes are asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interfaces.http.doors import SSE, Inside, Sent, events, inside, run, served
from tests.interfaces.http.keyed import key_of, keyed
from tests.interfaces.http.talking import calls, talking
from tests.interfaces.http.test_plans import refusal
from tests.support.services import PATIENCE_S, REPO, ended, happened, plan, submit

from pilothouse.core.auth.policy import POLICY
from pilothouse.core.auth.principals import LOCAL, MEANINGS, THE_LOCAL_USER, Scope
from pilothouse.core.credentials.services import Given
from pilothouse.core.plan.spec_parse import plan_from_data
from pilothouse.core.workflow.document import Workflow
from pilothouse.engine.chats.values import Send
from pilothouse.engine.plans.plans import Origin
from pilothouse.interfaces.http.access import ROUTES
from pilothouse.interfaces.http.guard import OPEN_PATHS

PAGE = (Path(__file__).parents[3] / "docs/http-api.md").read_text(encoding="utf-8")

# These name nothing that could be another's: they answer a foreign key as if it were alone on the server.
ALONE = {
    "GET /api/plans",
    "POST /api/plans",
    "GET /api/runs",
    "POST /api/stop-everything",
    "GET /api/approvals",
    "GET /api/repos",
    "POST /api/repos",
    "GET /api/workflows",
    "POST /api/workflows",
    "GET /api/keys",
    "GET /api/credentials",
    "POST /api/credentials",
    "POST /api/credentials/connect",
    "POST /api/agui",
    "GET /api/copilot/chats",
    "GET /api/copilot/models",
    "GET /api/copilot/auto-allowed-tools",
    "POST /api/copilot/auto-allowed-tools",
    "DELETE /api/copilot/auto-allowed-tools",
    "GET /api/tools",
    "GET /api/tools/calls",
    "GET /api/commands",
    "GET /api/agents",
    "GET /api/models",
    "GET /api/owner",
    "GET /metrics",
    "POST /api/logout",
    "POST /mcp",
}
ENDLESS = "GET /api/events"
BODIES: dict[str, Any] = {
    "POST /api/plans": {"plan": plan("write a")},
    "POST /api/plans/{plan_id}/groups/cancel": {"group": "g"},
    "POST /api/approvals/{wait_id}": {"answer": "fail"},
    "POST /api/repos": {"path": REPO},
    "POST /api/keys": {"name": "n"},
    "POST /api/workflows": {"workflow": {"name": "n"}},
    "PUT /api/workflows/{workflow_id}": {"version": 1, "workflow": {"name": "n"}},
    "POST /api/workflows/{workflow_id}/edit": {"version": 1, "operations": [{"op": "rename", "to": "n"}]},
    "POST /api/workflows/{workflow_id}/revert": {"version": 1, "to": 1},
}
BODIES |= {
    "POST /api/credentials": {"name": "BOBS", "value": "his own"},
    "POST /api/credentials/connect": {"service": "slack"},
    "POST /api/credentials/connected": {"state": "{state}", "code": "c"},
    "POST /api/v1/copilot/chat": {"message": "m", "chatId": "{chat_id}"},
    "POST /api/copilot/chat": {"message": "m", "chatId": "{chat_id}"},
    "POST /api/agui": {"threadId": "bobs", "runId": "r"},
    "POST /api/copilot/chat/abort": {"streamId": "{turn_id}"},
    "POST /api/copilot/chat/stop": {"chatId": "{chat_id}"},
    "POST /api/copilot/chat/steer": {"streamId": "{turn_id}", "content": "c"},
    "POST /api/copilot/chat/rename": {"chatId": "{chat_id}", "title": "t"},
    "PATCH /api/copilot/chats/{chat_id}": {"title": "t"},
    "POST /api/copilot/chats/{chat_id}/fork": {"turnId": "{turn_id}"},
    "POST /api/copilot/chats/{chat_id}/revert": {"checkpoint": "{workflow_id}@1"},
    "POST /api/copilot/feedback": {"turnId": "{turn_id}", "rating": "up"},
    "POST /api/copilot/confirm": {"toolCallId": "{call_id}", "status": "success"},
    "POST /api/copilot/auto-allowed-tools": {"tool": "look"},
    "POST /api/copilot/execute-tool": {"toolName": "look", "chatId": "{chat_id}"},
    "POST /api/copilot/execute-copilot-server-tool": {"toolName": "look", "chatId": "{chat_id}"},
    "POST /api/copilot/tools/mark-complete": {"id": "{call_id}", "name": "touch", "status": 200},
    "POST /mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
}
PATHS = ("plan_id", "run_id", "node", "verb", "wait_id", "key_id", "workflow_id", "chat_id", "credential_id")
NAMES = (*PATHS, "turn_id", "call_id", "state")
IDS = ("run_id", "wait_id", "key_id", "workflow_id", "chat_id", "turn_id", "credential_id", "state")
QUERIES = {
    "DELETE /api/repos": {"path": REPO},
    "GET /api/copilot/chat": {"chatId": "{chat_id}"},
    "GET /api/copilot/chat/stream": {"streamId": "{turn_id}"},
}


@dataclass
class Owned:
    """Something of everything there can be, all of it the local user's."""

    at: Inside
    names: dict[str, str]

    async def ask(self, client: httpx.AsyncClient, route: str) -> httpx.Response:
        method, path = route.split(" ")
        given = self._named(BODIES.get(route, {})) if method in {"POST", "PUT", "PATCH"} else None
        query = self._named(QUERIES.get(route, {}))
        return await client.request(method, path.format(**self.names), json=given, params=query)

    def _named(self, given: dict[str, Any]) -> dict[str, Any]:
        """With the names of what there is in the places of texts that ask for them."""
        return {
            key: value.format(**self.names) if isinstance(value, str) and value.startswith("{") else value
            for key, value in given.items()
        }


@asynccontextmanager
async def owned() -> AsyncIterator[Owned]:
    """A run that waits for a person, its repository (registered by the owner for herself), a key, a workflow, and a
    conversation with a turn that waits too."""
    world = talking(calls("touch", text="private words"))
    world.outside = {"slack": Given(client_id="client")}
    async with inside(world) as at:
        run_id = await submit(at.services, "hang", name="private matters")
        await happened(at.services, run_id, "LOG_APPENDED")
    world.warden.kill()
    async with inside(world) as at:
        await happened(at.services, run_id, "WAIT_OPENED")
        (row,) = await at.services.runs.waits()
        sent = await at.services.chats.send(Send(message="private question"), THE_LOCAL_USER)
        await happened(at.services, sent.turn_id, "NEEDS_APPROVAL")
        made = await at.services.keys.create("private key", LOCAL, (Scope.ADMIN,))
        await at.services.repos.add(REPO, "ann")
        workflow = await at.services.workflows.create(Workflow(name="private work"), THE_LOCAL_USER)
        value = await at.services.credentials.set_value(THE_LOCAL_USER, "private_value", "private words")
        begun = await at.services.oauth.begin(THE_LOCAL_USER, "slack", "http://127.0.0.1:1/private")
        names = {
            "plan_id": run_id,
            "run_id": run_id,
            "node": "job1",
            "verb": "stop",
            "wait_id": row.waits[0].id,
            "key_id": made.info.id,
            "workflow_id": workflow.id,
            "chat_id": sent.chat_id,
            "turn_id": sent.turn_id,
            "call_id": "touch-1",
            "credential_id": value.id,
            "state": begun.state,
        }
        yield Owned(at, names)
        await at.services.chats.abort(sent.turn_id, THE_LOCAL_USER)
        await at.services.runs.control(run_id, "cancel")
        await ended(at.services, run_id)


async def documented(at: Inside) -> set[str]:
    document = (await at.client.get("/openapi.json")).json()
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


def test_every_route_has_its_action() -> None:
    async def journey() -> None:
        async with inside() as at:
            there = {route for route in await documented(at) if route.split(" ")[1] not in OPEN_PATHS}
            assert there == set(ROUTES), "a new route needs a row in interfaces/http/access.py"

    run(journey())


def test_what_belongs_to_others_is_not_there_whichever_route_is_tried() -> None:
    async def journey() -> None:
        async with owned() as found, await keyed(found.at, "bob", Scope.APPROVE) as bob:
            rows = [await found.at.services.queries.run(found.names[name]) for name in ("run_id", "turn_id")]
            secrets = {found.names[name] for name in IDS} | {"private", '"ann"'}
            for route in sorted(set(ROUTES) - {ENDLESS}):
                answered = await found.ask(bob, route)
                if route in ALONE:
                    assert answered.status_code < 500, (route, answered.text)
                    assert not [word for word in secrets if word in answered.text], (route, answered.text)
                else:
                    assert answered.status_code in {403, 404}, (route, answered.text)
            # And it did nothing.
            assert [await found.at.services.queries.run(row.id) for row in rows] == rows
            assert [repo.owner for repo in await found.at.services.repos.list()] == ["ann", "bob"]

    run(journey())


def test_what_belongs_to_others_is_answered_as_what_never_was() -> None:
    async def journey() -> None:
        async with owned() as found, await keyed(found.at, "bob", Scope.APPROVE) as bob:
            never = Owned(found.at, dict.fromkeys(found.names, "never") | {"node": "job1", "verb": "stop"})
            for route in sorted(set(ROUTES) - ALONE - {ENDLESS}):
                said = []
                for asked in (found, never):
                    answered = await asked.ask(bob, route)
                    text = answered.text
                    for name in (*IDS, "call_id"):
                        text = text.replace(asked.names[name], "…")
                    said.append((answered.status_code, text))
                assert said[0] == said[1], route

    run(journey())


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_key_without_the_scope_is_refused_whatever_it_asks_for(route: str) -> None:
    async def journey() -> None:
        needed = POLICY[ROUTES[route]].scope
        below = [scope for scope in Scope if not scope.includes(needed)]
        async with inside() as at:
            never = Owned(at, dict.fromkeys(NAMES, "x"))
            for scopes in [(), *[(scope,) for scope in below]]:
                async with await keyed(at, LOCAL, *scopes) as client:
                    refusal(await never.ask(client, route), 403, "needs_scope")

    run(journey())


@pytest.mark.parametrize("route", sorted({*ROUTES} - {ENDLESS}))
def test_a_key_with_the_scope_is_let_through(route: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            never = Owned(at, dict.fromkeys(NAMES, "x"))
            async with await keyed(at, LOCAL, POLICY[ROUTES[route]].scope) as client:
                answered = await never.ask(client, route)
                if route != "POST /api/owner/step-down":  # of which another guard keeps everybody
                    assert answered.status_code not in {401, 403}, answered.text

    run(journey())


def test_a_route_that_was_forgotten_is_closed_to_keys() -> None:
    async def journey() -> None:
        async with inside() as at:

            async def new() -> dict[str, bool]:
                return {"new": True}

            at.app.add_api_route("/api/new", new)
            async with await keyed(at, LOCAL, Scope.APPROVE) as client:
                refusal(await client.get("/api/new"), 403, "needs_scope")
            assert (await at.client.get("/api/new")).json() == {"new": True}

    run(journey())


def test_an_answer_needs_the_scope_and_the_owner() -> None:
    async def journey() -> None:
        async with owned() as found:
            path, body = f"/api/approvals/{found.names['wait_id']}", {"answer": "fail"}
            at = found.at
            async with (
                await keyed(at, "bob", Scope.APPROVE) as foreign,
                await keyed(at, LOCAL, Scope.RUN) as without,
                await keyed(at, LOCAL, Scope.APPROVE) as mine,
            ):
                refusal(await foreign.post(path, json=body), 404, "not_found")
                refusal(await without.post(path, json=body), 403, "needs_scope")
                assert (await foreign.get("/api/approvals")).json() == {"approvals": []}
                assert len((await without.get("/api/approvals")).json()["approvals"]) == 2
                assert (await mine.post(path, json=body)).status_code == 200

    run(journey())


def test_stop_everything_stops_what_is_ones_own() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.RUN) as bob:
            await at.client.post("/api/repos", json={"path": REPO})
            mine = (await bob.post("/api/plans", json={"plan": plan("hang")})).json()["planId"]
            others = await submit(at.services, "hang")
            stopped = (await bob.post("/api/stop-everything")).json()["stopped"]
            assert [row["id"] for row in stopped] == [mine]
            assert await ended(at.services, mine) == "stopped"
            assert (await at.services.queries.run(others)).lifecycle == "RUNNING"
            await at.services.runs.control(others, "cancel")
            await ended(at.services, others)

    run(journey())


def test_an_admin_key_sees_and_controls_everybodys() -> None:
    async def journey() -> None:
        async with owned() as found, await keyed(found.at, "boss", Scope.ADMIN) as boss:
            for route in ("GET /api/plans/{plan_id}", "GET /api/runs/{run_id}", "POST /api/runs/{run_id}/{verb}"):
                assert (await found.ask(boss, route)).status_code == 200, route
            assert len((await boss.get("/api/plans")).json()["plans"]) == 1

    run(journey())


def test_the_stream_of_all_runs_carries_ones_own(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at, at.browser() as bob:
            bob.headers["x-api-key"] = await key_of(at, "bob", Scope.RUN)
            await at.services.repos.add(REPO, LOCAL)
            before = await submit(at.services, "write a", name="private")
            await ended(at.services, before)
            start = (await at.client.get("/api/runs")).json()  # so that there is something to leave out
            assert len(start["runs"]) == 1
            async with asyncio.timeout(PATIENCE_S), bob.stream("GET", "/api/events", headers=SSE) as response:
                stream = events(response)
                while not isinstance(await anext(stream), Sent):
                    pass
                for owner in (LOCAL, "bob", LOCAL, "bob"):
                    spec_id = await _ended_plan_of(at, owner)
                    await at.services.plans.delete(spec_id)
                await at.services.plans.delete(before)
                last = await _ended_plan_of(at, "bob")
                seen: list[dict[str, Any]] = []
                while not (seen and (seen[-1]["runId"], seen[-1]["type"]) == (last, "RUN_FINISHED")):
                    sent = await anext(stream)
                    if isinstance(sent, Sent):
                        seen.append(json.loads(sent.data))
            created = [event for event in seen if event["type"] == "RUN_CREATED"]
            assert [event["owner"] for event in created] == ["bob"] * 3
            assert {event["runId"] for event in seen} == {event["runId"] for event in created}
            gone = [event["runId"] for event in seen if event["type"] == "RUN_DELETED"]
            assert gone == [event["runId"] for event in created[:2]]

    run(journey())


async def _ended_plan_of(at: Inside, owner: str) -> str:
    run_id = await at.services.plans.submit(plan_from_data(plan("write a")), Origin(owner, "test"), repo=REPO)
    await ended(at.services, run_id)
    return run_id


def test_the_page_says_what_each_scope_may() -> None:
    for scope, meaning in MEANINGS.items():
        assert f"| `{scope}` | {meaning} |" in PAGE
