"""Plans over HTTP: submitted, looked at, controlled, deleted."""

from __future__ import annotations

import json

import httpx
import pytest
from tests.interfaces.http.doors import Inside, client_of, inside, run
from tests.support.services import REPO, World, ended, plan, submit


def refusal(response: httpx.Response, status: int, code: str, field: str = "") -> dict[str, object]:
    found: dict[str, object] = response.json()
    assert (response.status_code, found["code"], found.get("field", "")) == (status, code, field), response.text
    return found


def test_a_plan_is_accepted_as_data_and_can_be_followed_to_its_end() -> None:
    async def journey() -> None:
        async with inside() as at:
            created = await at.client.post("/api/plans", json={"plan": plan("write a", "write b")})
            assert created.status_code == 201, created.text
            found = created.json()
            assert created.headers["location"] == f"/api/plans/{found['planId']}"
            assert await ended(at.services, found["planId"]) == "succeeded"
            shown = (await at.client.get(created.headers["location"])).json()
            assert shown["status"] == "succeeded"
            assert [node["status"] for node in shown["nodes"]] == ["succeeded", "succeeded"]
            assert shown["targetCommit"]

    run(journey())


@pytest.mark.parametrize(
    "text", ["name: t\njobs: [{producerId: a, task: t, work: write a}]", json.dumps(plan("write a"))]
)
def test_a_plan_file_is_accepted_as_text(text: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            created = await at.client.post("/api/plans", json={"text": text, "repo_path": REPO})
            assert created.status_code == 201, created.text
            assert await ended(at.services, created.json()["id"]) == "succeeded"

    run(journey())


def test_plans_are_listed_newest_first_and_by_status() -> None:
    async def journey() -> None:
        async with inside() as at:
            first = await submit(at.services, "write a", name="first")
            await ended(at.services, first)
            second = await submit(at.services, "fail", name="second")
            await ended(at.services, second)

            async def names(query: str) -> list[str]:
                return [found["name"] for found in (await at.client.get(f"/api/plans{query}")).json()["plans"]]

            assert await names("") == ["second", "first"]
            assert await names("?status=succeeded") == ["first"]
            assert await names("?limit=1") == ["second"]
            refusal(await at.client.get("/api/plans?status=odd"), 422, "bad_input", "status")
            refusal(await at.client.get("/api/plans?limit=0"), 422, "bad_input", "limit")

    run(journey())


def test_a_node_is_shown_by_producer_id_with_its_output_and_its_diff() -> None:
    async def journey() -> None:
        async with inside() as at:
            plan_id = await submit(at.services, "write a")
            await ended(at.services, plan_id)
            node = (await at.client.get(f"/api/plans/{plan_id}/nodes/job1")).json()
            assert (node["producerId"], node["status"], len(node["attemptHistory"])) == ("job1", "succeeded", 1)
            by_id = (await at.client.get(f"/api/plans/{plan_id}/nodes/{node['id']}")).json()
            assert by_id == node
            logs = (await at.client.get(f"/api/plans/{plan_id}/nodes/job1/logs?phase=work&attempt=1&tail=5")).json()
            assert logs["text"] == "wrote a"
            diff = (await at.client.get(f"/api/plans/{plan_id}/nodes/job1/diff")).json()
            assert diff["summary"]["filesAdded"] == 1
            assert "+a" in diff["diff"]
            graph = (await at.client.get(f"/api/plans/{plan_id}/graph")).json()
            assert graph["mermaid"].startswith("flowchart")
            refusal(await at.client.get(f"/api/plans/{plan_id}/nodes/job2"), 404, "not_found")
            refusal(await at.client.get(f"/api/plans/{plan_id}/nodes/job1/logs?phase=odd"), 422, "bad_input", "phase")

    run(journey())


def test_a_node_in_a_nested_group_is_reached_by_its_name_with_slashes() -> None:
    async def journey() -> None:
        async with inside() as at:
            jobs = [{"producerId": "x", "task": "t", "work": "write x"}]
            group = {"name": "outer", "groups": [{"name": "inner", "jobs": jobs}]}
            body = {"plan": {"name": "nested", "repoPath": REPO, "groups": [group]}}
            plan_id = (await at.client.post("/api/plans", json=body)).json()["id"]
            await ended(at.services, plan_id)
            for name in ("outer/inner/x", "outer%2Finner%2Fx"):
                found = await at.client.get(f"/api/plans/{plan_id}/nodes/{name}")
                assert found.json()["producerId"] == "outer/inner/x", found.text
                logs = await at.client.get(f"/api/plans/{plan_id}/nodes/{name}/logs")
                assert logs.json()["text"] == "wrote x\n"

    run(journey())


def test_nodes_and_groups_are_cancelled_and_tried_again() -> None:
    async def journey() -> None:
        async with inside() as at:
            jobs = [
                {"producerId": "alone", "task": "t", "work": "hang"},
                {"producerId": "grouped", "task": "t", "work": "hang", "group": "g"},
                {"producerId": "fine", "task": "t", "work": "write a"},
            ]
            body = {"plan": {"name": "p", "repoPath": REPO, "jobs": jobs}}
            plan_id = (await at.client.post("/api/plans", json=body)).json()["id"]
            node = await at.client.post(f"/api/plans/{plan_id}/nodes/alone/cancel")
            assert node.status_code == 200, node.text
            group = await at.client.post(f"/api/plans/{plan_id}/groups/cancel", json={"group": "g"})
            assert group.status_code == 200, group.text
            assert await ended(at.services, plan_id) == "partial"
            again = await at.client.post(f"/api/plans/{plan_id}/nodes/alone/retry", json={"fresh": True})
            assert again.json()["status"] != "canceled", again.text
            await at.client.post(f"/api/runs/{plan_id}/stop")
            await ended(at.services, plan_id)

    run(journey())


def test_what_failed_is_tried_again_in_a_new_leg() -> None:
    async def journey() -> None:
        async with inside() as at:
            plan_id = await submit(at.services, "fail")
            assert await ended(at.services, plan_id) == "failed"
            again = await at.client.post(f"/api/plans/{plan_id}/retry")
            assert again.status_code == 200, again.text
            await ended(at.services, plan_id)
            assert (await at.client.get(f"/api/runs/{plan_id}")).json()["leg"] == 2
            named = await at.client.post(f"/api/plans/{plan_id}/retry", json={"nodes": ["job1"], "fresh": True})
            assert named.status_code == 200, named.text
            refusal(await at.client.post(f"/api/plans/{plan_id}/retry", json={"nodes": ["nope"]}), 404, "not_found")

    run(journey())


def test_a_plan_that_is_being_deleted_cannot_be_gone_on_with_nor_deleted_twice() -> None:
    async def journey() -> None:
        async with inside() as at:
            plan_id = await submit(at.services, "fail")
            await ended(at.services, plan_id)
            with at.services.supervisor.deleting(plan_id):
                refusal(await at.client.post(f"/api/plans/{plan_id}/retry"), 409, "refused")
                refusal(await at.client.delete(f"/api/plans/{plan_id}"), 409, "refused")
            assert (await at.client.delete(f"/api/plans/{plan_id}")).status_code == 204

    run(journey())


def test_a_plan_is_deleted_once_it_has_ended_and_is_gone_from_then_on() -> None:
    async def journey() -> None:
        async with inside() as at:
            plan_id = await submit(at.services, "hang")
            refusal(await at.client.delete(f"/api/plans/{plan_id}"), 409, "refused")
            await at.client.post(f"/api/runs/{plan_id}/cancel")
            await ended(at.services, plan_id)
            assert (await at.client.delete(f"/api/plans/{plan_id}")).status_code == 204
            refusal(await at.client.get(f"/api/plans/{plan_id}"), 410, "gone")
            refusal(await at.client.get("/api/plans/nope"), 404, "not_found")

    run(journey())


BAD = [
    ({"plan": plan("write a"), "text": "x"}, 422, "bad_input", ""),
    ({}, 422, "bad_input", ""),
    ({"plan": plan("write a"), "odd": 1}, 422, "bad_input", "odd"),
    ({"plan": plan("write a"), "updateCheckout": "yes"}, 422, "bad_input", "updateCheckout"),
    ({"plan": plan("write a", repoPath="here")}, 422, "bad_input", "repoPath"),
    ({"plan": plan("write a"), "repoPath": "/nowhere"}, 422, "bad_input", "repoPath"),
    ({"plan": {**plan("write a"), "repoPath": None}}, 422, "bad_input", "repoPath"),
    ({"plan": plan("write a", baseBranch="nope")}, 422, "bad_input", "baseBranch"),
    ({"plan": {"name": "x", "repoPath": REPO, "jobs": [{"task": "t"}]}}, 422, "bad_input", "jobs[0].producerId"),
    ({"text": "jobs: ["}, 422, "bad_input", ""),
]


@pytest.mark.parametrize(("body", "status", "code", "field"), BAD)
def test_a_bad_plan_is_refused_by_field_and_leaves_no_trace(
    body: dict[str, object], status: int, code: str, field: str
) -> None:
    async def journey() -> None:
        world = World()
        async with inside(world) as at:
            refusal(await at.client.post("/api/plans", json=body), status, code, field)
            assert (await at.client.get("/api/plans")).json() == {"plans": []}
            assert world.store.log == []

    run(journey())


def test_a_plan_over_tcp_needs_a_registered_repository() -> None:
    async def journey() -> None:
        async with inside() as at:
            browser = await logged_in(at)
            body = {"plan": plan("write a")}
            refused = refusal(await browser.post("/api/plans", json=body), 422, "bad_input", "repoPath")
            assert "repo add" in str(refused["fix"])
            refusal(await browser.post("/api/plans", json={**body, "registerRepo": True}), 403, "denied")
            await at.client.post("/api/plans", json={**body, "registerRepo": True})
            assert (await browser.get("/api/repos")).json()["repos"][0]["path"] == REPO
            accepted = await browser.post("/api/plans", json=body)
            assert accepted.status_code == 201, accepted.text
            row = (await browser.get(f"/api/runs/{accepted.json()['id']}")).json()
            assert (row["owner"], row["cause"]) == ("local", "http")
            await ended(at.services, row["id"])

    run(journey())


async def logged_in(at: Inside) -> httpx.AsyncClient:
    """A browser at the TCP door."""
    at.guard.listening("127.0.0.1", 80)
    browser = client_of(at.guard.tcp(at.app), "http://127.0.0.1")
    answered = await browser.post("/api/login", json={"token": at.guard.new_token()})
    assert answered.status_code == 204, answered.text
    return browser
