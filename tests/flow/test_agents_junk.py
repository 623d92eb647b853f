"""Programs that go by the names of agent CLIs and print what no agent should, or never end."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.support.flow import Repo, engine, make_repo, run, run_plan
from tests.support.living import with_marker
from tests.support.real_agents import job, plan

from pilothouse.core.plan.agent_events import AgentEvent, AgentFileEdited, AgentNoted, AgentText
from pilothouse.core.run.events import Recorded

pytestmark = pytest.mark.timeout(300)

AGENTS = ("copilot", "claude", "codex", "opencode", "gemini")
TRANSCRIPTS = Path(__file__).parents[1] / "adapters" / "agents" / "transcripts"
"""What the real ones print."""

PROGRAM = """\
#!/bin/sh
[ "$1" = --version ] && echo 99.0.0 && exit
cat > /dev/null
{script}
"""
TOLD = 'echo made > made.txt; sed "s#/work-tree#$PWD#g" {transcript}'
EDITS_BY_ITS_SHELL = frozenset({"codex"})
HAS_NO_LAST_WORD = frozenset({"opencode"})
"""So nobody can tell that it only lingers; a timeout ends it."""
A_LOT = 100_000_000
"""Bytes."""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


def _ran(repo: Repo, script: str, agents: tuple[str, ...] = AGENTS) -> tuple[dict[str, Any], list[Recorded]]:
    """The nodes of a plan, by their agents, and all its events; every agent is a program that does ``script``."""
    root, found = repo.path.parent, {}
    for agent in agents:
        program = root / f"{agent}-program"
        transcript = TRANSCRIPTS / agent / "success.jsonl"
        program.write_text(PROGRAM.format(script=script.format(transcript=transcript)), encoding="utf-8")
        program.chmod(0o755)
        found[agent] = {"command": [str(program)]}

    async def journey() -> tuple[dict[str, Any], list[Recorded]]:
        async with engine(root / "data", agents=found) as services:
            ended = await run_plan(services, repo, plan(*(job(agent, agent) for agent in agents)))
            events = await services.queries.events(ended["planId"], 0, 100_000)
            return {one["producerId"]: one for one in ended["nodes"]}, events

    return run(journey())


def _of(kind: type[AgentEvent], nodes: dict[str, Any], events: list[Recorded], agent: str) -> list[Any]:
    told = [one.event for one in events]
    return [one for one in told if isinstance(one, kind) and one.node_id == nodes[agent]["id"]]


def test_binary_between_events_hides_none_of_them(repo: Repo) -> None:
    junk = "head -c 20000 /dev/urandom; echo"
    nodes, events = _ran(repo, f"{junk}; {TOLD}; {junk}")
    for agent in AGENTS:
        assert nodes[agent]["status"] == "succeeded", nodes[agent]["error"]
        assert "".join(one.text for one in _of(AgentText, nodes, events, agent)).strip() == "hello.txt is written."
        edited = [one.path for one in _of(AgentFileEdited, nodes, events, agent)]
        assert edited == ([] if agent in EDITS_BY_ITS_SHELL else ["hello.txt"])
        assert nodes[agent]["usage"]["toolCalls"] == 2
        assert _of(AgentNoted, nodes, events, agent)


@pytest.mark.parametrize("program", ["head -c 20000 /dev/urandom", "true", "echo '{{}}'; echo '[]'; echo null"])
def test_what_never_says_how_it_went_has_failed_for_that_reason(repo: Repo, program: str) -> None:
    nodes, _ = _ran(repo, f"echo made > made.txt; {program}")
    for agent in AGENTS:
        assert nodes[agent]["status"] == "failed"
        assert re.match("it ended without (saying how its work went|an answer that is its last)", nodes[agent]["error"])


@pytest.mark.parametrize(
    ("agent", "junk"),
    [
        ("copilot", "head -c {size} /dev/urandom"),
        ("claude", "head -c {size} /dev/zero | tr '\\0' x"),
        (
            "copilot",
            "yes '[\"not an event, and the next one is none either, nor the one behind it\"]' | head -c {size}",
        ),
    ],
    ids=["binary", "one line", "lines"],
)
def test_a_hundred_megabytes_fill_no_log_and_the_end_is_still_seen(repo: Repo, agent: str, junk: str) -> None:
    nodes, events = _ran(repo, f"{junk.format(size=A_LOT)}; echo; {TOLD}", (agent,))
    assert nodes[agent]["status"] == "succeeded", nodes[agent]["error"]
    assert len(events) < 1000
    assert sum(len(one.event.text) for one in events if isinstance(one.event, AgentNoted | AgentText)) < 1 << 20


def test_what_lingers_after_its_last_word_has_succeeded_and_is_ended_with_all_it_forked(repo: Repo) -> None:
    marker = uuid.uuid4().hex
    linger = f"setsid sleep 600 & (MARKER={marker} setsid sleep 600 &) & MARKER={marker} sleep 600"
    agents = tuple(agent for agent in AGENTS if agent not in HAS_NO_LAST_WORD)
    nodes, _ = _ran(repo, f"{TOLD}; {linger}", agents)
    for agent in agents:
        assert nodes[agent]["status"] == "succeeded", nodes[agent]["error"]
    assert with_marker(marker) == []


def test_what_ends_and_leaves_a_child_that_holds_its_output_is_not_waited_for(repo: Repo) -> None:
    marker = uuid.uuid4().hex
    nodes, _ = _ran(repo, f"{TOLD}; MARKER={marker} setsid sleep 600 &")
    for agent in AGENTS:
        assert nodes[agent]["status"] == "succeeded", nodes[agent]["error"]
    assert with_marker(marker) == []
