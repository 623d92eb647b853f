"""Everything that can be wrong with what people give: exit 2, one clear sentence on stderr, and nothing was created."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.support.flow import Repo, make_repo
from tests.support.terminal import Desk, Said, desk

from pilothouse.interfaces.cli.client import Client

JOB: dict[str, Any] = {"producerId": "a", "task": "t", "work": "true"}
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@dataclass(frozen=True)
class World:
    """What stays as it is whatever is refused: a repository, a server without a plan. Shared, as nothing may change."""

    at: Desk
    repo: Repo
    server: Client

    def seen(self) -> dict[str, object]:
        """All that a plan could have created or changed."""
        worktrees = self.at.data_dir / "worktrees"
        return {
            "runs": self.server.get("/api/runs")["runs"],
            "repositories": self.server.get("/api/repos")["repos"],
            "refs": self.repo.git("for-each-ref"),
            "worktrees": self.repo.git("worktree", "list", "--porcelain"),
            "checkout": self.repo.git("status", "--porcelain", "--branch", "--ignored"),
            "directories": sorted(worktrees.rglob("*")) if worktrees.exists() else [],
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    path = tmp_path_factory.mktemp("bad-input")
    repo = make_repo(path / "repo")
    repo.git("branch", "kept/as-it-is")
    with desk(path, PILOTHOUSE_IDLE_TIMEOUT="600") as at:
        assert at.ask("plan", "list") == {"plans": []}
        yield World(at, repo, Client(at.owner().socket))


def refused(said: Said, *words: str) -> None:
    """Exit 2 and one sentence, that holds all of ``words``, with nothing on stdout."""
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1, said.err
    assert said.err.rstrip("\n").isprintable(), repr(said.err)
    for word in words:
        assert word in said.err


def plan(*jobs: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"name": "bad", **fields, "jobs": list(jobs) or [JOB]})


def job(**fields: Any) -> str:
    """A plan of one job; None leaves a field out."""
    return plan({name: value for name, value in {**JOB, **fields}.items() if value is not None})


def work(**fields: Any) -> str:
    return job(work={"type": "shell", "command": "true", **fields})


Case: TypeAlias = tuple[str | bytes, tuple[str, ...]]

FILES: dict[str, Case] = {
    # What kind of file it is.
    "empty-file": (b"", ("empty",)),
    "only-comments": ("# nothing\n", ("empty",)),
    "binary-file": (bytes(range(256)), ("plan.yaml", "UTF-8")),
    "nul-bytes": (b"name: x\0y\n", ("plan.yaml", "binary")),
    "not-utf-8": ("name: é".encode("latin-1"), ("plan.yaml", "UTF-8")),
    "ten-megabytes": (b"name: x\njobs: []\n" + b"# more\n" * 1_500_000, ("plan.yaml", "larger than 1 MiB")),
    "yaml-bomb": (BOMB, ("plan.yaml", "'*a', line 2", "aliases")),
    "yaml-alias-to-itself": ("name: x\njobs: &a [*a]\n", ("plan.yaml", "aliases")),
    "yaml-tag": ("name: !!python/object/apply:os.system [id]\n", ("plan.yaml", "tag")),
    "two-documents": ("name: a\n---\nname: b\n", ("plan.yaml", "document")),
    "broken-yaml": ("name: [a\njobs: }\n", ("plan.yaml", "line 2")),
    "broken-json": ('{"name": "a",\n "jobs": [}', ("plan.yaml", "line 2")),
    "duplicate-key": ("name: a\nname: b\njobs: []\n", ("'name'", "twice")),
    "nested-too-deep": ("name: " + "[" * 2000 + "]" * 2000, ("plan.yaml", "deep")),
    "not-a-mapping": ("- a\n- b\n", ("not a mapping",)),
    "just-text": ("make it good\n", ("not a mapping",)),
    # What it says as a whole.
    "no-name": ('{"jobs": []}', ("name", "required")),
    "blank-name": (plan(name="  "), ("name", "blank")),
    "name-of-two-lines": (plan(name="a\nb"), ("name", "one line")),
    "nul-in-text": (job(task="a\0b"), ("jobs[0].task", "control character")),
    "no-jobs": ("name: x\n", ("jobs", "at least one job")),
    "empty-jobs": ("name: x\njobs: []\n", ("jobs", "at least one job")),
    "jobs-no-list": ("name: x\njobs: {a: b}\n", ("jobs", "list")),
    "unknown-field": (plan(maxParalel=3), ("maxParalel", "'maxParallel'")),
    "field-not-built": (plan(resumeAfterPlan="x"), ("resumeAfterPlan", "not built yet")),
    "negative-max-parallel": (plan(maxParallel=-1), ("maxParallel", "at least 0")),
    "text-for-a-number": (plan(maxParallel="four"), ("maxParallel", "whole number")),
    "number-for-a-truth": (plan(startPaused=1), ("startPaused", "true or false")),
    "unknown-merge-strategy": (plan(mergeStrategy="rebase"), ("mergeStrategy", "'squash'")),
    "both-spellings": (plan(maxParallel=1, max_parallel=2), ("maxParallel", "both spellings")),
    # Names that lead elsewhere.
    "producer-id-traverses": (job(producerId="../../etc"), ("jobs[0].producerId", "../../etc")),
    "group-traverses": (job(group="a/../../b"), ("jobs[0].group", "group name")),
    "cwd-traverses": (work(cwd="../.."), ("jobs[0].work.cwd", "leads outside")),
    "cwd-absolute": (work(cwd="/etc"), ("jobs[0].work.cwd", "leads outside")),
    "script-traverses": (
        job(work={"type": "agent", "agent": "scripted", "script": "../secrets.yaml"}),
        ("jobs[0].work.script", "leads outside"),
    ),
    "target-branch-traverses": (plan(targetBranch="../main"), ("targetBranch", "branch name")),
    "target-branch-is-an-option": (plan(targetBranch="--force"), ("targetBranch", "branch name")),
    "target-branch-with-space": (plan(targetBranch="a b"), ("targetBranch", "branch name")),
    "target-branch-locked": (plan(targetBranch="a.lock"), ("targetBranch", "branch name")),
    "target-branch-is-HEAD": (plan(targetBranch="HEAD"), ("targetBranch", "HEAD")),
    "target-branch-of-ours": (plan(targetBranch="refs/heads/x"), ("targetBranch", "refs/")),
    "target-branch-below-another": (plan(targetBranch="main/x"), ("targetBranch", "'main/x'", "another name")),
    "target-branch-above-another": (plan(targetBranch="kept"), ("targetBranch", "'kept'", "another name")),
    "base-branch-is-a-range": (plan(baseBranch="main..other"), ("baseBranch", "branch name")),
    "base-branch-is-missing": (plan(baseBranch="nowhere"), ("baseBranch", "nowhere")),
    "base-of-a-job-is-missing": (job(baseBranch="nowhere"), ("jobs[0].baseBranch", "nowhere")),
    # What the jobs say of each other.
    "duplicate-producer-id": (plan(JOB, JOB), ("jobs[1].producerId", "'a'", "jobs[0]")),
    "unknown-dependency": (job(dependencies=["b"]), ("jobs[0].dependencies[0]", "'b'", "valid ids: 'a'")),
    "self-dependency": (job(dependencies=["a"]), ("jobs[0].dependencies[0]", "itself")),
    "cycle": (
        plan(*({**JOB, "producerId": one, "dependencies": [other]} for one, other in ("ab", "bc", "ca"))),
        ("jobs[0].dependencies[0]", "a → b → c → a"),
    ),
    "base-branch-below-the-roots": (
        plan(JOB, {**JOB, "producerId": "b", "dependencies": ["a"], "baseBranch": "main"}),
        ("jobs[1].baseBranch", "without dependencies"),
    ),
    # What one job says.
    "no-producer-id": (job(producerId=None), ("jobs[0].producerId", "required")),
    "no-task": (job(task=None), ("jobs[0].task", "required")),
    "work-of-a-wrong-type": (job(work=7), ("jobs[0].work", "text or a mapping")),
    "tool-work": (job(work={"type": "tool", "name": "x"}), ("jobs[0].work.type", "'tool'", "not built yet")),
    "task-work": (job(work={"type": "task", "steps": []}), ("jobs[0].work.type", "'task'", "not built yet")),
    "work-without-a-type": (job(work={"command": "true"}), ("jobs[0].work.type", "required")),
    "unknown-agent": (
        job(work={"type": "agent", "agent": "nobody", "instructions": "x"}),
        ("jobs[0].work.agent", "nobody"),
    ),
    "agent-without-its-script": (
        job(work={"type": "agent", "agent": "scripted"}),
        ("jobs[0].work.script", "scripted"),
    ),
    "unknown-shell": (work(shell="fish"), ("jobs[0].work.shell", "'fish'")),
    "shell-not-built": (work(shell="pwsh"), ("jobs[0].work.shell", "not built yet")),
    "negative-timeout": (work(timeout=-1), ("jobs[0].work.timeout", "at least 0")),
    "endless-number": (work(timeout=10**40), ("number",)),
    "bad-name-of-a-variable": (work(env={"A B": "x"}), ("jobs[0].work.env", "'A B'", "name of a variable")),
    "inherits-what-is-ours": (
        plan(inheritEnv=["PILOTHOUSE_DATA_DIR"]),
        ("inheritEnv[0]", "'PILOTHOUSE_DATA_DIR' never"),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_plan_file_that_is_wrong_is_refused_in_one_sentence_and_leaves_no_trace(world: World, kind: str) -> None:
    content, words = FILES[kind]
    file = world.at.path / "plan.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = world.seen()
    refused(world.at.run_here("run", file, "--repo", world.repo.path), *words)
    assert world.seen() == before


def test_a_refused_plan_ends_the_process_with_2_and_json_stays_silent(world: World) -> None:
    before = world.seen()
    for said in (
        world.at.run("run", "-", "--repo", world.repo.path, stdin=b"name: x"),
        world.at.run("run", "-", "--repo", world.repo.path, "--json", stdin=b"name: x"),
    ):
        refused(said, "jobs", "at least one job")
    assert world.seen() == before


def _missing(path: Path) -> Path:
    return path / "nowhere"


def _no_repository(path: Path) -> Path:
    return path


def _file(path: Path) -> Path:
    (path / "file").touch()
    return path / "file"


def _bare(path: Path) -> Path:
    repo = make_repo(path / "source")
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(path / "bare"))
    return path / "bare"


def _detached(path: Path) -> Path:
    repo = make_repo(path / "detached")
    repo.git("checkout", "--quiet", "--detach")
    return repo.path


def _unborn(path: Path) -> Path:
    Repo(path).git("init", "--quiet")
    return path


REPOSITORIES: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "missing": (_missing, ("repoPath", "does not exist")),
    "no-repository": (_no_repository, ("repoPath", "not a git repository")),
    "a-file": (_file, ("repoPath", "not a directory")),
    "bare": (_bare, ("repoPath", "bare repository")),
    "detached-head": (_detached, ("baseBranch", "HEAD is detached")),
    "unborn-branch": (_unborn, ("baseBranch", "no commit yet")),
}


@pytest.mark.parametrize("kind", REPOSITORIES)
def test_a_repository_that_cannot_be_worked_in_is_refused_and_left_alone(
    world: World, tmp_path: Path, kind: str
) -> None:
    make, words = REPOSITORIES[kind]
    file = tmp_path / "plan.json"
    file.write_text(plan())
    path = make(tmp_path)
    before, files = world.seen(), sorted(tmp_path.rglob("*"))
    refused(world.at.run_here("run", file, "--repo", path), *words)
    assert world.seen() == before
    assert sorted(tmp_path.rglob("*")) == files


def _dangling(path: Path) -> Path:
    (path / "dangling").symlink_to(path / "nowhere")
    return path / "dangling"


def _endless(path: Path) -> Path:
    (path / "endless").symlink_to(path / "endless")
    return path / "endless"


UNREADABLE: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "missing": (_missing, ("nowhere", "does not exist")),
    "a-directory": (_no_repository, ("is a directory",)),
    "a-dangling-link": (_dangling, ("dangling", "does not exist")),
    "a-link-to-itself": (_endless, ("endless", "cannot be read")),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_plan_file_that_cannot_be_read_is_refused_by_name(world: World, tmp_path: Path, kind: str) -> None:
    make, words = UNREADABLE[kind]
    before = world.seen()
    refused(world.at.run_here("run", make(tmp_path), "--repo", world.repo.path), *words)
    assert world.seen() == before


LINES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown-verb": (("ruin", "plan.yaml"), ("ruin", "'run'")),
    "unknown-verb-of-plan": (("plan", "stopp", "last"), ("stopp", "'stop'")),
    "unknown-option": (("run", "plan.yaml", "--repos", "."), ("--repos", "--repo")),
    "no-plan-file": (("run",), ("PLAN",)),
    "no-number": (("plan", "list", "--limit", "many"), ("--limit", "integer")),
    "unknown-status": (("plan", "list", "--status", "lost"), ("status", "'lost'", "running")),
    "unknown-plan": (("plan", "show", "0192f0c1-0000-7000-8000-000000000000"), ("0192f0c1",)),
    "unknown-beginning-of-an-id": (("plan", "show", "0192f0"), ("0192f0", "plan list")),
    "too-short-for-an-id": (("plan", "show", "0"), ("too short",)),
    "nothing-was-last": (("plan", "stop", "last"), ("no plan yet",)),
    "unknown-wait": (("approvals", "answer", "0192f0c1", "rerun"), ("0192f0c1",)),
    "two-parts-at-once": (("plan", "cancel", "last", "--node", "a", "--group", "b"), ("--node", "--group")),
    "repository-to-register": (("repo", "add", "/nowhere/at/all"), ("/nowhere/at/all", "does not exist")),
    "empty-repository": (("run", "plan.yaml", "--repo", ""), ("--repo", "empty")),
    "empty-data-directory": (("plan", "list", "--data-dir", ""), ("--data-dir", "empty")),
    "port-out-of-range": (("serve", "--port", "70000"), ("--port", "65535")),
    "data-directory-in-a-file": (("plan", "list", "--data-dir", "/dev/null/x"), ("/dev/null/x",)),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["", "json"])
@pytest.mark.parametrize("kind", LINES)
def test_a_command_line_that_is_wrong_is_refused_in_one_sentence(world: World, kind: str, as_json: bool) -> None:
    line, words = LINES[kind]
    before = world.seen()
    refused(world.at.run_here(*line, *(["--json"] if as_json else [])), *words)
    assert world.seen() == before


def test_a_setting_that_is_wrong_is_named_by_whoever_needs_it(tmp_path: Path) -> None:
    with desk(tmp_path, PILOTHOUSE_MAX_PARALLEL="0") as at:
        refused(at.run("plan", "list"), "PILOTHOUSE_MAX_PARALLEL", "greater than or equal to 1")
        refused(at.run("serve", "--no-open"), "PILOTHOUSE_MAX_PARALLEL", "greater than or equal to 1")


@pytest.fixture
def no_git(tmp_path: Path) -> str:
    """A PATH with everything a shell needs but git."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "bash", "cat", "sleep"):
        (programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    return str(programs)


@pytest.fixture
def old_git(tmp_path: Path) -> str:
    """A PATH on which git says that it is an old one."""
    programs = tmp_path / "old"
    programs.mkdir()
    git = programs / "git"
    answer = 'case " $* " in *" version "*) echo git version 2.25.1; exit;; esac'
    git.write_text(f'#!/bin/sh\n{answer}\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


@pytest.mark.parametrize(("which", "words"), [("no_git", ("git",)), ("old_git", ("git 2.38", "2.25.1"))])
def test_without_a_git_that_is_new_enough_doctor_and_submission_say_so(
    tmp_path: Path, request: pytest.FixtureRequest, which: str, words: tuple[str, ...]
) -> None:
    repo = make_repo(tmp_path / "repo")
    refs = repo.git("for-each-ref")
    with desk(tmp_path, PATH=request.getfixturevalue(which)) as at:
        doctor = at.run("doctor", "--json")
        assert doctor.code == 1
        [git] = [check for check in doctor.json["checks"] if check["name"] == "git"]
        assert not git["ok"]
        assert "install git 2.38" in git["fix"]
        told = at.run("doctor")
        assert told.code == 1
        assert "missing  git" in told.out
        refused(at.run("run", at.plan(plan()), "--repo", repo.path), *words)
        assert at.ask("plan", "list") == {"plans": []}
    assert repo.git("for-each-ref") == refs
