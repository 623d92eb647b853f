"""Runs of any kind over HTTP: lists, control, stop everything, what waits, repositories, the server itself."""

from __future__ import annotations

import base64

import pytest
from tests.interfaces.http.doors import inside, run
from tests.interfaces.http.test_plans import logged_in, refusal
from tests.support.services import REPO, World, ended, happened, submit


def test_runs_are_paged_without_gap_or_repeat() -> None:
    async def journey() -> None:
        async with inside() as at:
            made = [await submit(at.services, "write a", name=f"n{number}") for number in range(5)]
            for run_id in made:
                await ended(at.services, run_id)
            seen: list[str] = []
            query = "?limit=2"
            while query:
                page = (await at.client.get(f"/api/runs{query}")).json()
                seen += [row["id"] for row in page["runs"]]
                query = f"?limit=2&before={page['next']}" if "next" in page else ""
            assert seen == made[::-1]
            refusal(await at.client.get("/api/runs?before=odd"), 400, "malformed", "before")

    run(journey())


@pytest.mark.parametrize("instant", [-1, 1 << 63, 1 << 64])
def test_a_page_cursor_with_a_number_no_store_can_hold_is_malformed(instant: int) -> None:
    cursor = base64.urlsafe_b64encode(b'[%d,"x"]' % instant).decode()

    async def journey() -> None:
        async with inside() as at:
            refusal(await at.client.get(f"/api/runs?before={cursor}"), 400, "malformed", "before")

    run(journey())


def test_runs_are_found_by_kind_status_and_what_waits() -> None:
    async def journey() -> None:
        async with inside() as at:
            run_id = await submit(at.services, "write a")
            await ended(at.services, run_id)
            for query, count in [
                ("kind=plan", 1),
                ("kind=task", 0),
                ("status=succeeded", 1),
                ("status=failed", 0),
                ("waiting=true", 0),
                ("sessionId=s", 0),
            ]:
                assert len((await at.client.get(f"/api/runs?{query}")).json()["runs"]) == count, query
            refusal(await at.client.get("/api/runs?waiting=perhaps"), 422, "bad_input", "waiting")

    run(journey())


def test_a_run_is_paused_resumed_stopped_retried_and_discarded() -> None:
    async def journey() -> None:
        async with inside() as at:
            run_id = await submit(at.services, "hang")
            for verb, status, run_state in [
                ("pause", "pausing", "RUNNING"),
                ("resume", "running", "RUNNING"),
                ("stop", None, None),
            ]:
                row = (await at.client.post(f"/api/runs/{run_id}/{verb}")).json()
                assert status in (None, row["status"]) and run_state in (None, row["runState"]), row
            assert await ended(at.services, run_id) == "stopped"
            assert (await at.client.post(f"/api/runs/{run_id}/stop")).status_code == 200
            assert (await at.client.post(f"/api/runs/{run_id}/resume")).json()["leg"] == 2
            await at.client.post(f"/api/runs/{run_id}/stop")
            await ended(at.services, run_id)
            assert (await at.client.post(f"/api/runs/{run_id}/discard")).json()["status"] == "canceled"
            refusal(await at.client.post(f"/api/runs/{run_id}/resume"), 409, "refused")

    run(journey())


