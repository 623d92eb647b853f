"""Stop, while real agents are in the middle of a sentence or of a command of theirs; and going on from there."""

from __future__ import annotations

import sys
import uuid
from functools import partial
from pathlib import Path

import pytest
from tests.support.flow import closes_leg, engine, eventually, finished, make_repo, run, submit, until
from tests.support.living import kept, living, with_marker
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, hang, run_shell, say, write_file
from tests.support.models.script import ASIDE
from tests.support.models.server import ModelServer
from tests.support.real_agents import find_agents, job, one_for_all, plan, settings

from pilothouse.core.run.events import StopAcknowledged, Stopped, StopRequested

pytestmark = pytest.mark.timeout(300)

TALKING = ("copilot", "claude", "codex-acp", "gemini")
RUNNING = ("codex", "opencode", "copilot-acp", "claude-acp")


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
            f"runs-{n}": (edit, run_shell("setsid sleep 600 & touch begun; sleep 600"), hang())
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

            await eventually(in_the_middle, lambda seen: seen[0] >= len(TALKING) and seen[1] == len(RUNNING))
            before = living()
            trees = {one.key for one in kept(tmp_path / "data", before)}
            assert {one.key for one in with_marker(marker, before)} <= trees
            assert len(trees) >= len(jobs) + 2 * len(RUNNING)

            await services.runs.control(plan_id, "stop")
            await until(services, plan_id, closes_leg)
            after = living()
            assert with_marker(marker, after) == []
            assert [one for one in after if one.key in trees] == []

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
        stop = [name for name in names if name.startswith("STOP") and name != "STOP_DELAYED"]
        assert stop == ["STOP_REQUESTED", "STOP_ACKNOWLEDGED", "STOPPED"]
        assert "PHASE_STARTED" not in names[names.index("STOP_REQUESTED") :]
        took = at[Stopped] - at[StopRequested]
        sys.stdout.write(f"acknowledged after {at[StopAcknowledged] - at[StopRequested]} ms, stopped after {took} ms\n")

    with ModelServer(scripts) as server:
        run(journey(server))


RESUME = ("copilot", "claude", "codex", "opencode", "gemini", "claude-acp")


def _writes_two_files(name: str, asked: Asked) -> Turn:
    """A model that is cut short behind its first file, and writes the second when it is told to go on."""
    if not asked.tools:
        return ASIDE
    if not any("# Go on" in prompt for prompt in asked.prompts):
        return (say("Half a sen"), hang()) if asked.results else (write_file(f"{name}-1.txt", "1\n"),)
    return (say("Both are written."),) if len(asked.results) > 1 else (write_file(f"{name}-2.txt", "2\n"),)


def test_agents_that_were_stopped_go_on_with_their_conversations_in_their_worktrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")
    jobs = (job(agent, agent, f"Do as {agent} does") for agent in RESUME)

    async def journey(server: ModelServer) -> None:
        async with engine(tmp_path / "data", agents=settings(server.url_of, RESUME)) as services:
            plan_id = await submit(services, repo, plan(*jobs, more="maxParallel: 8"))

            async def cut_short() -> tuple[set[str], int]:  # who, not only how many: one may ask again
                asked = {one.script for one in server.questions if one.asked is not None and one.asked.results}
                return asked, server.holding

            await eventually(cut_short, lambda found: found[0] == set(RESUME) and found[1] >= len(RESUME))
            await services.runs.control(plan_id, "stop")
            await until(services, plan_id, closes_leg)
            before, seq = len(server.questions), (await services.queries.run(plan_id)).seq
            await services.runs.control(plan_id, "resume")
            ended = await finished(services, plan_id, seq)
        assert ended["status"] == "succeeded", [one["error"] for one in ended["nodes"]]
        assert repo.files("result") == {"README.md", *(f"{agent}-{n}.txt" for agent in RESUME for n in (1, 2))}
        went_on = {one.script: one.asked for one in reversed(server.questions[before:])}
        for agent in RESUME:
            asked = went_on[agent]
            assert asked is not None
            assert asked.turns > 0
            assert any(f"Do as {agent} does" in prompt for prompt in asked.prompts), "the earlier conversation is sent"
            assert asked.results

    with ModelServer({agent: partial(_writes_two_files, agent) for agent in RESUME}) as server:
        run(journey(server))
