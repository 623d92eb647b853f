"""Where secrets of the server, and the key of the models' endpoint, are not: while real agents work, and afterwards."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.flow import Repo, make_repo
from tests.support.living import kept, living
from tests.support.models.parts import hold, run_shell, say
from tests.support.models.server import ModelServer
from tests.support.real_agents import KEY, PATIENCE_S, find_agents, for_owners, job, plan, settings
from tests.support.terminal import desk

pytestmark = pytest.mark.timeout(300)

AGENTS = ("copilot", "claude", "codex", "opencode", "gemini", "copilot-acp", "claude-acp")

PLANTED = {
    name: f"planted-{name.lower().replace('_', '-')}-0123456789abcdef"
    for name in (
        *("SOME_SERVICE_TOKEN", "DATABASE_PASSWORD", "PLAINLY_NAMED", "PILOTHOUSE_OWN"),
        # What each of them looks for, were it not sent to an endpoint of the user's own.
        *("GITHUB_TOKEN", "GH_TOKEN", "COPILOT_GITHUB_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        *("CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    )
}


def _files_with(value: str, where: Path) -> Iterator[Path]:
    for path in sorted(where.rglob("*")):
        if path.is_file() and not path.is_symlink() and value.encode() in path.read_bytes():
            yield path


def _objects(repo: Repo) -> str:
    """All that git keeps of a repository: commits and files, reachable or not."""
    done = subprocess.run(
        ["git", "-C", str(repo.path), "cat-file", "--batch-all-objects", "--batch"], check=True, capture_output=True
    )
    return done.stdout.decode("utf-8", "replace")


def test_secrets_of_the_server_and_the_key_of_the_models_are_where_they_belong_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_agents(monkeypatch)
    repo = make_repo(tmp_path / "repo")
    # The shell of each tells its environment as it is, but for the one key that may be in it.
    scripts = {
        agent: (run_shell(f"env; env | grep -v fake-key > {agent}.txt"), (say("Done."), hold("end")))
        for agent in AGENTS
    }
    with (
        ModelServer(scripts) as server,
        desk(tmp_path, **PLANTED, **for_owners(settings(server.url_of, AGENTS))) as at,
    ):
        text = plan(*(job(agent, agent) for agent in AGENTS), more="maxParallel: 16")
        assert at.run("run", at.plan(text), "--repo", repo.path, "--detach").code == 0
        server.wait_for(lambda _: server.holding == len(AGENTS), PATIENCE_S)
        server_environ = Path(f"/proc/{at.owner().pid}/environ").read_bytes()
        assert all(value.encode() in server_environ for value in (*PLANTED.values(), KEY))
        alive = kept(at.data_dir, living())
        assert len(alive) >= len(AGENTS)
        for one in alive:
            found = [name for name, value in PLANTED.items() if value.encode() in one.environ or value in one.command]
            assert found == [], one
            assert KEY not in one.command
        server.let_go("end")
        ended = at.run("plan", "show", "last", "--follow", "--json")
        assert ended.code == 0, ended
        dump = "\n".join(at.run("plan", "logs", "last", agent).out for agent in AGENTS)

    assert repo.files("result") == {"README.md", *(f"{agent}.txt" for agent in AGENTS)}
    with sqlite3.connect(at.data_dir / "pilothouse.db") as database:
        dump += "\n".join(database.iterdump())
    kept_by_git = _objects(repo)
    for agent in AGENTS:
        assert f"PILOTHOUSE_NODE={agent}\n" in repo.show("result", f"{agent}.txt")
    for value in PLANTED.values():
        assert [*_files_with(value, at.data_dir), *_files_with(value, repo.path)] == []
        assert value not in dump + kept_by_git
    assert KEY not in dump + kept_by_git
    # Some hand their key on to their shells: what a shell prints is then in their own notes, closed to others.
    for path in _files_with(KEY, at.data_dir):
        _, _, whose, *_ = path.relative_to(at.data_dir / "agents").parts
        assert whose == "state", path
