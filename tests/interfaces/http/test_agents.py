"""Agents over HTTP: which there are, what they told, what they asked, and a plan that is submitted twice."""

from __future__ import annotations

import json
from typing import Any

from tests.interfaces.http.doors import inside, run
from tests.support.services import ended, plan

LINES: list[dict[str, Any]] = [
    {"type": "session", "session_id": "s-1", "model": "m"},
    {"type": "text", "text": "I write it.\n"},
    {"type": "toolStarted", "call_id": "c", "tool": "write", "title": "agent.txt"},
    {"type": "used", "model": "m", "usage": {"inputTokens": 7, "outputTokens": 2, "turns": 1}},
    {"type": "finished", "ok": True},
]


def agent_plan(*lines: dict[str, Any]) -> dict[str, Any]:
    told = "\n".join(json.dumps(line) for line in lines)
    work = {"type": "agent", "agent": "scripted", "instructions": told}
    return plan() | {"jobs": [{"producerId": "a", "task": "do it", "work": work}]}


def test_agents_and_their_models_are_listed() -> None:
    async def journey() -> None:
        async with inside() as at:
            agents = (await at.client.get("/api/agents")).json()["agents"]
            assert agents and {"name", "installed", "resumes", "loggedIn", "install"} <= set(agents[0])
            models = (await at.client.get("/api/models", params={"agent": agents[0]["name"]})).json()["models"]
            assert all(model["agent"] == agents[0]["name"] for model in models)
            assert (await at.client.get("/api/models", params={"agent": "nobody"})).status_code == 404

    run(journey())


def test_logs_of_an_agent_are_a_text_and_raw_lines_when_asked_for() -> None:
    async def journey() -> None:
        async with inside() as at:
            created = (await at.client.post("/api/plans", json={"plan": agent_plan(*LINES)})).json()
            assert await ended(at.services, created["planId"]) == "succeeded"
            logs = f"/api/plans/{created['planId']}/nodes/a/logs"
            told = (await at.client.get(logs)).json()
            assert told["text"] == "session s-1 with m\nI write it.\n> write: agent.txt\n"
            assert [part["phase"] for part in told["parts"]] == ["work"]
            raw = (await at.client.get(logs, params={"raw": True})).json()["text"]
            assert [json.loads(line)["type"] for line in raw.splitlines()] == [line["type"] for line in LINES]
            assert (await at.client.get(logs, params={"tail": 1})).json()["text"] == "> write: agent.txt"

    run(journey())


def test_a_plan_tells_what_its_agents_used() -> None:
    async def journey() -> None:
        async with inside() as at:
            created = (await at.client.post("/api/plans", json={"plan": agent_plan(*LINES)})).json()
            await ended(at.services, created["planId"])
            shown = (await at.client.get(f"/api/plans/{created['planId']}")).json()
            assert (shown["usage"]["totalTokens"], shown["nodes"][0]["usage"]["models"][0]["model"]) == (9, "m")

    run(journey())


def test_who_submits_again_under_the_same_key_gets_the_plan_that_exists() -> None:
    async def journey() -> None:
        async with inside() as at:
            timed = {"Idempotency-Key": "0193b2c4-5d6e-7000-8000-000000000001"}
            lent = (await at.client.post("/api/plans", json={"plan": plan("write a")}, headers=timed)).json()["planId"]
            assert lent.startswith("0193b2c4-5d6e-7") and lent != timed["Idempotency-Key"]
            await at.client.post(f"/api/runs/{lent}/stop")
            await ended(at.services, lent)
            await at.client.delete(f"/api/plans/{lent}")
            key = {"Idempotency-Key": "k-1"}
            first = await at.client.post("/api/plans", json={"plan": plan("write a")}, headers=key)
            again = await at.client.post("/api/plans", json={"plan": plan("write a")}, headers=key)
            other = await at.client.post(
                "/api/plans", json={"plan": plan("write a")}, headers={"Idempotency-Key": "k-2"}
            )
            ids = [answer.json()["planId"] for answer in (first, again, other)]
            assert ids[0] == ids[1] != ids[2]
            assert len((await at.client.get("/api/plans")).json()["plans"]) == 2
            empty = await at.client.post("/api/plans", json={"plan": plan("write a")}, headers={"Idempotency-Key": ""})
            assert empty.status_code in (400, 422)

    run(journey())
