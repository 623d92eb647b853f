"""How Claude Code is launched and logged in to. What it does then, ``test_claude_live`` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import CONVERSATION, some_work

from pilothouse.adapters.agents.claude.driver import Claude
from pilothouse.adapters.agents.driver import AgentWork, Launch, Program
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import AgentConfig, Permissions, ToolServer
from pilothouse.errors import BadInput

CLAUDE = Claude()
OWN = AgentConfig(base_url="http://127.0.0.1:4000/v1/", api_key_env="MY_KEY", model="m1")


def work(tmp_path: Path, **changes: Any) -> AgentWork:
    given: dict[str, Any] = {"prompt": "Do it", "private": str(tmp_path)}
    return some_work(**given | {"env": {"HOME": str(tmp_path / "home")}} | changes)


def option(launch: Launch, name: str) -> str:
    return launch.argv[launch.argv.index(name) + 1]


def test_it_reads_its_prompt_from_standard_input_and_prints_events(tmp_path: Path) -> None:
    launch = CLAUDE.launch(work(tmp_path, program=Program(argv=("/opt/claude",))))

    assert launch.argv[:2] == ("/opt/claude", "-p")
    assert option(launch, "--output-format") == "stream-json"
    assert option(launch, "--session-id") == CONVERSATION
    assert launch.stdin == "Do it"
    assert "Do it" not in launch.argv


def test_it_neither_updates_itself_nor_reports_to_anybody() -> None:
    assert CLAUDE.facts.quiet == {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


def test_tools_are_allowed_by_name_and_edits_in_its_folders_alone(tmp_path: Path) -> None:
    urls = ("https://docs.example/a/b", "*.example.org", "example.net/x")
    launch = CLAUDE.launch(work(tmp_path, allowed_folders=("/data", "/more"), allowed_urls=urls))
    allowed = option(launch, "--allowedTools").split(",")

    assert option(launch, "--permission-mode") == "acceptEdits"
    assert {"Bash", "WebFetch(domain:docs.example)", "WebFetch(domain:*.example.org)"} <= set(allowed)
    assert "WebFetch(domain:example.net)" in allowed
    assert not {"Edit", "Write", "WebFetch", "Read"} & set(allowed)
    at = launch.argv.index("--add-dir")
    assert launch.argv[at + 1 : at + 3] == ("/data", "/more")


def test_when_it_may_do_nothing_the_repository_permits_it_nothing_either(tmp_path: Path) -> None:
    launch = CLAUDE.launch(work(tmp_path, permissions=Permissions.DENY, allowed_urls=("https://docs.example",)))

    assert option(launch, "--permission-mode") == "default"
    assert option(launch, "--setting-sources") == "user"
    assert "--allowedTools" not in launch.argv


def test_permissions_are_never_bypassed_since_that_is_refused_to_root(tmp_path: Path) -> None:
    for permissions in Permissions:
        launch = CLAUDE.launch(work(tmp_path, permissions=permissions))
        assert not {"bypassPermissions", "--dangerously-skip-permissions"} & set(launch.argv)


def test_model_effort_and_turns_are_asked_for(tmp_path: Path) -> None:
    launch = CLAUDE.launch(work(tmp_path, model="sonnet", effort=Effort.HIGH, max_turns=7))

    assert (option(launch, "--model"), option(launch, "--effort"), option(launch, "--max-turns")) == (
        "sonnet",
        "high",
        "7",
    )
    assert not {"--model", "--effort", "--max-turns"} & set(CLAUDE.launch(work(tmp_path)).argv)


def test_with_the_users_own_login_its_state_is_where_that_is(tmp_path: Path) -> None:
    launch = CLAUDE.launch(work(tmp_path))

    assert "CLAUDE_CONFIG_DIR" not in launch.env
    assert launch.hosts == ("api.anthropic.com:443", "platform.claude.com:443")


@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_with_a_key_its_state_is_private_to_the_node(tmp_path: Path, key: str) -> None:
    launch = CLAUDE.launch(work(tmp_path, env={"HOME": "/home/me", key: "secret-key"}))

    assert launch.env["CLAUDE_CONFIG_DIR"] == str(tmp_path / "claude")
    assert "secret-key" not in str(launch)


def test_an_endpoint_of_the_users_own_gets_the_key_and_all_of_its_requests(tmp_path: Path) -> None:
    launch = CLAUDE.launch(work(tmp_path, config=OWN, env={"HOME": "/home/me", "MY_KEY": "secret-key"}))

    assert launch.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:4000"
    assert launch.env["ANTHROPIC_API_KEY"] == "secret-key"
    assert launch.env["CLAUDE_CONFIG_DIR"] == str(tmp_path / "claude")
    assert {launch.env[f"ANTHROPIC_DEFAULT_{kind}_MODEL"] for kind in ("HAIKU", "OPUS", "SONNET")} == {"m1"}
    assert launch.hosts == ("127.0.0.1:4000",)
    assert "secret-key" not in " ".join(launch.argv)


def test_an_endpoint_without_a_key_gets_one_that_says_so(tmp_path: Path) -> None:
    config = AgentConfig(base_url="http://127.0.0.1:4000", model="m1")

    assert CLAUDE.launch(work(tmp_path, config=config)).env["ANTHROPIC_API_KEY"] == "none"


def test_an_endpoint_it_cannot_speak_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not speak 'responses'"):
        CLAUDE.launch(work(tmp_path, config=AgentConfig(base_url="http://x", api="responses")))


def test_a_conversation_is_gone_on_with_by_its_file_since_every_attempt_has_its_own_directory(tmp_path: Path) -> None:
    kept = tmp_path / "claude" / "projects" / "-some-worktree" / f"{CONVERSATION}.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}\n")

    launch = CLAUDE.launch(work(tmp_path, config=OWN, session_id=CONVERSATION, new_session_id="0-1", prompt="Go on"))

    assert option(launch, "--resume") == str(kept)
    assert "--session-id" not in launch.argv
    assert launch.stdin == "Go on"


@pytest.mark.parametrize("gone", [CONVERSATION, "*", "../x"])
def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(tmp_path: Path, gone: str) -> None:
    launch = CLAUDE.launch(work(tmp_path, session_id=gone, new_session_id="0-1", prompt="Go on"))

    assert option(launch, "--session-id") == "0-1"
    assert "--resume" not in launch.argv
    assert launch.stdin == "# Task\n\nWrite hello.txt"


def test_whether_one_is_logged_in_is_told_by_variables_and_files(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}

    assert CLAUDE.login(home, AgentConfig()).ok is False
    (tmp_path / ".claude.json").write_text(json.dumps({"oauthAccount": {"emailAddress": "me@example.com"}}))
    assert CLAUDE.login(home, AgentConfig()).how == "logged in as me@example.com"
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert CLAUDE.login(home, AgentConfig()).how == "logged in"
    assert CLAUDE.login({**home, "ANTHROPIC_API_KEY": "k"}, AgentConfig()).how == "ANTHROPIC_API_KEY"
    assert CLAUDE.login(home, OWN).ok is True


def test_a_replies_file_is_not_for_it() -> None:
    CLAUDE.check(AgentSpec(agent="claude"), Permissions.ALLOW)
    with pytest.raises(BadInput) as refused:
        CLAUDE.check(AgentSpec(agent="claude", script="replies.yaml"), Permissions.ALLOW)
    assert refused.value.field == "script"


def test_it_does_not_tell_its_models() -> None:
    assert CLAUDE.models_command(Program(argv=("/opt/claude",))) == ()
    assert CLAUDE.models_from("anything") == ()


TOOLS = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})


@pytest.mark.parametrize("permissions", list(Permissions))
def test_a_server_of_tools_is_given_beside_the_users_own_and_its_tools_are_allowed(
    tmp_path: Path, permissions: Permissions
) -> None:
    launch = CLAUDE.launch(work(tmp_path, run=str(tmp_path), tools=TOOLS, permissions=permissions))
    (name, server), *others = json.loads(option(launch, "--mcp-config"))["mcpServers"].items()

    assert (name, server["type"], others) == ("ours", "stdio", [])
    assert (server["command"], *server["args"]) == sealed(work(tmp_path, run=str(tmp_path), tools=TOOLS))
    assert server["timeout"] == 86_400_000
    assert server["alwaysLoad"] is True
    assert "mcp__ours" in option(launch, "--allowedTools").split(",")
    assert "--strict-mcp-config" not in launch.argv
    assert "the-secret" not in str(launch)


@pytest.mark.parametrize("permissions", list(Permissions))
def test_a_server_of_tools_changes_nothing_else(tmp_path: Path, permissions: Permissions) -> None:
    without = CLAUDE.launch(work(tmp_path, run=str(tmp_path), permissions=permissions))
    launch = CLAUDE.launch(work(tmp_path, run=str(tmp_path), tools=TOOLS, permissions=permissions))

    added = {"--mcp-config", option(launch, "--mcp-config"), "--allowedTools", option(launch, "--allowedTools")}
    before = {option(without, "--allowedTools"), "--allowedTools"} if permissions is Permissions.ALLOW else set()
    assert [word for word in launch.argv if word not in added] == [word for word in without.argv if word not in before]
    waits = {"MCP_CONNECT_TIMEOUT_MS": "120000", "MCP_TIMEOUT": "120000"}
    assert (launch.env, launch.stdin, launch.hosts) == (without.env | waits, without.stdin, without.hosts)
