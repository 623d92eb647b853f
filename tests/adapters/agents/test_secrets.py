"""Secrets of the server, through a whole plan of agents: found neither in what is stored nor in what is committed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.flow import engine, make_repo, node, run, run_plan

TOKEN = "planted-token-0123456789"
QUOTED = 'planted "and" quoted \\ secret'
KEY = "planted-key-of-an-endpoint"
OTHER = {"acp": True, "command": ["another-agent"], "apiKeyEnv": "MY_ENDPOINT"}
DIGGING = """
- run: env > mine.txt; cat mine.txt
- run: tr '\\\\0' '\\\\n' < /proc/{pid}/environ
- run: tr '\\\\0' '\\\\n' < /proc/{pid}/environ >&2; exit 3
"""


def found_in(text: bytes) -> list[str]:
    return [secret for secret in (TOKEN, QUOTED, KEY) if secret.encode() in text]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the server will have, and what the process that runs it really has: so agents can dig it up."""
    found = {"DEPLOY_TOKEN": TOKEN, "QUOTED_SECRET": QUOTED, "MY_ENDPOINT": KEY}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def test_a_planted_secret_is_found_nowhere_even_if_an_agent_digs_it_up(tmp_path: Path, planted: dict[str, str]) -> None:
    # The environment of a process that was started with the secrets, as a server is.
    server = subprocess.Popen(["sleep", "300"], env={**os.environ, **planted})
    try:
        plan = run(_play(tmp_path, DIGGING.replace("{pid}", str(server.pid))))
    finally:
        server.kill()
        server.wait()
    assert node(plan, "digger")["error"] == "the command exited with 3"
    repo = tmp_path / "repo"
    committed = subprocess.run(
        ["git", "-C", str(repo), "log", "-p", "--all", "--reflog"], capture_output=True, check=True
    ).stdout
    assert found_in(committed) == []
    kept = [place for place in (tmp_path / "data").rglob("*") if place.is_file()]
    assert [b"PILOTHOUSE_NODE=digger" in place.read_bytes() for place in kept if place.name == "mine.txt"] == [True]
    assert any(b"[redacted]" in place.read_bytes() for place in kept)
    assert [(str(place), secrets) for place in kept if (secrets := found_in(place.read_bytes()))] == []


async def _play(tmp_path: Path, replies: str) -> dict[str, Any]:
    repo = make_repo(tmp_path / "repo", {"r.yaml": replies})
    async with engine(tmp_path / "data", agents={"other": OTHER}) as services:
        return await run_plan(
            services,
            repo,
            "name: dig\njobs: [{producerId: digger, task: t, work: {type: agent, agent: scripted, script: r.yaml}}]",
        )
