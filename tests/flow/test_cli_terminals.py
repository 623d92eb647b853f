"""Several terminals on one machine: one server, and Ctrl-C that means one run only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.flow import Repo, make_repo
from tests.support.terminal import Desk, desk, held, until


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path) as made:
        yield made


def _plan(at: Desk, name: str) -> Path:
    """A plan of one node that waits for the file ``open-NAME`` once it has made ``here-NAME``."""
    work = held(at.path / f"open-{name}", f"echo {name} > {name}", at.path / f"here-{name}")
    return at.plan(
        f"name: {name}\ntargetBranch: {name}\njobs: [{{producerId: a, task: t, work: '{work}'}}]", f"{name}.yaml"
    )


def test_ctrl_c_in_one_of_two_terminals_stops_its_run_and_leaves_the_other_alone(at: Desk, repo: Repo) -> None:
    one = at.start("run", _plan(at, "one"), "--repo", repo.path)
    two = at.start("run", _plan(at, "two"), "--repo", repo.path)
    until(lambda: (at.path / "here-one").exists() and (at.path / "here-two").exists())
    owner = at.only_owner()
    one.press_ctrl_c()
    stopped = one.wait()
    assert stopped.code == 130
    assert "stopped" in stopped.out
    assert "pilothouse plan resume" in stopped.out
    (at.path / "open-two").touch()
    assert two.wait().code == 0
    assert at.only_owner() == owner
    plans = {plan["name"]: plan["status"] for plan in at.ask("plan", "list")["plans"]}
    assert plans == {"one": "stopped", "two": "succeeded"}
    assert repo.show("two", "two") == "two\n"
    assert not Path("/proc", (at.path / "here-one").read_text().strip()).exists()


def test_a_second_ctrl_c_leaves_the_run_and_says_how_to_reach_it(at: Desk, repo: Repo) -> None:
    run = at.start("run", _plan(at, "one"), "--repo", repo.path)
    until((at.path / "here-one").exists)
    warden = at.warden_pid()
    os.kill(warden, signal.SIGSTOP)  # so that the stop takes as long as the test likes
    try:
        run.press_ctrl_c()
        run.says("Ctrl-C again leaves before it has ended")
        run.press_ctrl_c()
        left = run.wait()
    finally:
        os.kill(warden, signal.SIGCONT)
    assert left.code == 130
    [plan] = at.ask("plan", "list")["plans"]
    assert f"pilothouse plan show {plan['id'][:13]} --follow" in left.err
    until(lambda: at.ask("plan", "show", "last")["status"] == "stopped")


def test_ctrl_c_while_following_leaves_the_plan_running(at: Desk, repo: Repo) -> None:
    at.run("run", _plan(at, "one"), "--repo", repo.path, "--detach")
    until((at.path / "here-one").exists)
    retold = at.start("runs", "events", "last", "--follow")
    following = at.sit_down("plan", "show", "last", "--follow")
    following.shows("running")
    following.press_ctrl_c()
    left = following.wait()
    assert left.code == 130
    assert "goes on without you" in left.out
    (at.path / "open-one").touch()
    assert retold.wait().code == 0
    assert at.ask("plan", "show", "last")["status"] == "succeeded"


def test_a_terminal_shows_a_live_tree_and_takes_a_typed_ctrl_c(at: Desk, repo: Repo) -> None:
    screen = at.sit_down("run", _plan(at, "one"), "--repo", repo.path)
    until((at.path / "here-one").exists)
    screen.shows("running")
    screen.press_ctrl_c()
    said = screen.wait()
    assert said.code == 130
    assert "\x1b[" in said.out
    assert "stopped" in said.out
