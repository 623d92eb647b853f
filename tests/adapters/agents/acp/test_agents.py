"""How each agent that we know is brought to work over the Agent Client Protocol."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.adapters.agents.acp.agents import ACP_AGENTS, CLAUDE, CODEX, COPILOT, GEMINI, OPENCODE
from pilothouse.adapters.agents.acp.driver import AcpAgent
from pilothouse.adapters.agents.acp.errand import Errand
from pilothouse.adapters.agents.driver import AgentWork, Launch, Program
from pilothouse.core.plan.spec import Effort
from pilothouse.core.run.agents import AgentConfig, Permissions, ToolServer

KEY = "fake-key-0123456789"
URL = "http://127.0.0.1:9/v1"


def launched(driver: AcpAgent, root: Path, **changes: Any) -> tuple[Launch, Errand]:
    """What is started, and what the bridge is told."""
    (root / "run").mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "task": "Mend it",
        "instructions": "Mend it",
        "prompt": "Mend it, please",
        "worktree": "/w",
        "repo": "/r",
        "plan_id": "p",
        "node": "n",
        "node_id": "n1",
        "attempt": 1,
        "phase": "work",
        "program": Program(argv=("/bin/agent",)),
        "config": AgentConfig(base_url=URL, api_key_env="OWN_KEY", model="fake-1"),
        "env": {"HOME": str(root / "home"), "OWN_KEY": KEY},
        "private": str(root),
        "run": str(root / "run"),
    }
    launch = driver.launch(AgentWork(**given | changes))
    return launch, msgspec.json.decode(launch.stdin, type=Errand)


@pytest.fixture(params=ACP_AGENTS, ids=lambda driver: driver.facts.name)
def driver(request: pytest.FixtureRequest) -> AcpAgent:
    found: AcpAgent = request.param
    return found


def test_each_can_ask_and_says_how_it_is_installed(driver: AcpAgent) -> None:
    facts = driver.facts

    assert facts.name.endswith("-acp")
    assert (facts.asks, facts.acp, facts.asking) == (True, True, "")
    assert facts.install
    assert facts.programs


@pytest.mark.parametrize("permissions", Permissions)
def test_the_bridge_is_told_all_but_secrets(driver: AcpAgent, permissions: Permissions, tmp_path: Path) -> None:
    launch, errand = launched(driver, tmp_path, permissions=permissions, allowed_folders=("/f",))

    assert errand.argv[0] == "/bin/agent"
    assert (errand.prompt, errand.worktree, errand.folders) == ("Mend it, please", "/w", ("/f",))
    assert (errand.permissions, errand.run) == (permissions, str(tmp_path / "run"))
    assert errand.login
    assert KEY not in launch.stdin
    assert not any(KEY in word for word in launch.argv)
    assert launch.hosts == ("127.0.0.1:9",)


def test_each_keeps_its_state_where_the_driver_of_its_command_line_keeps_it(driver: AcpAgent, tmp_path: Path) -> None:
    launch, _ = launched(driver, tmp_path)

    assert any(str(tmp_path) in value for value in launch.env.values())


def test_copilot_is_told_folders_and_addresses_and_asks_only_where_somebody_is_to_be_asked(tmp_path: Path) -> None:
    _, free = launched(COPILOT, tmp_path, allowed_folders=("/f",), allowed_urls=("example.com",), effort=Effort.LOW)
    _, asking = launched(COPILOT, tmp_path, permissions=Permissions.ASK)

    for words in (("--add-dir", "/f"), ("--model", "fake-1"), ("--reasoning-effort", "low")):
        assert words in pairwise(free.argv)
    assert {"--acp", "--allow-all-tools", "--allow-url=example.com"} <= set(free.argv)
    assert "--allow-all-tools" not in asking.argv
    assert free.says_errors


def test_claude_works_for_root_too_and_takes_its_model_from_a_variable(tmp_path: Path) -> None:
    launch, errand = launched(CLAUDE, tmp_path, effort=Effort.HIGH)

    assert launch.env["ANTHROPIC_MODEL"] == "fake-1"
    assert launch.env.get("IS_SANDBOX") == ("1" if os.getuid() == 0 else None)
    assert errand.options == {"thought_level": "high"}


def test_codex_has_the_settings_of_its_command_line_and_asks_where_it_is_to(tmp_path: Path) -> None:
    _, free = launched(CODEX, tmp_path)
    _, asking = launched(CODEX, tmp_path, permissions=Permissions.ASK)

    def policies(errand: Errand) -> list[str]:
        return [value for flag, value in pairwise(errand.argv) if flag == "-c" and value.startswith("approval_policy")]

    assert 'model="fake-1"' in free.argv
    assert 'sandbox_mode="danger-full-access"' in free.argv
    assert policies(free)[-1] == 'approval_policy="never"'
    assert policies(asking)[-1] == 'approval_policy="untrusted"'


def test_the_program_of_codex_is_started_without_its_loader(tmp_path: Path) -> None:
    found = tmp_path / "codex-acp"
    found.touch()

    assert CODEX.native(str(found)) == (str(found),)
    assert CODEX.models_command(Program(argv=("codex-acp",))) == ()
    assert not CODEX.facts.tells_version


def test_opencode_asks_for_what_it_is_denied_otherwise(tmp_path: Path) -> None:
    def permission(permissions: Permissions) -> Any:
        launch, _ = launched(OPENCODE, tmp_path, permissions=permissions)
        return json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])["permission"]

    asking, denying = permission(Permissions.ASK), permission(Permissions.DENY)
    assert (asking["*"], asking["external_directory"]["*"]) == ("ask", "ask")
    assert (denying["*"], denying["external_directory"]["*"]) == ("deny", "deny")
    assert asking["read"] == "allow"


def test_opencode_is_set_to_its_model_in_the_session(tmp_path: Path) -> None:
    own = launched(OPENCODE, tmp_path)[1]
    assert (own.options, own.model) == ({"model": "pilothouse/fake-1"}, "fake-1")
    theirs = launched(OPENCODE, tmp_path, config=AgentConfig(), model="some/model")[1]
    assert (theirs.options, theirs.model) == ({"model": "some/model"}, "model")


def test_gemini_begins_every_conversation_anew(tmp_path: Path) -> None:
    _, errand = launched(GEMINI, tmp_path, allowed_folders=("/f",))

    assert not GEMINI.facts.resumes
    assert {"--acp", "--skip-trust", "--include-directories=/f"} <= set(errand.argv)
    assert ("--model", "fake-1") in pairwise(errand.argv)
    assert errand.auth == "gemini-api-key"


SERVER = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})
CALLED = {CLAUDE: "ours", CODEX: "ours_tools", COPILOT: "ours", GEMINI: "ours_tools", OPENCODE: "ours_tools"}


@pytest.mark.parametrize("permissions", Permissions)
def test_each_is_told_of_a_server_of_tools_by_what_it_has_more_words_for_than_the_protocol(
    driver: AcpAgent, permissions: Permissions, tmp_path: Path
) -> None:
    launch, errand = launched(driver, tmp_path, permissions=permissions, tools=SERVER)

    assert (errand.tools, errand.tools_command) == (CALLED[driver], ())
    assert "the-secret" not in str(launch)
    files = (file.read_text() for file in tmp_path.rglob("*") if file.name.endswith(".json"))
    told = "\n".join((launch.stdin, *launch.env.values(), *files))
    assert told.count(str(tmp_path / "run" / "tools.env")) == 1
    assert told.count("/serve") == 1


@pytest.mark.parametrize("permissions", Permissions)
def test_each_uses_its_tools_unasked(permissions: Permissions, tmp_path: Path) -> None:
    def told(driver: AcpAgent) -> tuple[Launch, Errand]:
        (tmp_path / driver.facts.name).mkdir()
        return launched(driver, tmp_path / driver.facts.name, permissions=permissions, tools=SERVER)

    (options,) = told(CLAUDE)[1].meta["claudeCode"].values()
    assert (options["allowedTools"], list(options["mcpServers"])) == (["mcp__ours"], ["ours"])
    assert options["mcpServers"]["ours"]["timeout"] == 86_400_000
    assert "--allow-tool=ours" in told(COPILOT)[1].argv
    assert 'mcp_servers.ours_tools.default_tools_approval_mode="approve"' in told(CODEX)[1].argv
    settings = json.loads(told(OPENCODE)[0].env["OPENCODE_CONFIG_CONTENT"])
    assert list(settings["permission"].items())[-1] == ("ours_tools_*", "allow")
    home = Path(told(GEMINI)[0].env["GEMINI_CLI_HOME"], ".gemini", "settings.json")
    assert json.loads(home.read_text())["mcpServers"]["ours_tools"]["trust"] is True


@pytest.mark.parametrize("permissions", Permissions)
def test_without_a_server_each_is_told_of_none(driver: AcpAgent, permissions: Permissions, tmp_path: Path) -> None:
    launch, errand = launched(driver, tmp_path, permissions=permissions)

    assert (errand.tools, errand.tools_command, errand.meta) == ("", (), {})
    assert not any("mcp" in text for text in (launch.stdin, *launch.env.values()))
