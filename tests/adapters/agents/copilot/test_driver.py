"""How the Copilot CLI is launched, found and logged in to. What it does then, ``test_copilot_live`` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import CONVERSATION, some_work

from pilothouse.adapters.agents.copilot.driver import Copilot
from pilothouse.adapters.agents.driver import AgentWork, Launch, Program
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import AgentConfig, Permissions, ToolServer
from pilothouse.errors import BadInput

COPILOT = Copilot()
OWN = AgentConfig(base_url="https://models.example:8443/v1", api_key_env="MY_KEY", model="m1")
HELP = """\
  `logLevel`: log level; defaults to "default".

  `model`: AI model to use for Copilot CLI; can be changed with /model command or --model flag option.
    - "claude-sonnet-5.5"
    - "gpt-6-sol"

  `contextTier`: context window tier (e.g., "default" or "long_context").
"""


def work(tmp_path: Path, **changes: Any) -> AgentWork:
    (tmp_path / "run").mkdir(exist_ok=True)
    given: dict[str, Any] = {"prompt": "Do it", "private": str(tmp_path), "run": str(tmp_path / "run")}
    return some_work(**given | {"env": {"HOME": str(tmp_path / "home")}} | changes)


def option(launch: Launch, name: str) -> str:
    return launch.argv[launch.argv.index(name) + 1]


def test_it_works_in_the_worktree_and_reads_its_prompt_from_standard_input(tmp_path: Path) -> None:
    launch = COPILOT.launch(work(tmp_path, program=Program(argv=("/opt/copilot",))))

    assert launch.argv[0] == "/opt/copilot"
    assert option(launch, "-C") == "/work-tree"
    assert option(launch, "--session-id") == CONVERSATION
    assert option(launch, "--usage-output-file") == str(tmp_path / "run" / "usage.json")
    assert launch.stdin == "Do it"
    assert "Do it" not in launch.argv


def test_it_neither_updates_itself_nor_reports_to_anybody(tmp_path: Path) -> None:
    launch = COPILOT.launch(work(tmp_path))

    assert COPILOT.facts.quiet == {"COPILOT_AUTO_UPDATE": "false"}
    assert {"--no-auto-update", "--disable-client-telemetry", "--no-remote-export"} <= set(launch.argv)


def test_tools_are_allowed_but_neither_all_paths_nor_all_addresses(tmp_path: Path) -> None:
    folders, urls = ("/data", "/more"), ("https://docs.example/a", "*.example.org")
    launch = COPILOT.launch(work(tmp_path, allowed_folders=folders, allowed_urls=urls))
    denied = COPILOT.launch(work(tmp_path, permissions=Permissions.DENY))

    assert "--allow-all-tools" in launch.argv
    assert [launch.argv[i + 1] for i, name in enumerate(launch.argv) if name == "--add-dir"] == list(folders)
    assert [f"--allow-url={url}" for url in urls] == [name for name in launch.argv if "url" in name]
    assert not any(name.startswith("--allow") for name in denied.argv)
    assert not {"--allow-all", "--yolo", "--allow-all-paths", "--allow-all-urls"} & {*launch.argv, *denied.argv}


def test_model_and_effort_are_asked_for_by_name(tmp_path: Path) -> None:
    launch = COPILOT.launch(work(tmp_path, model="gpt-6-sol", effort=Effort.XHIGH))

    assert option(launch, "--model") == "gpt-6-sol"
    assert option(launch, "--reasoning-effort") == "xhigh"
    assert not {"--model", "--reasoning-effort"} & set(COPILOT.launch(work(tmp_path)).argv)


def test_with_the_users_own_login_its_state_is_where_that_is(tmp_path: Path) -> None:
    launch = COPILOT.launch(work(tmp_path))

    assert launch.env == {}
    assert "api.githubcopilot.com:443" in launch.hosts


@pytest.mark.parametrize("token", ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"])
def test_with_a_token_its_state_is_private_to_the_node(tmp_path: Path, token: str) -> None:
    launch = COPILOT.launch(work(tmp_path, env={"HOME": "/home/me", token: "secret-token"}))

    assert launch.env == {"COPILOT_HOME": str(tmp_path / "copilot")}
    assert "secret-token" not in str(launch)


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("", {"COPILOT_PROVIDER_TYPE": "openai"}),
        ("completions", {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions"}),
        ("responses", {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"}),
        ("anthropic", {"COPILOT_PROVIDER_TYPE": "anthropic"}),
    ],
)
def test_an_endpoint_of_the_users_own_is_all_it_speaks_to(tmp_path: Path, api: str, expected: dict[str, str]) -> None:
    config = AgentConfig(base_url=OWN.base_url, api=api, api_key_env="MY_KEY", model="m1")
    launch = COPILOT.launch(work(tmp_path, config=config, env={"HOME": "/home/me", "MY_KEY": "secret-key"}))

    assert launch.env == {
        "COPILOT_HOME": str(tmp_path / "copilot"),
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": "https://models.example:8443/v1",
        "COPILOT_PROVIDER_API_KEY": "secret-key",
        "MY_KEY": "",
        **expected,
    }
    assert launch.hosts == ("models.example:8443",)
    assert option(launch, "--model") == "m1"
    assert "secret-key" not in " ".join(launch.argv)


def test_an_endpoint_it_cannot_speak_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not speak 'gemini'"):
        COPILOT.launch(work(tmp_path, config=AgentConfig(base_url="http://x", api="gemini", model="m1")))
    with pytest.raises(BadInput) as refused:
        COPILOT.launch(work(tmp_path, config=AgentConfig(base_url="http://x")))
    assert refused.value.field == "model"


def test_a_github_of_ones_own_is_reached_where_it_is(tmp_path: Path) -> None:
    launch = COPILOT.launch(work(tmp_path, env={"HOME": "/home/me", "GH_HOST": "me.ghe.com"}))

    assert launch.hosts == ("me.ghe.com:443", "api.me.ghe.com:443", "copilot-api.me.ghe.com:443")


def test_a_conversation_is_gone_on_with_where_it_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "home" / ".copilot" / "session-state" / CONVERSATION / "events.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}\n")

    launch = COPILOT.launch(work(tmp_path, session_id=CONVERSATION, new_session_id="0-1", prompt="Go on"))

    assert option(launch, "--session-id") == CONVERSATION
    assert launch.stdin == "Go on"


def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(tmp_path: Path) -> None:
    launch = COPILOT.launch(work(tmp_path, session_id=CONVERSATION, new_session_id="0-1", prompt="Go on"))

    assert option(launch, "--session-id") == "0-1"
    assert launch.stdin == "# Task\n\nWrite hello.txt"


def test_the_models_are_those_its_help_lists() -> None:
    assert COPILOT.models_command(Program(argv=("/opt/copilot",))) == ("/opt/copilot", "help", "config")
    assert COPILOT.models_from(HELP) == ("claude-sonnet-5.5", "gpt-6-sol")
    older = '--model <model>   Set the AI model to use (choices: "claude-sonnet-4.5",\n      "gpt-5")\n --x "y"'
    assert COPILOT.models_from(older) == ("claude-sonnet-4.5", "gpt-5")
    assert COPILOT.models_from("nothing of the kind") == ()


def test_whether_one_is_logged_in_is_told_by_variables_and_files(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    config = tmp_path / ".copilot" / "config.json"
    config.parent.mkdir()

    assert COPILOT.login(home, AgentConfig()).ok is False
    config.write_text('// Managed.\n{"firstLaunchAt": "2026"}')
    assert COPILOT.login(home, AgentConfig()).ok is False
    config.write_text("// Managed.\n" + json.dumps({"loggedInUsers": [{"host": "https://github.com", "login": "me"}]}))
    assert COPILOT.login(home, AgentConfig()).how == "logged in as me"
    assert COPILOT.login({**home, "GH_TOKEN": "t"}, AgentConfig()).how == "GH_TOKEN"
    assert COPILOT.login(home, OWN).how == "own endpoint https://models.example:8443/v1"
    config.write_text("{")
    assert COPILOT.login(home, AgentConfig()).ok is False
    (tmp_path / ".config" / "gh").mkdir(parents=True)
    (tmp_path / ".config" / "gh" / "hosts.yml").write_text("github.com:\n")
    assert COPILOT.login(home, AgentConfig()).ok is None


def test_a_replies_file_is_not_for_it() -> None:
    COPILOT.check(AgentSpec(), Permissions.ALLOW)
    with pytest.raises(BadInput) as refused:
        COPILOT.check(AgentSpec(script="replies.yaml"), Permissions.ALLOW)
    assert refused.value.field == "script"


def test_who_wants_to_be_asked_gets_the_driver_that_can() -> None:
    assert (COPILOT.facts.asks, COPILOT.facts.asking) == (False, "copilot-acp")


TOOLS = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})


@pytest.mark.parametrize("permissions", list(Permissions))
def test_a_server_of_tools_is_given_beside_the_users_own_and_its_tools_are_allowed(
    tmp_path: Path, permissions: Permissions
) -> None:
    given = work(tmp_path, run=str(tmp_path), tools=TOOLS, permissions=permissions)
    launch = COPILOT.launch(given)
    (name, server), *others = json.loads(option(launch, "--additional-mcp-config"))["mcpServers"].items()

    assert (name, server["type"], others) == ("ours", "local", [])
    assert (server["command"], *server["args"]) == sealed(given)
    assert server["tools"] == ["*"]
    assert server["timeout"] == 86_400_000
    assert "--allow-tool=ours" in launch.argv
    assert "the-secret" not in str(launch)


@pytest.mark.parametrize("permissions", list(Permissions))
def test_a_server_of_tools_changes_nothing_else(tmp_path: Path, permissions: Permissions) -> None:
    without = COPILOT.launch(work(tmp_path, run=str(tmp_path), permissions=permissions))
    launch = COPILOT.launch(work(tmp_path, run=str(tmp_path), tools=TOOLS, permissions=permissions))

    added = {"--additional-mcp-config", option(launch, "--additional-mcp-config"), "--allow-tool=ours"}
    assert tuple(word for word in launch.argv if word not in added) == without.argv
    assert (launch.env, launch.stdin, launch.hosts) == (without.env, without.stdin, without.hosts)
