"""The server dies or changes while people watch: their commands go on, and what runs does not notice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
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


def _plan(at: Desk) -> Path:
    """``first``, then ``held`` until the file ``gate`` is there, then ``last``. What runs says so in ``ledger``."""
    ledger = at.path / "ledger"
    jobs = {
        "first": "echo 1 > first",
        "held": held(at.path / "gate", "echo 1 > held", at.path / "here"),
        "last": "echo 1 > last",
    }
    text = "name: long\ntargetBranch: t\njobs:\n"
    for index, (name, work) in enumerate(jobs.items()):
        needs = f", dependencies: [{list(jobs)[index - 1]}]" if index else ""
        text += f"  - {{producerId: {name}, task: t, work: 'echo {name} $$ >> {ledger}; {work}'{needs}}}\n"
    return at.plan(text)


def _ran_once(at: Desk) -> dict[str, int]:
    """The pid of each node's command; none ran twice."""
    lines = [line.split() for line in (at.path / "ledger").read_text().splitlines()]
    assert len({name for name, _ in lines}) == len(lines)
    return {name: int(pid) for name, pid in lines}


def _told_once(out: str, *names: str) -> None:
    lines = Counter(line.partition("] ")[2].partition(" in ")[0] for line in out.splitlines() if line.startswith("["))
    for name in names:
        assert lines[f"{name}: running"] == 1, out
        assert lines[f"{name}: succeeded"] == 1, out
    assert max(lines.values()) == 1, out


def test_when_the_server_is_killed_the_client_starts_another_and_tells_everything_once(at: Desk, repo: Repo) -> None:
    run = at.start("run", _plan(at), "--repo", repo.path)
    until((at.path / "here").exists)
    run.says("held: running")
    pid = _ran_once(at)["held"]
    killed = at.owner().pid
    os.kill(killed, signal.SIGKILL)
    run.says("the server was restarted")
    assert at.owner().pid != killed
    assert Path(f"/proc/{pid}").exists()
    (at.path / "gate").touch()
    said = run.wait()
    assert (said.code, said.err) == (0, "")
    _told_once(said.out, "first", "held", "last")
    assert _ran_once(at)["held"] == pid
    assert repo.files("t") == {"README.md", "first", "held", "last"}
    assert at.only_owner() != killed
    events = at.ask("runs", "events", "last")["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_a_kill_between_two_nodes_of_many_loses_no_line_and_runs_nothing_twice(at: Desk, repo: Repo) -> None:
    ledger = at.path / "ledger"
    text = "name: many\ntargetBranch: t\nmaxParallel: 3\njobs:\n"
    for n in range(12):
        work = f"echo n{n} $$ >> {ledger}; sleep 0.0{n % 5}; echo 1 > f{n}"
        text += f"  - {{producerId: n{n}, task: t, work: '{work}'}}\n"
    run = at.start("run", at.plan(text), "--repo", repo.path)
    for _ in range(2):
        before = run.out.count(": succeeded in")
        until(lambda: run.out.count(": succeeded in") >= before + 2)  # noqa: B023  # called within the same turn
        os.kill(at.owner().pid, signal.SIGKILL)
        run.says("the server was restarted")
    said = run.wait()
    assert said.code == 0
    for n in range(12):
        assert said.out.count(f"] n{n}: running") == 1, said.out
        assert said.out.count(f"] n{n}: succeeded") == 1, said.out
    assert set(_ran_once(at)) == {f"n{n}" for n in range(12)}


def test_serve_takes_over_in_the_middle_of_a_run_whose_node_goes_on(at: Desk, repo: Repo) -> None:
    run = at.start("run", _plan(at), "--repo", repo.path)
    until((at.path / "here").exists)
    pid, background = _ran_once(at)["held"], at.owner().pid
    serve = at.start("serve", "--port", "0", "--no-open")
    serve.says("/login?token=")
    until(lambda: background not in at.owner_pids())
    assert (at.owner().pid, at.owner().mode) == (serve.pid, "serve")
    assert Path(f"/proc/{pid}").exists()
    assert at.ask("plan", "show", "last")["status"] == "running"
    (at.path / "gate").touch()
    said = run.wait()
    assert said.code == 0
    _told_once(said.out, "first", "held", "last")
    assert _ran_once(at)["held"] == pid
    until(lambda: at.owner_pids() == [])  # one that a client started meanwhile gives way
    again = at.start("serve", "--port", "0", "--no-open").wait()
    assert (again.code, again.out) == (2, "")
    assert f"served already, by process {serve.pid}" in again.err
    serve.signal(signal.SIGTERM)
    assert serve.wait().code == 0


def test_a_background_server_ends_when_it_is_idle_and_the_next_verb_starts_one(at: Desk) -> None:
    at.env["PILOTHOUSE_IDLE_TIMEOUT"] = "0.3"
    assert at.ask("plan", "list") == {"plans": []}
    until(lambda: not at.owner_pids())
    assert not (at.data_dir / "owner.json").exists()
    assert at.ask("plan", "list") == {"plans": []}


def test_who_has_other_settings_by_now_gets_another_background_server(at: Desk) -> None:
    config = at.path / "config.toml"
    at.env["PILOTHOUSE_CONFIG"] = str(config)
    at.ask("plan", "list")
    first = at.only_owner()
    at.ask("plan", "list")
    assert at.only_owner() == first
    config.write_text("max_parallel = 3\n", encoding="utf-8")
    at.ask("plan", "list")
    second = at.only_owner()
    assert second != first
    at.env["PILOTHOUSE_MAX_PARALLEL"] = "4"
    at.ask("plan", "list")
    assert at.only_owner() != second


def test_other_settings_wait_until_nothing_runs_on_a_background_server_and_that_is_said(at: Desk, repo: Repo) -> None:
    run = at.start("run", _plan(at), "--repo", repo.path)
    until((at.path / "here").exists)
    owner = at.only_owner()
    at.env["PILOTHOUSE_MAX_PARALLEL"] = "3"
    listed = at.run("plan", "list", "--json")
    assert listed.code == 0 and "yours hold once what it runs has ended" in listed.err
    assert at.only_owner() == owner
    (at.path / "gate").touch()
    assert run.wait().code == 0


def test_a_background_server_is_set_by_the_env_file_of_where_its_client_was(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".env").write_text("PILOTHOUSE_LOG_LEVEL=loud\n", encoding="utf-8")
    command = [sys.executable, "-m", "pilothouse.app", "owner", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "PILOTHOUSE_LOG_LEVEL" in done.stderr
