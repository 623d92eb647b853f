"""How Codex is launched: what its arguments, its variables and its directory hold."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import some_work

from pilothouse.adapters.agents.codex.driver import Codex
from pilothouse.adapters.agents.driver import AgentWork, Program
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import AgentConfig, Permissions, ToolServer
from pilothouse.errors import BadInput

CODEX = Codex()
OWN = AgentConfig(base_url="http://127.0.0.1:4000/v1", api_key_env="OWN_KEY", model="fake-1")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    (tmp_path / "private" / "runs" / "one").mkdir(parents=True)
    return tmp_path / "private"


def work(private: Path, **changes: Any) -> AgentWork:
    given: dict[str, Any] = {
        "private": str(private),
        "run": str(private / "runs" / "one"),
        "program": Program(argv=("/bin/codex",)),
        "prompt": "Go",
        "env": {"HOME": str(private / "home"), "OWN_KEY": "secret-key"},
    }
    return some_work(**given | changes)


def test_it_works_in_the_worktree_unasked_and_takes_its_prompt_over_standard_input(private: Path) -> None:
    launch = CODEX.launch(work(private, model="gpt-x", effort=Effort.HIGH, allowed_folders=("/data",)))

    assert launch.argv[:5] == ("/bin/codex", "exec", "--json", "-C", "/work-tree")
    assert launch.argv[-1] == "-"
    assert launch.stdin == "Go"
    assert {'sandbox_mode="danger-full-access"', 'approval_policy="never"', 'model_reasoning_effort="high"'} <= set(
        launch.argv
    )
    assert launch.argv[launch.argv.index("-m") :][:2] == ("-m", "gpt-x")
    assert launch.argv[launch.argv.index("--add-dir") :][:2] == ("--add-dir", "/data")


def test_with_a_login_of_the_users_it_works_in_the_users_directory(private: Path) -> None:
    launch = CODEX.launch(work(private))

    assert "CODEX_HOME" not in launch.env
    assert not (private / "codex").exists()
    assert "chatgpt.com:443" in launch.hosts


@pytest.mark.parametrize("env", [{"OWN_KEY": "secret-key"}, {"CODEX_API_KEY": "secret-key"}])
def test_with_a_key_it_works_in_a_directory_of_its_own(private: Path, env: dict[str, str]) -> None:
    config = OWN if "OWN_KEY" in env else AgentConfig()

    launch = CODEX.launch(work(private, config=config, env={"HOME": "/nowhere", **env}))

    assert launch.env == {"CODEX_HOME": str(private / "codex")}
    assert (private / "codex").is_dir()
    assert not any("secret-key" in argument for argument in launch.argv)


def test_to_an_endpoint_of_the_users_own_it_is_told_the_way_and_where_the_key_is(private: Path) -> None:
    launch = CODEX.launch(work(private, config=OWN))

    assert {
        'model_provider="pilothouse"',
        'model_providers.pilothouse.base_url="http://127.0.0.1:4000/v1"',
        'model_providers.pilothouse.env_key="OWN_KEY"',
        'shell_environment_policy.exclude=["OWN_KEY"]',
    } <= set(launch.argv)
    assert launch.hosts == ("127.0.0.1:4000",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": AgentConfig(base_url="http://127.0.0.1:1", model="m", api="completions")}, "speaks responses"),
        ({"config": AgentConfig(base_url="http://127.0.0.1:1")}, "agents.codex.model"),
        ({"permissions": Permissions.ASK}, "codex-acp"),
    ],
)
def test_what_it_cannot_do_is_refused(private: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        CODEX.launch(work(private, **changes))


def test_a_replies_file_is_for_another_agent() -> None:
    with pytest.raises(BadInput, match="script"):
        CODEX.check(AgentSpec(agent="codex", script="r.yaml"), Permissions.ALLOW)


def test_not_permitted_it_may_only_read(private: Path) -> None:
    assert 'sandbox_mode="read-only"' in CODEX.launch(work(private, permissions=Permissions.DENY)).argv


def test_a_thread_goes_on_where_it_is_kept(private: Path) -> None:
    thread = "01a1fe7d-c2a6-7690-89aa-038c9ffc8d7a"
    file = (
        private / "home" / ".codex" / "sessions" / "2026" / "11" / "21" / f"rollout-2026-11-21T14-19-43-{thread}.jsonl"
    )
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    again = work(private, session_id=thread, config=OWN)

    launch = CODEX.launch(again)

    assert launch.argv[-3:] == ("resume", thread, "-")
    assert "CODEX_HOME" not in launch.env
    assert launch.stdin == "Go"
    file.unlink()
    assert CODEX.launch(again).argv[-3:] == ("resume", thread, "-"), "a run begins once"


@pytest.mark.parametrize("thread", ["01a1fe7d-c2a6-7690-89aa-038c9ffc8d7a", "../../x", "-x"])
def test_a_thread_that_is_gone_is_begun_anew(private: Path, thread: str) -> None:
    launch = CODEX.launch(work(private, session_id=thread, opening="All of it"))

    assert "resume" not in launch.argv
    assert launch.stdin == "All of it"


def test_a_login_is_found_without_asking_anybody(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert CODEX.login(env, AgentConfig()).ok is False
    assert CODEX.login(env, OWN).ok
    assert CODEX.login({**env, "CODEX_API_KEY": "k"}, AgentConfig()).how == "CODEX_API_KEY"

    credentials = tmp_path / ".codex" / "auth.json"
    credentials.parent.mkdir()
    for content, ok in (("{", False), ("[]", False), ("{}", False), ('{"tokens": {"id_token": "x"}}', True)):
        credentials.write_text(content)
        assert CODEX.login(env, AgentConfig()).ok is ok
    credentials.write_text('{"OPENAI_API_KEY": "k"}')
    assert CODEX.login(env, AgentConfig()).how == "logged in with an API key"


def test_models_are_those_it_shows_in_the_order_of_its_catalogue() -> None:
    models = [
        {"slug": "gpt-old", "visibility": "list", "priority": 9, "base_instructions": "…"},
        {"slug": "gpt-new", "visibility": "list", "priority": 1},
        {"slug": "review", "visibility": "hide", "priority": 0},
    ]

    assert CODEX.models_from(json.dumps({"models": models})) == ("gpt-new", "gpt-old")
    assert CODEX.models_from("not logged in") == ()
    assert CODEX.models_command(Program(argv=("codex", "x"))) == ("codex", "x", "debug", "models")


@pytest.mark.skipif(platform.machine() != "x86_64" or os.name != "posix", reason="the packages are named by machine")
def test_the_program_behind_the_loader_is_started(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    loader = modules / "@openai" / "codex" / "bin" / "codex.js"
    system, name = ("linux", "unknown-linux-musl") if platform.system() == "Linux" else ("darwin", "apple-darwin")
    program = modules / "@openai" / f"codex-{system}-x64" / "vendor" / f"x86_64-{name}" / "bin" / "codex"
    for file in (loader, program):
        file.parent.mkdir(parents=True)
        file.touch(0o755)
    link = tmp_path / "codex"
    link.symlink_to(loader)

    assert CODEX.native(str(link)) == (str(program),)
    program.unlink()
    assert CODEX.native(str(link)) == (str(link),)


TOOLS = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})


@pytest.mark.parametrize("permissions", [Permissions.ALLOW, Permissions.DENY])
def test_a_server_of_tools_is_given_beside_the_users_own_and_its_tools_are_allowed(
    private: Path, permissions: Permissions
) -> None:
    given = work(private, tools=TOOLS, permissions=permissions)
    launch = CODEX.launch(given)
    program, *arguments = sealed(given)

    assert {
        f"mcp_servers.ours_tools.command={json.dumps(program)}",
        f"mcp_servers.ours_tools.args={json.dumps(arguments, separators=(',', ':'))}",
        'mcp_servers.ours_tools.default_tools_approval_mode="approve"',
        "mcp_servers.ours_tools.required=true",
        "mcp_servers.ours_tools.startup_timeout_sec=120",
        "mcp_servers.ours_tools.tool_timeout_sec=86400",
    } <= set(launch.argv)
    assert "the-secret" not in str(launch)


@pytest.mark.parametrize("permissions", [Permissions.ALLOW, Permissions.DENY])
def test_a_server_of_tools_changes_nothing_else(private: Path, permissions: Permissions) -> None:
    without = CODEX.launch(work(private, permissions=permissions))
    launch = CODEX.launch(work(private, tools=TOOLS, permissions=permissions))

    def others(argv: tuple[str, ...]) -> list[str]:
        return [word for word in argv if word != "-c" and not word.startswith("mcp_servers.ours_tools.")]

    assert others(launch.argv) == others(without.argv)
    assert (launch.env, launch.stdin, launch.hosts) == (without.env, without.stdin, without.hosts)


@pytest.mark.parametrize(
    ("config", "disabled"),
    [
        ('[mcp_servers.ours]\nurl = "http://127.0.0.1:9"', True),
        ('[mcp_servers.others]\nurl = "http://127.0.0.1:9"', False),
        ("mcp_servers = 1", False),
        ("no toml", False),
        (None, False),
    ],
)
def test_a_server_of_the_users_own_with_the_same_tools_is_off_for_once(
    private: Path, config: str | None, disabled: bool
) -> None:
    """To switch off one that is not there would be an error to Codex."""
    home = private / "home" / ".codex"
    home.mkdir(parents=True)
    if config is not None:
        (home / "config.toml").write_text(config)

    assert ("mcp_servers.ours.enabled=false" in CODEX.launch(work(private, tools=TOOLS)).argv) is disabled
    assert "mcp_servers.ours.enabled=false" not in CODEX.launch(work(private)).argv
