"""Streams, through a real server: complete, in order, continued without gap or repeat, ended when there is an end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interfaces.http.doors import SSE, Sent, Served, events, eventually, run, served
from tests.interfaces.http.test_plans import refusal
from tests.support.services import ended, happened, submit

from pilothouse.interfaces.http.wire import position_cursor


async def read_all(client: httpx.AsyncClient, path: str, **headers: str) -> list[Sent]:
    async with client.stream("GET", path, headers=SSE | headers) as response:
        assert response.status_code == 200
        return [sent async for sent in events(response) if isinstance(sent, Sent)]


async def read_some(client: httpx.AsyncClient, path: str, count: int, **headers: str) -> list[Sent]:
    found: list[Sent] = []
    async with client.stream("GET", path, headers=SSE | headers) as response:
        async for sent in events(response):
            if isinstance(sent, Sent):
                found.append(sent)
                if len(found) == count:
                    break
    return found


def names(sent: list[Sent]) -> list[str]:
    return [json.loads(each.data)["type"] for each in sent]


def test_a_runs_stream_ends_with_the_end_of_its_last_leg(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "write a", "write b")
            sent = await read_all(at.client, f"/api/runs/{run_id}/events")
            assert names(sent)[0] == "RUN_CREATED" and names(sent)[-1] == "RUN_FINISHED"
            assert [each.id for each in sent] == [str(seq) for seq in range(1, len(sent) + 1)]
            assert all(json.loads(each.data)["id"] == f"{run_id}:{each.id}" for each in sent)
            logged = await at.services.queries.events(run_id)
            assert len(logged) == len(sent)

    run(journey())


def test_a_stream_that_broke_off_anywhere_is_continued_without_gap_or_repeat(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "write a")
            path = f"/api/runs/{run_id}/events"
            whole = await read_all(at.client, path)
            for cut in range(1, len(whole)):
                begin = await read_some(at.client, path, cut)
                assert begin + await read_all(at.client, path, **{"last-event-id": begin[-1].id}) == whole
                assert begin + await read_all(at.client, f"{path}?after={cut}") == whole
            # The header goes before the parameter: a browser repeats its first URL when it reconnects.
            assert await read_all(at.client, f"{path}?after=1", **{"last-event-id": "3"}) == whole[3:]

    run(journey())


def test_a_stream_shows_what_happens_while_it_is_open(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path, keepalive=0.01) as at:
            run_id = await submit(at.services, "hang")
            async with at.client.stream("GET", f"/api/runs/{run_id}/events", headers=SSE) as response:
                assert response.headers["cache-control"] == "no-cache"
                assert response.headers["x-accel-buffering"] == "no"
                stream = events(response)
                assert await anext(stream) == ": connected"
                async for sent in stream:
                    if sent == ": keepalive":
                        break
                await at.services.runs.control(run_id, "stop")
                rest = [sent async for sent in stream if isinstance(sent, Sent)]
            assert "STOPPED" in names(rest)
            assert [int(each.id) for each in rest] == list(range(int(rest[0].id), int(rest[-1].id) + 1))
            await ended(at.services, run_id)

    run(journey())


def test_a_stream_goes_on_over_legs_that_end_while_it_is_behind(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "fail")
            await ended(at.services, run_id)
            await at.services.plans.retry(run_id)
            await ended(at.services, run_id)
            assert names(await read_all(at.client, f"/api/runs/{run_id}/events")).count("RUN_FAILED") == 2

    run(journey())


def test_a_finished_run_has_nothing_more_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "write a")
            await ended(at.services, run_id)
            path = f"/api/runs/{run_id}/events"
            last = (await at.services.queries.run(run_id)).seq
            nothing = await at.client.get(path, headers=SSE | {"last-event-id": str(last)})
            assert nothing.status_code == 204
            await at.services.plans.delete(run_id)
            refusal(await at.client.get(path, headers=SSE), 410, "gone")
            refusal(await at.client.get("/api/runs/nope/events", headers=SSE), 404, "not_found")

    run(journey())


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "99999", "٣", "9" * 30])
def test_a_sequence_number_that_cannot_be_is_refused(after: str, tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "write a")
            await ended(at.services, run_id)
            for headers in (SSE, {}):
                response = await at.client.get(f"/api/runs/{run_id}/events", params={"after": after}, headers=headers)
                refusal(response, 400, "malformed", "after")

    run(journey())


def test_events_are_also_given_as_pages_of_json(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "write a")
            await ended(at.services, run_id)
            found: list[dict[str, Any]] = []
            after: int | None = 0
            while after is not None:
                page = (await at.client.get(f"/api/runs/{run_id}/events?after={after}&limit=5")).json()
                found += page["events"]
                after = page.get("next")
            assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
            assert len(found) == (await at.services.queries.run(run_id)).seq

    run(journey())


def test_the_multiplexed_stream_begins_now_and_carries_creation_and_deletion(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            before = await submit(at.services, "write a")
            await ended(at.services, before)
            async with at.client.stream("GET", "/api/events") as response:
                stream = events(response)
                assert await anext(stream) == ": connected"
                hello = await anext(stream)
                assert isinstance(hello, Sent) and hello.event == "hello"
                assert json.loads(hello.data) == {"cursor": hello.id}
                run_id = await submit(at.services, "write b")
                await ended(at.services, run_id)
                await at.services.plans.delete(run_id)
                seen: list[dict[str, Any]] = []
                async for sent in stream:
                    assert isinstance(sent, Sent)
                    seen.append(json.loads(sent.data))
                    if seen[-1]["type"] == "RUN_DELETED":
                        break
            assert seen[0]["type"] == "RUN_CREATED"
            assert {event["runId"] for event in seen} == {run_id}

    run(journey())


def test_the_multiplexed_stream_is_continued_from_its_cursor(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            async with at.client.stream("GET", "/api/events") as response:
                stream = events(response)
                await anext(stream)
                hello = await anext(stream)
            assert isinstance(hello, Sent)
            ids = []
            for _ in range(3):
                ids.append(await submit(at.services, "write a"))
                await ended(at.services, ids[-1])
            logged = [f"{run_id}:{seq}" for run_id in ids for seq in range(1, await _seq(at, run_id) + 1)]
            whole = await _until(at.client, logged[-1], hello.id)
            keys = [key for key, _ in whole]
            assert keys == logged
            for cut in range(1, len(whole)):
                # Whole batches are repeated at most, and what a client has already it knows by its id.
                begin = keys[:cut]
                rest = [key for key, _ in await _until(at.client, keys[-1], whole[cut - 1][1]) if key not in begin]
                assert begin + rest == keys
            assert whole[-1][1] == position_cursor(await at.services.queries.position())

    run(journey())


async def _seq(at: Served, run_id: str) -> int:
    return (await at.services.queries.run(run_id)).seq


async def _until(client: httpx.AsyncClient, key: str, cursor: str) -> list[tuple[str, str]]:
    """(key, cursor) of all events after a cursor, up to the one with the given key."""
    found: list[tuple[str, str]] = []
    async with client.stream("GET", "/api/events", headers={"last-event-id": cursor}) as response:
        async for sent in events(response):
            if isinstance(sent, Sent) and sent.event != "hello":
                found.append((json.loads(sent.data)["id"], sent.id))
                if found[-1][0] == key:
                    break
    return found


def test_the_multiplexed_stream_is_filtered_by_run_and_kind(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path, keepalive=0.01) as at:
            start = position_cursor(0)
            one, other = await submit(at.services, "write a"), await submit(at.services, "write b")
            await ended(at.services, one)
            await ended(at.services, other)
            for query, wanted in [(f"runId={one}", {one}), ("kind=plan", {one, other}), ("kind=task", set[str]())]:
                seen: set[str] = set()
                async with at.client.stream("GET", f"/api/events?after={start}&{query}") as response:
                    async for sent in events(response):
                        if isinstance(sent, Sent) and sent.event != "hello":
                            seen.add(json.loads(sent.data)["runId"])
                        if sent == ": keepalive":
                            break
                assert seen == wanted, query

    run(journey())


@pytest.mark.parametrize("cursor", ["x", "AQ", "AAAAAAAAAAAA", "ÿ", position_cursor(1_000_000)])
def test_a_cursor_this_server_never_gave_is_refused(cursor: str, tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            refusal(await at.client.get("/api/events", params={"after": cursor}), 400, "malformed", "after")

    run(journey())


def test_a_client_that_leaves_is_noticed_at_once(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "hang")
            async with at.client.stream("GET", f"/api/runs/{run_id}/events", headers=SSE) as response:
                stream = events(response)  # kept: a dropped one closes the connection
                await anext(stream)
                await eventually(lambda: followed(at) == 1)
            await eventually(lambda: followed(at) == 0)
            await at.services.runs.control(run_id, "cancel")
            await ended(at.services, run_id)

    run(journey())


def test_a_client_that_reads_nothing_slows_no_run_and_gets_everything_later(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            async with at.client.stream("GET", "/api/events") as response:
                for _ in range(3):
                    run_id = await submit(at.services, *["write a"] * 40)
                    assert await ended(at.services, run_id) == "succeeded"
                kinds: list[str] = []
                async for sent in events(response):
                    if isinstance(sent, Sent) and sent.event != "hello":
                        kinds.append(json.loads(sent.data)["type"])
                        if kinds.count("RUN_FINISHED") == 3:
                            break
            assert kinds.count("RUN_CREATED") == 3

    run(journey())


def test_a_deletion_ends_the_stream_of_a_run(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path) as at:
            run_id = await submit(at.services, "hang")
            await at.services.runs.control(run_id, "stop")
            await ended(at.services, run_id)
            await at.services.runs.control(run_id, "resume")
            await happened(at.services, run_id, "RUN_RESUMED")
            async with at.client.stream("GET", f"/api/runs/{run_id}/events", headers=SSE) as response:
                stream = events(response)
                await anext(stream)
                await at.services.runs.control(run_id, "stop")
                await ended(at.services, run_id)
                await at.services.plans.delete(run_id)
                async for _ in stream:
                    pass

    run(journey())


def followed(at: Served) -> int:
    """How many runs have a stream that waits for news."""
    return len(at.services.supervisor.hub._bells)
