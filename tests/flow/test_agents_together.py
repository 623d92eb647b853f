"""Four different agents at once in one plan, from the command line: their work is joined, and outlives its server."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from tests.support.flow import Repo, make_repo
from tests.support.models.parts import hold, say, think, usage, write_file
from tests.support.models.server import ModelServer
from tests.support.real_agents import PATIENCE_S, find_agents, for_owners, job, plan, settings
from tests.support.terminal import Desk, desk, until

pytestmark = pytest.mark.timeout(300)

FOUR = ("copilot", "claude", "codex", "opencode")
ALL_OF_IT = {"README.md", "joined", *(f"{agent}.txt" for agent in FOUR)}


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    find_agents(monkeypatch)
    return make_repo(tmp_path / "repo")


def _four_and_a_join(at: Desk) -> Path:
    join = f"  - {{producerId: join, task: t, dependencies: [{', '.join(FOUR)}], work: 'cat *.txt > joined'}}\n"
    return at.plan(plan(*(job(agent, agent) for agent in FOUR), join))


def test_four_different_agents_and_a_command_that_joins_their_work(tmp_path: Path, repo: Repo) -> None:
    scripts = {
        agent: (
            (think("Hm."), say("I write."), write_file(f"{agent}.txt", f"{agent}\n"), usage(1000 * n, 100, 50)),
            (say("Written."), usage(1000 * n, 10)),
        )
        for n, agent in enumerate(FOUR, 1)
    }
    with ModelServer(scripts) as server, desk(tmp_path, **for_owners(settings(server.url_of, FOUR))) as at:
        said = at.run("run", _four_and_a_join(at), "--repo", repo.path, "--json")
        assert (said.code, said.json["status"]) == (0, "succeeded"), said
        shown = at.run("plan", "show", "last").out
    assert repo.files("result") == ALL_OF_IT
    assert sorted(repo.show("result", "joined").split()) == sorted(FOUR)
    told = {words[0]: words for line in shown.splitlines() if (words := line.split())}
    assert told["USAGE"][1:5] == ["MODEL", "INPUT", "CACHED", "OUTPUT"], shown
    for n, agent in enumerate(FOUR, 1):
        assert told[agent][1:5] == ["fake-1", f"{2000 * n:,}", "50", "110"], shown
    assert told["all"][1:4] == ["20,000", "200", "440"], shown


def test_four_agents_go_on_when_their_server_is_killed_and_killed_again(tmp_path: Path, repo: Repo) -> None:
    scripts = {
        agent: (
            (say("One, "), hold("first"), say("two, "), write_file(f"{agent}.txt", f"{agent}\n")),
            (say("three, "), hold("second"), say("four.")),
        )
        for agent in FOUR
    }

    def kill(at: Desk) -> list[dict[str, object]]:
        """Answers the events that were shown before."""
        shown: list[dict[str, object]] = at.ask("runs", "events", "last")["events"]
        os.kill(at.only_owner(), signal.SIGKILL)
        until(lambda: not at.owner_pids())
        return shown

    with ModelServer(scripts) as server, desk(tmp_path, **for_owners(settings(server.url_of, FOUR))) as at:
        started = at.run("run", _four_and_a_join(at), "--repo", repo.path, "--detach")
        assert started.code == 0, started
        server.wait_for(lambda _: server.holding == len(FOUR), PATIENCE_S)
        lives = [kill(at)]
        server.let_go("first")
        # Nobody serves now, and still all of them write their files and ask their models what to do next.
        server.wait_for(lambda all: sum(one.asked is not None and one.asked.turns == 1 for one in all) == 4, PATIENCE_S)
        server.wait_for(lambda _: server.holding == len(FOUR), PATIENCE_S)
        assert at.owner_pids() == []
        assert at.ask("plan", "show", "last")["counts"]["running"] == len(FOUR)
        lives.append(kill(at))
        server.let_go("second")
        done = at.run("plan", "show", "last", "--follow", "--json")
        assert (done.code, done.json["status"]) == (0, "succeeded"), done
        events = at.ask("runs", "events", "last")["events"]
        assert len(server.questions) == 2 * len(FOUR), "no agent asked its model anything twice"

    assert repo.files("result") == ALL_OF_IT
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    for shown in lives:
        assert events[: len(shown)] == shown
    said: dict[str, str] = defaultdict(str)
    names = {node["id"]: node["producerId"] for node in done.json["nodes"]}
    for event in events:
        if event["type"] == "AGENT_TEXT":
            said[names[event["nodeId"]]] += event["text"]
    for agent in FOUR:
        assert [said[agent].count(word) for word in ("One,", "two,", "three,", "four.")] == [1] * 4, said
    assert {(node["status"], node["attempts"]) for node in done.json["nodes"]} == {("succeeded", 1)}
