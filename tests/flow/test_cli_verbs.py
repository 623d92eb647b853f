"""The verbs, one after another as people use them: what they answer, and how they exit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.flow import Repo, make_repo
from tests.support.terminal import Desk, desk, held, until

PLAN_FIELDS = {
    "planId",
    "status",
    "counts",
    "progress",
    "repoPath",
    "baseCommit",
    "targetBranch",
    "targetCommit",
    "note",
    "groups",
    "usage",
    "nodes",
}
NODE_FIELDS = {
    "id",
    "producerId",
    "name",
    "group",
    "status",
    "dependencies",
    "attempts",
    "phases",
    "error",
    "waits",
    "startedAt",
    "endedAt",
    "baseCommit",
    "completedCommit",
    "worktreePath",
    "usage",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path) as made:
        yield made


def _node(plan: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [node for node in plan["nodes"] if node["producerId"] == name]
    return dict(found)


def test_run_answers_one_json_value_and_its_exit_code_says_how_it_ended(at: Desk, repo: Repo) -> None:
    good = "{producerId: good, task: t, group: g, work: 'echo hello; echo 1 > good'}"
    bad = "{producerId: bad, task: t, work: 'echo oops >&2; exit 7'}"
    cases = {
        (0, "succeeded"): f"name: all\ntargetBranch: all\njobs: [{good}]",
        (1, "failed"): f"name: none\ntargetBranch: none\njobs: [{bad}]",
        (3, "partial"): f"name: some\ntargetBranch: some\njobs: [{good}, {bad}]",
    }
    for (code, status), text in cases.items():
        said = at.run("run", at.plan(text), "--repo", repo.path, "--json")
        assert (said.code, said.json["status"]) == (code, status), said
        assert set(said.json) >= PLAN_FIELDS
        for node in said.json["nodes"]:
            assert set(node) >= NODE_FIELDS
        assert f"{said.json['nodes'][0]['producerId']}: running" in said.err
    failed = _node(said.json, "bad")
    assert failed["phases"]["work"]["exitCode"] == 7
    assert said.json["targetCommit"] == repo.git("rev-parse", "some").strip()
    assert repo.git("status", "--porcelain") == ""
    listed = at.ask("plan", "list")["plans"]
    assert [plan["name"] for plan in listed] == ["some", "none", "all"]
    assert {"id", "name", "status", "counts", "progress", "createdAt"} <= set(listed[0])
    [only] = at.ask("plan", "list", "--status", "failed")["plans"]
    assert only["name"] == "none"


def test_a_plan_may_come_from_stdin_and_run_in_the_current_directory(at: Desk, repo: Repo) -> None:
    text = b"name: piped\njobs: [{producerId: a, task: t, work: 'echo 1 > a'}]"
    said = at.run("run", "-", "--json", cwd=repo.path, stdin=text)
    assert said.code == 0
    assert said.json["repoPath"] == str(repo.path)
    assert said.json["targetBranch"] == "pilothouse/piped"
    assert repo.files("pilothouse/piped") == {"README.md", "a"}


def test_a_terminal_that_knows_no_unicode_ends_no_run_and_gets_sound_json(at: Desk, repo: Repo) -> None:
    at.env["PYTHONIOENCODING"] = "ascii"
    said = at.run(
        "run", at.plan("name: café ✓\njobs: [{producerId: a, task: t, work: 'echo é | tee a'}]"), "--repo", repo.path
    )
    assert said.code == 0, said
    assert "caf\\xe9" in said.out
    assert at.run("plan", "show", "last", "--json").json["name"] == "café ✓"
    assert at.run("plan", "logs", "last", "a", "--json").json["text"] == "é\n"
    for line in at.run("runs", "events", "last").out.splitlines():
        json.loads(line)
    first = at.run("runs", "events", "last", "--follow").out.splitlines()[0]
    assert json.loads(first)["name"] == "café ✓"


def test_a_detached_plan_is_shown_followed_stopped_resumed_and_deleted(at: Desk, repo: Repo) -> None:
    gate, here = tmp(at, "gate"), tmp(at, "here")
    text = f"name: held\ntargetBranch: t\njobs: [{{producerId: a, task: t, work: '{held(gate, 'echo 1 > a', here)}'}}]"
    said = at.run("run", at.plan(text.replace("work: '", "work: 'echo printed; ")), "--repo", repo.path, "--detach")
    assert said.code == 0
    plan_id = said.out.strip()
    assert f"plan show {plan_id[:13]} --follow" in said.err
    until(here.exists)
    for name in (plan_id, plan_id[:13], plan_id[:13].upper(), "last"):
        assert at.ask("plan", "show", name)["planId"] == plan_id
    shown = at.run("plan", "show", "last")
    assert "running" in shown.out
    logs = at.ask("plan", "logs", "last", "a")
    assert (logs["node"], logs["text"]) == ("a", "printed\n")
    assert at.run("plan", "logs", "last").out == "==> a <==\nprinted\n"
    refused = at.run("plan", "delete", "last")
    assert refused.code == 2
    assert "stop or cancel it first" in refused.err

    stopped = at.run("plan", "stop", "last")
    assert (stopped.code, stopped.err) == (0, "")
    assert "stopped" in stopped.out
    paused = at.run("plan", "pause", "last")
    assert (paused.code, paused.out) == (2, "")
    gate.touch()
    resumed = at.run("plan", "resume", "last", "--follow", "--json")
    assert (resumed.code, resumed.json["status"]) == (0, "succeeded")
    assert repo.show("t", "a") == "1\n"

    assert at.run("plan", "delete", "last").code == 0
    assert at.ask("plan", "list") == {"plans": []}
    gone = at.run("plan", "show", plan_id, "--json")
    assert (gone.code, gone.out) == (2, "")
    assert gone.err.startswith("error: ")
    assert repo.show("t", "a") == "1\n"
    assert repo.git("for-each-ref", "refs/pilothouse") == ""


def test_a_failed_node_is_retried_and_its_change_shown_and_exported(at: Desk, repo: Repo) -> None:
    flag = tmp(at, "flag")
    text = f"name: again\ntargetBranch: t\njobs: [{{producerId: a, task: t, work: 'echo 1 > a; test -f {flag}'}}]"
    assert at.run("run", at.plan(text), "--repo", repo.path).code == 1
    flag.touch()
    retried = at.run("plan", "retry", "last", "--node", "a", "--follow", "--json")
    assert (retried.code, _node(retried.json, "a")["attempts"]) == (0, 2)
    diff = at.run("plan", "diff", "last", "a")
    assert diff.code == 0
    assert "+1" in diff.out
    exported = at.run("plan", "export", "last")
    again = at.run("run", at.plan(exported.out, "again.yaml"), "--json")
    assert (again.code, again.json["name"]) == (0, "again")


def test_a_paused_plan_starts_nothing_until_it_is_resumed(at: Desk, repo: Repo) -> None:
    gate, here = tmp(at, "gate"), tmp(at, "here")
    work = held(gate, "echo 1 > a", here)
    text = (
        f"name: paused\ntargetBranch: t\njobs:\n  - {{producerId: a, task: t, work: '{work}'}}\n"
        "  - {producerId: b, task: t, work: 'echo 1 > b', dependencies: [a]}\n"
    )
    run = at.start("run", at.plan(text), "--repo", repo.path)
    until(here.exists)
    assert at.run("plan", "pause", "last").code == 0
    assert at.ask("plan", "show", "last")["status"] == "pausing"
    gate.touch()
    run.says("paused: `pilothouse plan resume")
    plan = at.ask("plan", "show", "last")
    assert (plan["status"], _node(plan, "a")["status"]) == ("paused", "succeeded")
    assert _node(plan, "b")["attempts"] == 0
    assert at.run("plan", "resume", "last").code == 0
    assert run.wait().code == 0


def test_what_nobody_can_know_after_a_crash_waits_for_an_answer(at: Desk, repo: Repo) -> None:
    ledger, gate, here = tmp(at, "ledger"), tmp(at, "gate"), tmp(at, "here")
    work = f"echo ran >> {ledger}; {held(gate, 'echo 1 > a', here)}"
    text = f"name: review\ntargetBranch: t\njobs: [{{producerId: a, task: t, work: '{work}'}}]"
    run = at.start("run", at.plan(text), "--repo", repo.path, "--json")
    until(here.exists)
    assert at.ask("approvals", "list") == {"approvals": []}
    owner, warden = at.owner().pid, at.warden_pid()
    os.kill(owner, signal.SIGKILL)
    os.kill(warden, signal.SIGKILL)
    run.says("pilothouse approvals answer")  # the client has started another server by itself
    [wait] = at.ask("approvals", "list")["approvals"]
    assert (wait["kind"], wait["runName"]) == ("review", "review")
    wrong = at.run("approvals", "answer", wait["id"], "perhaps")
    assert wrong.code == 2
    for option in wait["options"]:
        assert option in wrong.err
    gate.touch()
    assert at.run("approvals", "answer", wait["id"], "rerun").code == 0
    assert at.run("approvals", "answer", wait["id"], "rerun").code == 2
    said = run.wait()
    assert (said.code, _node(said.json, "a")["attempts"]) == (0, 2)
    assert ledger.read_text() == "ran\nran\n"


def test_ids_may_be_shortened_as_long_as_they_mean_one_plan(at: Desk, repo: Repo) -> None:
    assert at.run("plan", "show", "last").code == 2
    plan = at.plan("name: quick\njobs: [{producerId: a, task: t, work: 'true', expectsNoChanges: true}]")
    ids = [at.run("run", plan, "--repo", repo.path, "--json").json["planId"] for _ in range(2)]
    common = ids[0][: next(i for i, (one, other) in enumerate(zip(*ids, strict=True)) if one != other)]
    ambiguous = at.run("plan", "show", common)
    assert ambiguous.code == 2
    assert "2 of them begin with" in ambiguous.err
    for plan_id in ids:
        assert at.ask("plan", "show", plan_id[: len(common) + 1])["planId"] == plan_id


def tmp(at: Desk, name: str) -> Path:
    return at.path / name


def test_a_plan_that_starts_paused_says_what_starts_it(at: Desk, repo: Repo) -> None:
    text = "name: later\nstartPaused: true\njobs: [{producerId: a, task: A, expectsNoChanges: true, work: 'true'}]\n"
    said = at.run("run", at.plan(text), "--repo", repo.path, "--detach")
    assert said.code == 0
    starts = f"pilothouse plan resume {said.out[:13]}"
    assert starts in said.err
    assert starts in at.run("plan", "show", "last").out
    assert at.run("plan", "resume", "last", "--follow").code == 0
    assert at.run("plan", "logs", "last", "a").err == "nothing was printed\n"
