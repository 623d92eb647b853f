"""Two hundred nodes through the command line: the limit holds at every event, and what unlocks most starts first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.flow import make_repo
from tests.support.terminal import desk

MAX_PARALLEL = 8
HUBS = 10


def _two_hundred() -> list[dict[str, Any]]:
    """Hubs with one to ten dependents are declared in the middle of nodes that nothing depends on."""
    hubs = [f"hub-{n}" for n in range(1, HUBS + 1)]
    dependents = {f"{hub}-{n}": [hub] for size, hub in enumerate(hubs, 1) for n in range(size)}
    lone = [f"lone-{n}" for n in range(200 - len(hubs) - len(dependents))]
    return [
        {
            "producerId": name,
            "task": "t",
            "work": "true",
            "expectsNoChanges": True,
            "dependencies": dependents.get(name),
        }
        for name in (*lone[:100], *hubs, *dependents, *lone[100:])
    ]


def test_two_hundred_nodes_are_never_more_than_eight_at_once_and_most_dependents_come_first(tmp_path: Path) -> None:
    repo, jobs = make_repo(tmp_path / "repo"), _two_hundred()
    with desk(tmp_path) as at:
        text = json.dumps({"name": "many", "targetBranch": "t", "maxParallel": MAX_PARALLEL, "jobs": jobs})
        done = at.run("run", at.plan(text, "plan.json"), "--repo", repo.path, "--json")
        assert (done.code, done.json["counts"]["succeeded"]) == (0, 200)
        events = at.ask("runs", "events", "last")["events"]
    names = {node["id"]: node["producerId"] for node in done.json["nodes"]}
    order = {job["producerId"]: index for index, job in enumerate(jobs)}
    dependents = {name: sum(name in (job["dependencies"] or ()) for job in jobs) for name in order}
    ready = {job["producerId"] for job in jobs if not job["dependencies"]}
    at_work: set[str] = set()
    started, most = [], 0
    for event in events:
        if event["type"] != "NODE_MOVED":
            continue
        name, to = names[event["nodeId"]], event["to"]
        if to == "ready":
            ready.add(name)
        elif to == "scheduled":
            assert name == min(ready, key=lambda one: (-dependents[one], order[one]))
            ready.remove(name)
            started.append(name)
        (at_work.add if to in ("scheduled", "running") else at_work.discard)(name)
        most = max(most, len(at_work))
    assert started[:HUBS] == [f"hub-{n}" for n in range(HUBS, 0, -1)]
    assert len(started) == 200
    assert most == MAX_PARALLEL
