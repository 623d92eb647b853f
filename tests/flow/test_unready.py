"""A server whose conversations lack something: it starts, says so, runs plans, and refuses messages with the reason."""

from __future__ import annotations

from pathlib import Path

from tests.support.flow import make_repo
from tests.support.terminal import desk

PLAN = "name: hi\njobs: [{producerId: hi, task: Say hi, work: 'echo hi > hi.txt'}]\n"


def test_without_a_model_key_a_server_runs_plans_and_says_what_conversations_lack(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    with desk(tmp_path, PILOTHOUSE_BACKEND="llm") as at:
        server = at.start("serve", "--port", "0", "--no-open")
        server.says("/login?token=")
        assert server.err.count("PILOTHOUSE_LLM_API_KEY") == 1
        assert at.run("run", at.plan(PLAN), "--repo", repo.path).code == 0
        said = at.run("chat", "hello")
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("error: nobody can answer: ") and "PILOTHOUSE_LLM_API_KEY" in said.err
        assert at.run("runs", "list", "--kind", "turn").out == ""
        models = at.run("models")
        assert (models.code, "PILOTHOUSE_LLM_API_KEY" in models.err) == (1, True)
        server.press_ctrl_c()
        assert server.wait().code == 0
