"""Stop, while eight real agents are in the middle of a sentence or of a command of theirs."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.flow import closes_leg, engine, eventually, make_repo, run, submit, until
from tests.support.models.parts import hang, run_shell, say, write_file
from tests.support.models.server import ModelServer
from tests.support.real_agents import find_agents, job, one_for_all, plan, settings

from pilothouse.core.run.events import StopAcknowledged, Stopped, StopRequested

pytestmark = pytest.mark.timeout(180)

TALKING = ("copilot", "claude", "copilot-acp", "claude-acp")
RUNNING = ("copilot", "claude", "copilot-acp", "claude-acp")
PROMISED_MS = 500
BUSY = 10
"""How much longer anything may take where tests run beside each other on a machine that is not theirs."""


class Process(NamedTuple):
    """``began`` tells it from a later one of the same number."""

    pid: int
    began: str
    parent: int
    command: str
    marked: bool


def _processes(marker: str) -> list[Process]:
    """All that live, which zombies do not; ``marked`` are those that have the marker in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent, *rest = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            marked = marker.encode() in (entry / "environ").read_bytes()
        except OSError:
            continue  # it has just ended
        if state != "Z":
            found.append(Process(int(entry.name), rest[17], int(parent), command, marked))
    return found


def _below(keepers: set[int], processes: list[Process]) -> set[tuple[int, str]]:
    """All that keepers keep, without these: number and beginning of each process."""
    found: set[tuple[int, str]] = set()
    parents = keepers
    while more := {(one.pid, one.began) for one in processes if one.parent in parents and one.pid not in keepers}:
        found |= more
        parents = {pid for pid, _ in more}
    return found


def test_nothing_of_eight_live_agents_is_left_when_it_is_stopped_and_their_edits_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")
    worktrees, marker = tmp_path / "data" / "worktrees", uuid.uuid4().hex
    edit = write_file("edited.txt", "half\n")
    scripts = {
        **{f"talks-{n}": (edit, (say("In the middle "), hang())) for n in range(len(TALKING))},
        **{
            # A shell that is waited for, and a child of it that has left its session.
            f"runs-{n}": (edit, run_shell("setsid sleep 600 & touch begun; sleep 600"))
            for n in range(len(RUNNING))
        },
    }
    jobs = [job(name, agent, f"Do {name}") for name, agent in zip(scripts, (*TALKING, *RUNNING), strict=True)]

    async def journey(server: ModelServer) -> None:
        agents = settings(one_for_all(server), {*TALKING, *RUNNING})
        async with engine(tmp_path / "data", agents=agents) as services:
            plan_id = await submit(services, repo, plan(*jobs, more=f"maxParallel: 8\nenv: {{MARKER: {marker}}}"))

            async def in_the_middle() -> tuple[int, int]:
                return server.holding, len(list(worktrees.glob("*/*/*/begun")))

            await eventually(in_the_middle, lambda seen: seen == (len(TALKING), len(RUNNING)))
            before = _processes(marker)
            trees = _below({one.pid for one in before if f" {tmp_path / 'data'} " in one.command}, before)
            assert {(one.pid, one.began) for one in before if one.marked} <= trees
            assert len(trees) >= len(jobs) + 2 * len(RUNNING)

            await services.runs.control(plan_id, "stop")
            await until(services, plan_id, closes_leg)
            after = _processes(marker)
            assert [one for one in after if one.marked or (one.pid, one.began) in trees] == []

            async def rescued() -> list[str]:
                nodes = (await services.queries.plan(plan_id))["nodes"]
                return [one["rescueRef"] for one in nodes if one["rescueRef"]]

            refs = await eventually(rescued, lambda refs: len(refs) == len(jobs))
            events = await services.queries.events(plan_id, 0, 100_000)
            stopped = await services.queries.plan(plan_id)
        assert [repo.show(ref, "edited.txt") for ref in refs] == ["half\n"] * len(jobs)
        assert {one["status"] for one in stopped["nodes"]} == {"ready"}
        at = {type(recorded.event): recorded.at for recorded in events}
        names = [recorded.event.type_name() for recorded in events]
        assert [name for name in names if name.startswith("STOP")] == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STOPPED"]
        assert "PHASE_STARTED" not in names[names.index("STOP_REQUESTED") :]
        took = at[Stopped] - at[StopRequested]
        sys.stdout.write(f"acknowledged after {at[StopAcknowledged] - at[StopRequested]} ms, stopped after {took} ms\n")
        assert took < PROMISED_MS * BUSY

    with ModelServer(scripts) as server:
        run(journey(server))
