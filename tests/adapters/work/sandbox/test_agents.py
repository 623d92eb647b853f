"""Real agent CLIs, confined to their worktree and to one model server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.adapters.work.sandbox.setting import Setting
from tests.support.agent_clis import AGENTS
from tests.support.agent_commands import COMMANDS, Job
from tests.support.models.parts import say, write_file
from tests.support.models.server import ModelServer
from tests.support.needs import need_agents

from pilothouse.adapters.work.sandbox.wrap import sandboxed
from pilothouse.core.plan.spec import Network, SandboxSpec


@pytest.mark.timeout(180)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_works_confined_with_its_state_and_its_model_alone(setting: Setting, agent: str) -> None:
    programs = need_agents()
    state = setting.data_dir / "agents" / agent
    state.mkdir(parents=True)
    with ModelServer({agent: [[write_file("made.txt", "by an agent\n")], say("Done.")]}) as server:
        command = COMMANDS[agent](programs / agent, Job("Make it", setting.worktree, state, server.url_of(agent)))
        wrapped = sandboxed(
            command.argv,
            {**command.env, "PATH": f"{programs}:{command.env['PATH']}"},
            spec=SandboxSpec(network=Network.LIMITED),
            worktree=setting.worktree,
            private=setting.private,
            data_dir=setting.data_dir,
            writable=[state],
            addresses=[server.url_of(agent)],
        )
        done = subprocess.run(
            wrapped.argv,
            env=wrapped.env,
            cwd=setting.worktree,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert Path(setting.worktree, "made.txt").read_text() == "by an agent\n", done.stdout
        assert wrapped.env["HOME"] == str(state)
