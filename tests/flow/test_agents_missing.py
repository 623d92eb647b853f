"""Agents that are not there, or too old: said before anything of a plan exists."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.flow import Repo, make_repo
from tests.support.real_agents import job, plan
from tests.support.terminal import desk

INSTALL = {
    "copilot": "npm install -g @github/copilot",
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "opencode": "npm install -g opencode-ai",
    "gemini": "npm install -g @google/gemini-cli",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


@pytest.mark.parametrize("agent", INSTALL)
@pytest.mark.parametrize("there", ["missing", "too old"])
def test_an_agent_that_is_missing_or_too_old_is_named_with_how_to_install_it_and_nothing_is_created(
    agent: str, there: str, tmp_path: Path, repo: Repo
) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    if there == "too old":
        (bin_ / agent).write_text("#!/bin/sh\necho 0.0.1\n", encoding="utf-8")
        (bin_ / agent).chmod(0o755)
    before = repo.git("for-each-ref"), sorted(repo.path.rglob("*"))
    with desk(tmp_path, PATH=f"{bin_}:/usr/bin:/bin") as at:
        jobs = "  - {producerId: first, task: t, work: 'touch ran'}\n", job("second", agent)
        said = at.run("run", at.plan(plan(*jobs)), "--repo", repo.path)
        assert (said.code, said.out) == (2, ""), said
        assert "jobs[1].work" in said.err
        assert INSTALL[agent] in said.err
        assert ("0.0.1" if there == "too old" else "not installed") in said.err
        assert at.ask("plan", "list") == {"plans": []}
        assert list((at.data_dir / "worktrees").iterdir()) == []
    assert (repo.git("for-each-ref"), sorted(repo.path.rglob("*"))) == before
