"""From an effect to a command: argv, directory, environment, secrets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.adapters.agents.effects import PATH, effect, run, scripted

from pilothouse.adapters.agents.commands import CommandFactory
from pilothouse.adapters.agents.driver import AgentWork, Facts, Launch
from pilothouse.adapters.agents.registry import Drivers
from pilothouse.adapters.agents.scripted.driver import ScriptedAgent
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, ProcessSpec, Shell, ShellSpec, WorkSpec
from pilothouse.core.run.agents import AgentConfig, ToolServer
from pilothouse.core.run.commands import Command
from pilothouse.errors import BadInput

SECRETS = {
    "GITHUB_TOKEN": "ghp-secret-token",
    "PILOTHOUSE_LLM_API_KEY": "sk-secret-of-the-server",
    "PILOTHOUSE_DATABASE_URL": "postgresql://app:secret-password@db/pilothouse",
    "aws_secret_access_key": "secret/with+slashes",
    "DB_PASSWORD": "secret-password",
    "AUTH_HEADER": "Bearer secret",
}
HOST = {"PATH": PATH, "HOME": "/home/somebody", "LC_TIME": "C", "JAVA_HOME": "/java", "EDITOR": "ed"} | SECRETS


def make(worktree: Path, spec: WorkSpec | str, **changes: object) -> Command:
    return CommandFactory(HOST)(effect(worktree, spec, **changes))


class Needy(ScriptedAgent):
    """An agent that needs something."""

    facts = Facts(name="needy", title="Needy", variables=("NEEDY_API_KEY", "NOT_THERE"))

    def launch(self, work: AgentWork) -> Launch:
        return Launch(argv=("needy", work.instructions), env={"HOME": "/private", "NEEDY_TELEMETRY": "0"})


def test_a_shell_command_runs_as_one_line_of_the_shell_the_plan_names(worktree: Path) -> None:
    assert make(worktree, "a | b").argv == ("sh", "-c", "a | b")
    assert make(worktree, ShellSpec(command="a", shell=Shell.BASH)).argv == ("bash", "-c", "a")


def test_a_process_gets_its_arguments_unseen_by_any_shell(worktree: Path) -> None:
    assert make(worktree, ProcessSpec(executable="echo", args=("$HOME", "a b"))).argv == ("echo", "$HOME", "a b")


def test_a_command_keeps_its_output_timeout_and_grace(worktree: Path) -> None:
    command = make(worktree, ShellSpec(command="a", timeout_ms=1234))
    assert (command.output, command.timeout_ms, command.grace_ms) == ("p1/n1/1/work", 1234, 100)
    agent = CommandFactory(HOST)(scripted(worktree, "[]"))
    assert agent.grace_ms == 300


def test_a_command_is_told_who_it_is(worktree: Path) -> None:
    command = make(worktree, "a", attempt=3, phase=Phase.POSTCHECKS, plan_env={"PILOTHOUSE_NODE": "another"})
    assert {name: value for name, value in command.env.items() if name.startswith("PILOTHOUSE_")} == {
        "PILOTHOUSE_PLAN_ID": "p1",
        "PILOTHOUSE_NODE": "api",
        "PILOTHOUSE_NODE_ID": "n1",
        "PILOTHOUSE_ATTEMPT": "3",
        "PILOTHOUSE_PHASE": "postchecks",
        "PILOTHOUSE_EVIDENCE_FILE": f"{worktree}/.orchestrator/evidence/n1.json",
        "PILOTHOUSE_PYTHON": sys.executable,
    }


def test_the_spec_decides_over_the_plan_and_the_plan_over_the_host(worktree: Path) -> None:
    spec = ShellSpec(command="a", env={"ONE": "spec"})
    env = make(worktree, spec, plan_env={"ONE": "plan", "EDITOR": "plan", "SEEN": "$JAVA_HOME"}).env
    assert (env["ONE"], env["EDITOR"], env["SEEN"]) == ("spec", "plan", "/java")


def test_no_secret_of_the_host_reaches_a_command(worktree: Path) -> None:
    status, shown = run(make(worktree, "env", plan_env={"TRY": "$GITHUB_TOKEN${PILOTHOUSE_LLM_API_KEY}"}))
    assert status == 0
    assert "TRY=\n" in shown
    assert not [value for value in SECRETS.values() if value in shown]


def test_no_secret_of_the_host_reaches_an_agent(worktree: Path) -> None:
    status, shown = run(CommandFactory(HOST)(scripted(worktree, "- run: env")))
    assert status == 0
    assert not [value for value in SECRETS.values() if value in shown]


def test_a_secret_that_is_asked_for_is_given_and_blacked_out(worktree: Path) -> None:
    command = make(worktree, "a", inherit_env=("GITHUB_TOKEN", "JAVA_HOME_X", "EDITOR"))
    assert command.env["GITHUB_TOKEN"] == "ghp-secret-token"
    assert "DB_PASSWORD" not in command.env
    assert "ghp-secret-token" in command.redact


def test_the_servers_own_variables_cannot_be_asked_for(worktree: Path) -> None:
    with pytest.raises(BadInput, match=r"inheritEnv\[0\].*never reaches a command"):
        make(worktree, "a", inherit_env=("PILOTHOUSE_LLM_API_KEY",))


def test_every_secret_is_blacked_out_once_and_nothing_short(worktree: Path) -> None:
    host = HOST | {"SHORT_KEY": "1234567", "ALSO_TOKEN": SECRETS["GITHUB_TOKEN"], "PILOTHOUSE_DATA_DIR": "/data/of/it"}
    command = CommandFactory(host)(effect(worktree, "a", plan_env={"DEPLOY_TOKEN": "given by the plan"}))
    assert sorted(command.redact) == sorted(
        {*SECRETS.values(), "given by the plan"} - {SECRETS["PILOTHOUSE_DATABASE_URL"]}
    )


def test_what_is_asked_for_by_name_is_blacked_out_whatever_its_name(worktree: Path) -> None:
    host = {"LICENCE_NUMBER": "not like a secret"}
    assert CommandFactory(host)(effect(worktree, "a")).redact == ()
    assert CommandFactory(host)(effect(worktree, "a", inherit_env=("LICENCE_NUMBER",))).redact == ("not like a secret",)


def test_git_of_a_command_is_not_pointed_at_the_servers_repository(worktree: Path) -> None:
    host = {
        "PATH": PATH,
        "GIT_DIR": "/elsewhere",
        "GIT_INDEX_FILE": "/elsewhere/index",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": "Authorization: secret",
        "GIT_AUTHOR_NAME": "Somebody",
    }
    command = CommandFactory(host)(effect(worktree, "git rev-parse --show-toplevel"))
    assert run(command) == (0, f"{worktree}\n")
    assert [name for name in command.env if name.startswith("GIT_")] == ["GIT_AUTHOR_NAME"]


def test_a_command_starts_where_the_plan_says_and_believes_it(worktree: Path) -> None:
    (worktree / "a/b").mkdir(parents=True)
    command = make(worktree, ProcessSpec(executable="env", cwd="a/b"))
    assert command.cwd == f"{worktree}/a/b"
    assert f"PWD={worktree}/a/b\n" in run(command)[1]


@pytest.mark.parametrize("cwd", ["..", "a/../..", "/", "/tmp", "link", "link/deeper", "a\0b"])
def test_no_directory_outside_the_worktree_is_entered(worktree: Path, cwd: str) -> None:
    (worktree.parent / "outside/deeper").mkdir(parents=True)
    (worktree / "a").mkdir()
    (worktree / "link").symlink_to(worktree.parent / "outside")
    with pytest.raises(BadInput, match=r"cwd: .* leads outside the worktree"):
        make(worktree, ShellSpec(command="a", cwd=cwd))


def test_a_link_within_the_worktree_is_followed(worktree: Path) -> None:
    (worktree / "real").mkdir()
    (worktree / "link").symlink_to("real")
    assert make(worktree, ShellSpec(command="a", cwd="link")).cwd == f"{worktree}/real"


def test_a_directory_that_is_not_there_is_named(worktree: Path) -> None:
    (worktree / "file").touch()
    (worktree / "round").symlink_to("round")
    with pytest.raises(BadInput, match="cwd: 'gone' does not exist in the worktree"):
        make(worktree, ShellSpec(command="a", cwd="gone"))
    with pytest.raises(BadInput, match="cwd: 'file' is not a directory in the worktree"):
        make(worktree, ShellSpec(command="a", cwd="file"))
    with pytest.raises(BadInput, match="cwd: 'round'"):
        make(worktree, ShellSpec(command="a", cwd="round"))


def test_a_worktree_that_is_gone_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is gone"):
        make(tmp_path / "none", "a")


def test_an_agent_inherits_little_and_gets_what_the_plan_gives(worktree: Path) -> None:
    spec = AgentSpec(agent="scripted", script="r.yaml", env={"SPEC": "$JAVA_HOME"})
    work = effect(worktree, spec, plan_env={"PLAN": "1"}, inherit_env=("EDITOR",))
    env = CommandFactory(HOST)(work).env
    assert {name for name in env if not name.startswith("PILOTHOUSE_")} == {
        "PATH", "HOME", "LC_TIME", "EDITOR", "PLAN", "SPEC", "PWD"
    }  # fmt: skip
    assert env["SPEC"] == "/java"


def test_an_agent_gets_what_its_driver_needs_and_the_plan_decides_over_the_driver(worktree: Path) -> None:
    make = CommandFactory(HOST | {"NEEDY_API_KEY": "key of the agent"}, Drivers({}, {"needy": Needy()}, ()))
    command = make(effect(worktree, AgentSpec(agent="needy")))
    assert command.argv == ("needy", "Add the search endpoint")
    assert (command.env["NEEDY_API_KEY"], command.env["HOME"]) == ("key of the agent", "/private")
    assert "key of the agent" in command.redact
    assert make(effect(worktree, AgentSpec(agent="needy", env={"HOME": "/mine"}))).env["HOME"] == "/mine"


def test_the_secret_of_the_server_of_its_tools_is_no_variable_of_an_agent_and_is_blacked_out(worktree: Path) -> None:
    tools = ToolServer(name="ours", command=("serve",), env={"TOOLS_TOKEN": "token-of-the-turn", "TOOLS_SOCKET": "/s"})
    spec = AgentSpec(agent="needy")
    make = CommandFactory(HOST, Drivers({}, {"needy": Needy()}, ()))
    work = effect(worktree, spec, tools=tools)
    command = make(work)
    assert not {"TOOLS_TOKEN", "TOOLS_SOCKET"} & set(command.env)
    assert "token-of-the-turn" in command.redact
    assert "token-of-the-turn" in make.secrets(work, spec, Needy.facts, AgentConfig())
    assert "/s" not in command.redact


def test_an_agent_nobody_knows_is_refused(worktree: Path) -> None:
    with pytest.raises(BadInput, match=r"agent: there is no agent 'scriptd'; .*did you mean 'scripted'"):
        make(worktree, AgentSpec(agent="scriptd"))


def test_the_environment_of_this_process_is_not_looked_at(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "leaked")
    env = make(worktree, "a").env
    assert "LEAK" not in env
    assert os.environ["LEAK"] == "leaked"