@pytest.mark.parametrize(
    ("verb", "status", "code", "field"),
    [("skip", 409, "refused", ""), ("steer", 409, "refused", ""), ("odd", 422, "bad_input", "verb")],
)
def test_verbs_that_do_not_apply_are_refused_clearly(verb: str, status: int, code: str, field: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            run_id = await submit(at.services, "write a")
            await ended(at.services, run_id)
            refusal(await at.client.post(f"/api/runs/{run_id}/{verb}"), status, code, field)
            refusal(await at.client.post("/api/runs/nope/stop"), 404, "not_found")

    run(journey())


def test_an_ended_run_is_deleted_and_a_live_one_is_not() -> None:
    async def journey() -> None:
        async with inside() as at:
            run_id = await submit(at.services, "hang")
            refusal(await at.client.delete(f"/api/runs/{run_id}"), 409, "refused")
            await at.client.post(f"/api/runs/{run_id}/stop")
            await ended(at.services, run_id)
            assert (await at.client.delete(f"/api/runs/{run_id}")).status_code == 204
            refusal(await at.client.get(f"/api/runs/{run_id}"), 410, "gone")

    run(journey())


def test_stop_everything_stops_every_live_run() -> None:
    async def journey() -> None:
        async with inside() as at:
            live = {await submit(at.services, "hang") for _ in range(3)}
            of_a_session = await at.client.post("/api/stop-everything", json={"sessionId": "another"})
            assert of_a_session.json() == {"stopped": []}
            stopped = (await at.client.post("/api/stop-everything")).json()["stopped"]
            assert {row["id"] for row in stopped} == live
            for run_id in live:
                assert await ended(at.services, run_id) == "stopped"

    run(journey())


def test_what_nobody_knows_waits_for_an_answer_and_one_answer_wins() -> None:
    async def journey() -> None:
        world = World()
        async with inside(world) as at:
            run_id = await submit(at.services, "hang", name="lost")
            await happened(at.services, run_id, "LOG_APPENDED")
            assert (await at.client.get("/api/approvals")).json() == {"approvals": []}
        world.warden.kill()
        async with inside(world) as at:
            await happened(at.services, run_id, "WAIT_OPENED")
            (wait,) = (await at.client.get("/api/approvals")).json()["approvals"]
            assert (wait["kind"], wait["runId"], wait["runName"]) == ("review", run_id, "lost")
            assert {"id", "scope", "question", "options", "detail", "openedAt"} <= wait.keys()
            path = f"/api/approvals/{wait['id']}"
            refusal(await at.client.post(path, json={"answer": "perhaps"}), 422, "bad_input", "answer")
            answered = await at.client.post(path, json={"answer": wait["options"][-1]})
            assert answered.json()["id"] == run_id, answered.text
            refusal(await at.client.post(path, json={"answer": wait["options"][-1]}), 404, "not_found")
            await at.client.post(f"/api/runs/{run_id}/cancel")

    run(journey())


def test_repositories_are_registered_listed_and_forgotten() -> None:
    async def journey() -> None:
        async with inside() as at:
            assert (await at.client.get("/api/repos")).json() == {"repos": []}
            for _ in range(2):
                created = await at.client.post("/api/repos", json={"path": REPO})
                assert (created.status_code, created.json()["path"]) == (201, REPO)
            assert [repo["path"] for repo in (await at.client.get("/api/repos")).json()["repos"]] == [REPO]
            assert (await at.client.delete("/api/repos", params={"path": REPO})).status_code == 204
            refusal(await at.client.delete("/api/repos", params={"path": REPO}), 404, "not_found")
            assert (await at.client.post("/api/repos", json={"path": "/nowhere"})).status_code == 422

    run(journey())


def test_the_server_says_how_it_is() -> None:
    async def journey() -> None:
        async with inside() as at:
            assert (await at.client.get("/healthz")).json() == {"status": "ok"}
            assert (await at.client.get("/readyz")).json() == {"status": "ready", "version": "1.2.3"}
            at.owner.url = "http://127.0.0.1:8484"
            run_id = await submit(at.services, "hang")
            owner = (await at.client.get("/api/owner")).json()
            assert (owner["mode"], owner["url"], owner["liveRuns"]) == ("serve", "http://127.0.0.1:8484", 1)
            assert "pilothouse_live_runs 1\n" in (await at.client.get("/metrics")).text
            page = await at.client.get("/docs")
            assert "GET /api/plans/{plan_id}" in page.text
            assert "default-src 'none'" in page.headers["content-security-policy"]
            await at.client.post(f"/api/runs/{run_id}/cancel")
            await ended(at.services, run_id)

    run(journey())


@pytest.mark.parametrize(("mode", "status"), [("background", 202), ("serve", 409)])
def test_only_a_background_owner_steps_down(mode: str, status: int) -> None:
    async def journey() -> None:
        async with inside(mode=mode) as at:
            browser = await logged_in(at)
            refusal(await browser.post("/api/owner/step-down"), 403, "denied")
            assert not at.stepped_down
            assert (await at.client.post("/api/owner/step-down")).status_code == status
            assert bool(at.stepped_down) is (status == 202)

    run(journey())
