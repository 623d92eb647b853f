"""Workflows over HTTP: drafted, edited, gone back in, run; and what is refused says where and why."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.core.workflow.workflows import block
from tests.interfaces.http.doors import Inside, inside, run
from tests.interfaces.http.keyed import keyed
from tests.interfaces.http.test_plans import refusal
from tests.support.services import REPO, ended, plan

from pilothouse.core.auth.principals import Scope

DRAFT: dict[str, Any] = {
    "name": "draft",
    "blocks": [block("a", "write a"), block("b", "write b", position={"x": 0, "y": 120})],
    "edges": [{"source": "a", "target": "b"}],
    "options": {"repoPath": REPO},
}


async def made(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answered = await client.post("/api/workflows", json=body or {"workflow": DRAFT})
    assert answered.status_code == 201, answered.text
    found: dict[str, Any] = answered.json()
    assert answered.headers["location"] == f"/api/workflows/{found['id']}"
    return found


async def edited(client: httpx.AsyncClient, id: str, version: int, *operations: dict[str, Any]) -> httpx.Response:
    body = {"version": version, "operations": list(operations)}
    return await client.post(f"/api/workflows/{id}/edit", json=body)


def test_a_workflow_is_drafted_edited_and_run() -> None:
    async def journey() -> None:
        async with inside() as at:
            empty = await made(at.client, workflow={"name": "hello", "options": {"repoPath": REPO}})
            assert (empty["version"], empty["owner"], empty["workflow"]["blocks"]) == (1, "local", [])
            answered = await edited(
                at.client,
                empty["id"],
                1,
                {"op": "add_block", "block": block("a", "write a")},
                {"op": "add_block", "block": block("b", "write b"), "after": ["a"]},
            )
            found = answered.json()
            assert (found["version"], found["revision"]["kind"], found["revision"]["by"]) == (2, "edited", "local")
            assert found["revision"]["changes"]["blocksAdded"] == ["a", "b"]
            assert found["revision"]["changes"]["edgesAdded"] == [{"source": "a", "target": "b"}]
            answered = await at.client.post(f"/api/workflows/{empty['id']}/run")
            created = answered.json()
            assert (answered.status_code, answered.headers["location"]) == (201, f"/api/plans/{created['planId']}")
            assert await ended(at.services, created["planId"]) == "succeeded"
            row = (await at.client.get(f"/api/runs/{created['planId']}")).json()
            assert row["cause"] == f"workflow:{empty['id']}@2"

    run(journey())


def test_what_is_got_can_be_put_back() -> None:
    async def journey() -> None:
        async with inside() as at:
            found = await made(at.client)
            path = f"/api/workflows/{found['id']}"
            assert (await at.client.get(path)).json() == found
            assert found["workflow"] == DRAFT
            same = await at.client.put(path, json={"version": 1, "workflow": found["workflow"]})
            assert (same.status_code, same.json()["version"]) == (200, 1)
            other = await at.client.put(path, json={"version": 1, "workflow": {"name": "other"}, "why": "anew"})
            assert (other.json()["version"], other.json()["revision"]["why"]) == (2, "anew")
            assert (await at.client.get(path, params={"version": 1})).json() == found

    run(journey())


def test_versions_are_listed_page_by_page_and_gone_back_to() -> None:
    async def journey() -> None:
        async with inside() as at:
            found = await made(at.client, workflow=DRAFT, chatId="c1", message_id="m1")
            path = f"/api/workflows/{found['id']}"
            for version, name in ((1, "one"), (2, "two")):
                assert (await edited(at.client, found["id"], version, {"op": "rename", "to": name})).status_code == 200
            page = (await at.client.get(f"{path}/versions", params={"limit": 2})).json()
            assert [(one["version"], one["name"]) for one in page["versions"]] == [(3, "two"), (2, "one")]
            rest = (await at.client.get(f"{path}/versions", params={"limit": 2, "before": page["next"]})).json()
            assert rest["next"] is None
            (first,) = rest["versions"]
            assert (first["revision"]["chatId"], first["revision"]["messageId"]) == ("c1", "m1")
            assert (first["blocks"], first["edges"]) == (2, 1)
            back = (await at.client.post(f"{path}/revert", json={"version": 3, "to": 1})).json()
            assert (back["version"], back["workflow"], back["revision"]["revertedTo"]) == (4, DRAFT, 1)

    run(journey())


def test_who_changes_an_older_version_is_told_which_one_stands() -> None:
    async def journey() -> None:
        async with inside() as at:
            found = await made(at.client)
            path = f"/api/workflows/{found['id']}"
            await edited(at.client, found["id"], 1, {"op": "rename", "to": "new"})
            for answered in (
                await edited(at.client, found["id"], 1, {"op": "rename", "to": "newer"}),
                await at.client.put(path, json={"version": 1, "workflow": DRAFT}),
                await at.client.post(f"{path}/revert", json={"version": 1, "to": 1}),
            ):
                assert "version 2 by now, not 1" in str(refusal(answered, 409, "wrong_sequence"))

    run(journey())


def test_a_plan_file_becomes_a_workflow_and_a_workflow_a_plan_file() -> None:
    async def journey() -> None:
        async with inside() as at:
            document = plan("write a", "write b", name="planned")
            found = await made(at.client, plan=document)
            assert [one["id"] for one in found["workflow"]["blocks"]] == ["job1", "job2"]
            text = await made(at.client, text="name: x\njobs:\n  - { producerId: a, task: t, work: '@agent do it' }\n")
            assert text["workflow"]["blocks"][0]["type"] == "agent"
            file = (await at.client.get(f"/api/workflows/{found['id']}/plan")).json()
            assert [job["work"] for job in file["jobs"]] == [
                {"type": "shell", "command": "write a"},
                {"type": "shell", "command": "write b"},
            ]
            created = (await at.client.post("/api/plans", json={"plan": file})).json()
            assert await ended(at.services, created["planId"]) == "succeeded"
            again = await made(at.client, plan=file)
            assert again["workflow"] == found["workflow"]

    run(journey())


def test_the_list_shows_ones_own() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.RUN) as bob:
            mine = await made(at.client)
            his = await made(bob, workflow={"name": "his"})
            assert [one["id"] for one in (await bob.get("/api/workflows")).json()["workflows"]] == [his["id"]]
            listed = (await at.client.get("/api/workflows")).json()["workflows"]
            assert {one["id"] for one in listed} == {mine["id"], his["id"]}
            refusal(await bob.get(f"/api/workflows/{mine['id']}"), 404, "not_found")
            assert (await bob.delete(f"/api/workflows/{his['id']}")).status_code == 204
            refusal(await bob.get(f"/api/workflows/{his['id']}"), 404, "not_found")

    run(journey())


def test_over_tcp_a_workflow_runs_in_a_registered_repository_only() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.RUN) as bob:
            found = await made(bob)
            path = f"/api/workflows/{found['id']}/run"
            refusal(await bob.post(path), 422, "bad_input", "repoPath")
            await bob.post("/api/repos", json={"path": REPO})
            body, headers = {"version": 1, "repoPath": REPO}, {"Idempotency-Key": "once"}
            one, two = [(await bob.post(path, json=body, headers=headers)).json()["planId"] for _ in range(2)]
            assert one == two
            assert await ended(at.services, one) == "succeeded"
            assert (await at.services.queries.run(one)).owner == "bob"

    run(journey())


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("edit", {"version": 1, "operations": []}, "operations"),
        ("edit", {"version": 1, "operations": [{"op": "connect", "source": "b", "target": "a"}]}, "operations[0]"),
        ("edit", {"version": 1, "operations": [{"op": "rename", "to": "\x00"}]}, "operations[0].to"),
        ("edit", {"version": "1", "operations": [{"op": "rename", "to": "x"}]}, "version"),
        ("edit", {"operations": [{"op": "rename", "to": "x"}]}, "version"),
        ("edit", {"version": 1, "operations": [{"op": "rename", "to": "x"}], "why": "\ud800"}, "why"),
        ("revert", {"version": 1, "to": 2}, "to"),
        ("revert", {"version": 1, "to": 0}, "to"),
        ("run", {"repoPath": "here"}, "repoPath"),
        ("run", {"version": 1 << 60}, "version"),
    ],
)
def test_what_is_wrong_with_a_request_names_the_field(verb: str, body: dict[str, Any], field: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            found = await made(at.client)
            text, headers = json.dumps(body), {"content-type": "application/json"}
            answered = await at.client.post(f"/api/workflows/{found['id']}/{verb}", content=text, headers=headers)
            refusal(answered, 422, "bad_input", field)
            assert (await at.client.get(f"/api/workflows/{found['id']}")).json() == found

    run(journey())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, ""),
        ({"workflow": {"name": "x"}, "text": "name: x"}, ""),
        ({"workflow": {}}, "name"),
        ({"plan": {}}, "name"),
        ({"text": ""}, ""),
    ],
)
def test_what_makes_no_workflow_is_refused(body: dict[str, Any], field: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            refusal(await at.client.post("/api/workflows", json=body), 422, "bad_input", field)
            assert (await at.client.get("/api/workflows")).json() == {"workflows": []}

    run(journey())


def test_a_version_that_never_was_is_not_there() -> None:
    async def tried(at: Inside, path: str) -> None:
        refusal(await at.client.get(path, params={"version": 2}), 404, "not_found")

    async def journey() -> None:
        async with inside() as at:
            found = await made(at.client)
            await tried(at, f"/api/workflows/{found['id']}")
            await tried(at, f"/api/workflows/{found['id']}/plan")
            body = {"version": 2}
            refusal(await at.client.post(f"/api/workflows/{found['id']}/run", json=body), 404, "not_found")

    run(journey())
