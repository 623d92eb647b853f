"""How the Gemini CLI is launched: what its arguments, its variables and its directory hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import CONVERSATION, some_work

from pilothouse.adapters.agents.driver import AgentWork, Program
from pilothouse.adapters.agents.gemini.driver import Gemini
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, Permissions, ToolServer
from pilothouse.errors import BadInput

GEMINI = Gemini()
OWN = AgentConfig(base_url="http://127.0.0.1:4000", api_key_env="OWN_KEY", model="fake-1")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    (tmp_path / "private" / "runs" / "one").mkdir(parents=True)
    return tmp_path / "private"


def work(private: Path, **changes: Any) -> AgentWork:
    given: dict[str, Any] = {
        "private": str(private),
        "run": str(private / "runs" / "one"),
        "program": Program(argv=("/bin/gemini",)),
        "prompt": "Go",
        "env": {"HOME": str(private / "home"), "OWN_KEY": "secret-key"},
    }
    return some_work(**given | changes)


def test_it_works_unasked_and_takes_its_prompt_over_standard_input(private: Path) -> None:
    launch = GEMINI.launch(work(private, model="gemini-x", allowed_folders=("/data", "/more")))

    assert launch.argv == (
        "/bin/gemini", "--output-format", "stream-json", "--skip-trust", "--approval-mode", "yolo",
        "--model", "gemini-x", "--include-directories=/data", "--include-directories=/more",
        "--session-id", CONVERSATION,
    )  # fmt: skip
    assert launch.stdin == "Go"
    assert "generativelanguage.googleapis.com:443" in launch.hosts


def test_not_permitted_it_is_offered_no_tool_it_would_have_to_ask_for(private: Path) -> None:
    launch = GEMINI.launch(work(private, permissions=Permissions.DENY))

    assert launch.argv[launch.argv.index("--approval-mode") + 1] == "default"


def test_to_an_endpoint_of_the_users_own_it_is_told_the_way_in_a_directory_of_its_own(private: Path) -> None:
    launch = GEMINI.launch(work(private, config=OWN))

    assert launch.env == {
        "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:4000",
        "GEMINI_API_KEY": "secret-key",
        "GEMINI_CLI_HOME": str(private / "gemini"),
    }
    assert not any("secret-key" in argument for argument in launch.argv)
    assert launch.hosts == ("127.0.0.1:4000",)
    settings = json.loads((private / "gemini" / ".gemini" / "settings.json").read_text())
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert settings["privacy"]["usageStatisticsEnabled"] is False
    assert settings["general"]["enableAutoUpdate"] is False


@pytest.mark.parametrize("url", ["http://h:1/v1beta", "http://h:1/v1beta/", "http://h:1/v1", "http://h:1"])
def test_it_adds_the_version_to_an_address_itself(private: Path, url: str) -> None:
    config = AgentConfig(base_url=url, model="m")

    env = GEMINI.launch(work(private, config=config)).env

    assert (env["GOOGLE_GEMINI_BASE_URL"], env["GEMINI_API_KEY"]) == ("http://h:1", "none")


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        ({"GEMINI_API_KEY": "k"}, "gemini-api-key"),
        ({"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, "vertex-ai"),
        ({"GOOGLE_API_KEY": "k"}, "vertex-ai"),
    ],
)
def test_with_a_key_it_works_in_a_directory_of_its_own(private: Path, env: dict[str, str], kind: str) -> None:
    launch = GEMINI.launch(work(private, env={"HOME": "/nowhere", **env}))

    assert launch.env == {"GEMINI_CLI_HOME": str(private / "gemini")}
    settings = json.loads((private / "gemini" / ".gemini" / "settings.json").read_text())
    assert settings["security"]["auth"]["selectedType"] == kind


def test_with_a_login_of_the_users_our_settings_lie_under_theirs(private: Path) -> None:
    launch = GEMINI.launch(work(private))

    assert list(launch.env) == ["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"]
    defaults = json.loads(Path(launch.env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"]).read_text())
    assert "security" not in defaults
    assert defaults["privacy"]["usageStatisticsEnabled"] is False


TOOLS = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})


def settings(home: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(home, ".gemini", "settings.json").read_text())
    return found


@pytest.mark.parametrize("permissions", [Permissions.ALLOW, Permissions.DENY])
def test_a_server_of_tools_is_given_and_its_tools_are_allowed(private: Path, permissions: Permissions) -> None:
    without = GEMINI.launch(work(private, config=OWN, permissions=permissions))
    before = settings(without.env["GEMINI_CLI_HOME"])
    given = work(private, config=OWN, tools=TOOLS, permissions=permissions)
    launch = GEMINI.launch(given)

    program, *arguments = sealed(given)
    server = {"command": program, "args": arguments, "trust": True, "timeout": 86_400_000}
    assert settings(launch.env["GEMINI_CLI_HOME"]) == {**before, "mcpServers": {"ours_tools": server}}
    assert "mcpServers" not in before
    assert launch == without
    assert "the-secret" not in str(launch)


def test_to_a_user_who_is_logged_in_a_server_is_given_beside_their_own_and_their_directory_stays_as_it_is(
    private: Path,
) -> None:
    theirs = private / "home" / ".gemini"
    theirs.mkdir(parents=True)
    (theirs / "oauth_creds.json").write_text("{}")
    (theirs / "tmp").mkdir()
    servers = '"mcpServers": {"github": {"command": "x"}, "ours": {"command": "y"}}'
    text = f'{{{servers}, /* mine */ "general": {{"a": "http://b"}}}} // end'
    (theirs / "settings.json").write_text(text)

    for _ in range(2):
        home = GEMINI.launch(work(private, tools=TOOLS)).env["GEMINI_CLI_HOME"]

    assert list(settings(home)["mcpServers"]) == ["github", "ours_tools"]
    assert settings(home)["general"] == {"a": "http://b"}
    assert settings(home)["privacy"]["usageStatisticsEnabled"] is False
    (Path(home) / ".gemini" / "tmp" / "said").touch()
    (Path(home) / ".gemini" / "oauth_creds.json").write_text('{"new": 1}')
    assert (theirs / "tmp" / "said").exists()
    assert (theirs / "oauth_creds.json").read_text() == '{"new": 1}'
    assert (theirs / "settings.json").read_text() == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": AgentConfig(base_url="http://127.0.0.1:1", model="m", api="responses")}, "speaks gemini"),
        ({"config": AgentConfig(base_url="http://127.0.0.1:1")}, "agents.gemini.model"),
        ({"permissions": Permissions.ASK}, "gemini-acp"),
    ],
)
def test_what_it_cannot_do_is_refused(private: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        GEMINI.launch(work(private, **changes))


def test_a_replies_file_is_for_another_agent() -> None:
    with pytest.raises(BadInput, match="script"):
        GEMINI.check(AgentSpec(agent="gemini", script="r.yaml"), Permissions.ALLOW)


def test_a_conversation_that_is_gone_is_begun_anew(private: Path) -> None:
    launch = GEMINI.launch(work(private, session_id="33333333-2222-4333-8444-555555555555"))

    assert launch.argv[-2:] == ("--session-id", CONVERSATION)
    assert "Write hello.txt" in launch.stdin


def test_a_login_is_found_without_asking_anybody(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert GEMINI.login(env, AgentConfig()).ok is False
    assert GEMINI.login(env, OWN).ok
    assert GEMINI.login({**env, "GEMINI_API_KEY": "k"}, AgentConfig()).how == "GEMINI_API_KEY"
    assert GEMINI.login({**env, "GOOGLE_GENAI_USE_VERTEXAI": "true"}, AgentConfig()).ok is None
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "oauth_creds.json").write_text("{}")
    assert GEMINI.login(env, AgentConfig()).how == "logged in"
    for content, how in (
        ("{", "logged in"),
        ('{"active": null}', "logged in"),
        ('{"active": "me"}', "logged in as me"),
    ):
        (tmp_path / ".gemini" / "google_accounts.json").write_text(content)
        assert GEMINI.login(env, AgentConfig()).how == how


def test_it_does_not_tell_its_models_and_is_started_as_it_is_found() -> None:
    assert GEMINI.models_command(Program(argv=("gemini",))) == ()
    assert GEMINI.models_from("whatever") == ()
    assert GEMINI.native("/usr/bin/gemini") == ("/usr/bin/gemini",)
    assert GEMINI.facts.quiet == {"GEMINI_CLI_NO_RELAUNCH": "true"}
