"""Stop, on real process trees that do not want to die."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.flow import closes_leg, engine, eventually, finished, make_repo, node, run, submit, until

from pilothouse.core.plan.events import PhaseStarted, WorkRescued
from pilothouse.core.run.events import Recorded, StopAcknowledged, Stopped, StopRequested

STUBBORN = """
name: stubborn
jobs:
  - producerId: tree
    task: fork everything
    work:
      type: shell
      shell: bash
      command: |
        echo edited > edited
        trap '' TERM
        (trap '' TERM; setsid bash -c "trap '' TERM; echo $$ >> %(pids)s; while true; do sleep 0.05; done") &
        (env -i PATH=$PATH bash -c "trap '' TERM; while true; do sleep 0.05; done" & ) &
        (setsid setsid sh -c 'sleep 600 & sleep 600 & wait' &) &
        touch %(here)s
        while true; do sleep 0.05; done
  - {producerId: after, task: t, work: "echo after > after", dependencies: [tree]}
"""


def _alive(marker: str) -> list[tuple[int, str, str]]:
    """Processes (id, name, end of command line) that have the marker in their environment or command line, or work in
    such a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            cwd = str((entry / "cwd").readlink())
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
        except OSError:
            continue
        # Once all is still, git saves the edits; it is a child of ours, what is stopped never was.
        ours = os.getpid() in (int(entry.name), int(parent)) or name == "git"
        if state != "Z" and (marker.encode() in text or marker in cwd) and not ours:
            found.append((int(entry.name), name, text[-200:].decode(errors="replace")))
    return found


def _names(events: list[Recorded]) -> list[str]:
    return [recorded.event.type_name() for recorded in events]


def test_a_stop_leaves_nothing_alive_and_says_so_in_order(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        here = tmp_path / "here"
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, STUBBORN % {"here": here, "pids": tmp_path / "pids"})
            await eventually(_exists(here), bool)
            worktree = node(await services.queries.plan(plan_id), "tree")["worktreePath"]
            assert _alive(worktree)
            await services.runs.control(plan_id, "stop")
            await until(services, plan_id, closes_leg)
            assert _alive(worktree) == []
            rescued = (await until(services, plan_id, lambda r: isinstance(r.event, WorkRescued)))[-1].event
            assert isinstance(rescued, WorkRescued)
            events = await services.queries.events(plan_id)
            plan = await services.queries.plan(plan_id)
        assert repo.show(rescued.ref, "edited") == "edited\n"
        names = _names(events)
        assert [n for n in names if n.startswith("STOP")] == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STOPPED"]
        acknowledged = names.index("STOP_ACKNOWLEDGED")
        assert "PHASE_STARTED" not in names[acknowledged:]
        assert names.index("WORK_RESCUED") > names.index("STOPPED")
        stop = {type(r.event): r.at for r in events}
        assert stop[StopRequested] <= stop[StopAcknowledged] <= stop[Stopped]
        assert (plan["status"], node(plan, "tree")["status"]) == ("stopped", "ready")

    run(journey())


def test_a_stopped_plan_can_be_resumed_and_its_half_done_work_starts_in_a_clean_worktree(tmp_path: Path) -> None:
    slow = """
name: slow
targetBranch: result
jobs:
  - producerId: work
    task: t
    work: "test ! -e half; echo half > half; touch %(here)s; while [ ! -f %(go)s ]; do sleep 0.02; done; mv half whole"
"""

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        here, go = tmp_path / "here", tmp_path / "go"
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, slow % {"here": here, "go": go})
            await eventually(_exists(here), bool)
            await services.runs.control(plan_id, "stop")
            await until(services, plan_id, lambda r: isinstance(r.event, WorkRescued))
            go.touch()
            seq = (await services.queries.run(plan_id)).seq
            await services.runs.control(plan_id, "resume")
            plan = await finished(services, plan_id, after=seq)
            detail = await services.queries.node(plan_id, "work")
        assert plan["status"] == "succeeded"
        assert [a["triggerType"] for a in detail["attemptHistory"]] == ["initial", "resumed"]
        assert repo.files("result") == {"README.md", "whole"}
        assert repo.show(detail["attemptHistory"][0]["rescueRef"], "half") == "half\n"

    run(journey())


def test_a_stop_is_idempotent_and_of_a_finished_run_it_changes_nothing(tmp_path: Path) -> None:
    quick = "name: quick\njobs: [{producerId: a, task: t, work: 'echo a > a'}]"

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, quick)
            await finished(services, plan_id)
            before = await services.queries.run(plan_id)
            for _ in range(2):
                assert (await services.runs.control(plan_id, "stop")).lifecycle == "SUCCEEDED"
            assert (await services.queries.run(plan_id)).seq == before.seq

    run(journey())


def test_stop_everything_stops_every_run(tmp_path: Path) -> None:
    endless = "name: endless\njobs: [{producerId: a, task: t, work: 'sleep 600'}]"

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            ids = [await submit(services, repo, endless) for _ in range(3)]
            for plan_id in ids:
                await until(services, plan_id, lambda r: isinstance(r.event, PhaseStarted) and r.event.phase == "work")
            stopped = await services.runs.stop_everything()
            assert {row.id for row in stopped} == set(ids)
            for plan_id in ids:
                assert (await finished(services, plan_id))["status"] == "stopped"

    run(journey())


def _exists(path: Path):  # type: ignore[no-untyped-def]  # an awaitable question about a file
    async def question() -> bool:
        return path.exists()

    return question


def test_a_stop_does_not_wait_for_a_commit_that_waits_for_something(tmp_path: Path) -> None:
    waits = "name: waits\njobs:\n  - {producerId: a, task: t, work: 'mkfifo .gitattributes; echo x > made'}\n"

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, waits)
            await until(services, plan_id, lambda r: isinstance(r.event, PhaseStarted) and r.event.phase == "commit")
            await services.runs.control(plan_id, "stop")
            stopped = await finished(services, plan_id)
            assert (stopped["status"], node(stopped, "a")["status"]) == ("stopped", "ready")
            assert node(stopped, "a")["phases"]["commit"]["status"] == "interrupted"

    run(journey())
