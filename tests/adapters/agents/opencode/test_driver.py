"""How OpenCode is launched: what its arguments, its settings and its directories hold."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.replay import some_work

from pilothouse.adapters.agents.driver import AgentWork, Launch, Program
from pilothouse.adapters.agents.opencode.driver import OpenCode
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import AgentConfig, Permissions, ToolServer
from pilothouse.errors import BadInput

OPENCODE = OpenCode()
OWN = AgentConfig(base_url="http://127.0.0.1:4000/v1", api_key_env="OWN_KEY", model="fake-1")
SESSION = "ses_e01837ea1ffetM66EEgNX7g21m"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    (tmp_path / "private" / "runs" / "one").mkdir(parents=True)
    return tmp_path / "private"


def work(private: Path, **changes: Any) -> AgentWork:
    given: dict[str, Any] = {
        "private": str(private),
        "run": str(private / "runs" / "one"),
        "program": Program(argv=("/bin/opencode",)),
        "prompt": "Go",
        "env": {"HOME": str(private / "home"), "OWN_KEY": "secret-key"},
    }
    return some_work(**given | changes)


def settings(launch: Launch) -> Any:
    return json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])


def remember(data: Path, directory: str) -> None:
    """A database that knows one conversation."""
    (data / "opencode").mkdir(parents=True)
    connection = sqlite3.connect(data / "opencode" / "opencode.db")
    connection.execute("CREATE TABLE session (id text, parent_id text, directory text)")
    connection.execute("CREATE TABLE message (id text, session_id text, data text)")
    connection.execute("INSERT INTO session VALUES (?, NULL, ?)", (SESSION, directory))
    connection.commit()
    connection.close()


TOOLS = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})


@pytest.mark.parametrize("permissions", [Permissions.ALLOW, Permissions.DENY])
def test_a_server_of_tools_is_given_beside_the_users_own_and_its_tools_are_allowed(
    private: Path, permissions: Permissions
) -> None:
    given = work(private, tools=TOOLS, permissions=permissions)
    launch = OPENCODE.launch(given)

    assert settings(launch)["mcp"] == {
        "ours_tools": {"type": "local", "command": list(sealed(given)), "enabled": True, "timeout": 86_400_000},
        "ours": {"enabled": False},  # the user's own, with the same tools
    }
    assert list(settings(launch)["permission"].items())[-1] == ("ours_tools_*", "allow")  # the last that fits counts
    assert "the-secret" not in str(launch)


@pytest.mark.parametrize("permissions", [Permissions.ALLOW, Permissions.DENY])
def test_a_server_of_tools_changes_nothing_else(private: Path, permissions: Permissions) -> None:
    without = OPENCODE.launch(work(private, permissions=permissions))
    launch = OPENCODE.launch(work(private, tools=TOOLS, permissions=permissions))

    found = settings(launch)
    del found["mcp"], found["permission"]["ours_tools_*"]
    assert found == settings(without)
    assert (launch.argv, launch.stdin, launch.hosts) == (without.argv, without.stdin, without.hosts)


def test_it_works_in_the_worktree_unasked_and_takes_its_prompt_over_standard_input(private: Path) -> None:
    launch = OPENCODE.launch(work(private, model="anthropic/claude-x", effort=Effort.HIGH))

    assert launch.argv == (
        "/bin/opencode", "run", "--dir", "/work-tree", "--format", "json", "--thinking", "--title=n",
        "-m", "anthropic/claude-x", "--variant", "high", "--auto",
    )  # fmt: skip
    assert launch.stdin == "Go"
    assert launch.hosts == ("api.anthropic.com:443",)


def test_it_keeps_no_copies_shares_nothing_and_stays_as_it_is(private: Path) -> None:
    found = settings(OPENCODE.launch(work(private)))

    assert (found["snapshot"], found["share"], found["autoupdate"]) == (False, "disabled", False)
    assert "OPENCODE_DISABLE_AUTOUPDATE" in OPENCODE.facts.quiet


def test_outside_of_the_worktree_only_allowed_folders_are_open(private: Path) -> None:
    found = settings(OPENCODE.launch(work(private, allowed_folders=("/data/",), allowed_urls=("https://a.example",))))

    outside = found["permission"]["external_directory"]
    assert next(iter(outside.items())) == ("*", "deny")
    assert (outside["/data"], outside["/data/*"]) == ("allow", "allow")
    assert found["permission"]["webfetch"] == {"*": "deny", "https://a.example*": "allow"}


def test_not_permitted_it_may_only_look(private: Path) -> None:
    launch = OPENCODE.launch(work(private, permissions=Permissions.DENY))

    rules = settings(launch)["permission"]
    assert "--auto" not in launch.argv
    assert next(iter(rules.items())) == ("*", "deny")
    assert {name for name, rule in rules.items() if rule == "allow"} >= {"read", "grep"}
    assert not {"edit", "bash", "task", "webfetch"} & rules.keys()


def test_with_a_login_of_the_users_it_works_in_the_users_directories(private: Path) -> None:
    login = private / "home" / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    login.write_text('{"anthropic": {"type": "oauth"}}')
    env = {"HOME": str(private / "home"), "OPENAI_API_KEY": "secret-key"}

    launch = OPENCODE.launch(work(private, env=env))

    assert set(launch.env) == {"OPENCODE_CONFIG_CONTENT"}
    login.unlink()
    assert "XDG_DATA_HOME" in OPENCODE.launch(work(private, env=env, run="")).env


def test_to_an_endpoint_of_the_users_own_it_is_told_the_way_and_where_the_key_is(private: Path) -> None:
    launch = OPENCODE.launch(work(private, config=OWN, effort=Effort.LOW))

    provider = settings(launch)["provider"]["pilothouse"]
    assert provider["options"] == {"baseURL": "http://127.0.0.1:4000/v1", "apiKey": "{env:OWN_KEY}"}
    assert provider["models"]["fake-1"]["options"] == {"reasoningEffort": "low"}
    assert "pilothouse/fake-1" in launch.argv
    assert launch.hosts == ("127.0.0.1:4000",)
    assert not any("secret-key" in value for value in (*launch.argv, *launch.env.values()))
    assert {launch.env[name] for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")} == {
        str(private / "opencode" / name) for name in (".config", "share", "state")
    }
    assert (private / "opencode" / ".config" / "git").readlink() == private / "home" / ".config" / "git"
    assert OPENCODE.launch(work(private, config=OWN, effort=Effort.LOW)) == launch


@pytest.mark.parametrize(
    ("api", "url", "package", "told"),
    [
        ("", "http://h/v1/", "@ai-sdk/openai-compatible", "http://h/v1"),
        ("responses", "http://h/v1", "@ai-sdk/openai", "http://h/v1"),
        ("anthropic", "http://h", "@ai-sdk/anthropic", "http://h/v1"),
        ("anthropic", "http://h/v1", "@ai-sdk/anthropic", "http://h/v1"),
        ("gemini", "http://h", "@ai-sdk/google", "http://h/v1beta"),
        ("gemini", "http://h/v1beta/", "@ai-sdk/google", "http://h/v1beta"),
    ],
)
def test_each_api_has_its_package_and_its_path(private: Path, api: str, url: str, package: str, told: str) -> None:
    config = AgentConfig(base_url=url, api=api, model="m")

    provider = settings(OPENCODE.launch(work(private, config=config)))["provider"]["pilothouse"]

    assert (provider["npm"], provider["options"]) == (package, {"baseURL": told})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": AgentConfig(base_url="http://127.0.0.1:1", model="m", api="smoke")}, "does not speak 'smoke'"),
        ({"config": AgentConfig(base_url="http://127.0.0.1:1")}, "agents.opencode.model"),
        ({"permissions": Permissions.ASK}, "opencode-acp"),
    ],
)
def test_what_it_cannot_do_is_refused(private: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        OPENCODE.launch(work(private, **changes))


def test_a_replies_file_is_for_another_agent() -> None:
    with pytest.raises(BadInput, match="script"):
        OPENCODE.check(AgentSpec(agent="opencode", script="r.yaml"), Permissions.ALLOW)


def test_a_conversation_goes_on_where_it_is_at_home(private: Path) -> None:
    remember(private / "opencode" / "share", "/work-tree")

    launch = OPENCODE.launch(work(private, config=OWN, session_id=SESSION))

    assert launch.argv[0] == "/bin/opencode"
    assert launch.argv[-2:] == ("-s", SESSION)
    assert launch.stdin == "Go"


def test_a_conversation_of_another_directory_is_moved_first(private: Path) -> None:
    remember(private / "home" / ".local" / "share", "/an other tree")

    launch = OPENCODE.launch(work(private, config=OWN, session_id=SESSION))

    assert launch.argv[:2] == ("/bin/sh", "-c")
    assert launch.argv[2].startswith(f"/bin/opencode import {private}/runs/one/moved.json </dev/null >&2 && exec ")
    assert launch.argv[2].endswith(f"-s {SESSION}")
    moved = json.loads((private / "runs" / "one" / "moved.json").read_bytes())
    assert (moved["info"]["id"], moved["info"]["directory"], moved["messages"]) == (SESSION, "/work-tree", [])
    assert "XDG_DATA_HOME" not in launch.env, "it is resumed where it is kept"


@pytest.mark.parametrize("session", [SESSION, "'; rm -rf /", "-x"])
def test_a_conversation_that_is_gone_is_begun_anew(private: Path, session: str) -> None:
    launch = OPENCODE.launch(work(private, session_id=session))

    assert "-s" not in launch.argv
    assert "Write hello.txt" in launch.stdin


def test_a_login_is_found_without_asking_anybody(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert OPENCODE.login(env, AgentConfig()).ok is None
    assert OPENCODE.login(env, OWN).ok
    assert OPENCODE.login({**env, "OPENAI_API_KEY": "k"}, AgentConfig()).how == "OPENAI_API_KEY"
    login = tmp_path / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    for content, ok in (("{", None), ("[]", None), ("{}", None), ('{"openai": {}, "anthropic": {}}', True)):
        login.write_text(content)
        assert OPENCODE.login(env, AgentConfig()).ok is ok
    assert OPENCODE.login(env, AgentConfig()).how == "logged in to anthropic, openai"


def test_models_are_the_lines_that_name_one() -> None:
    output = (
        "opencode/big-pickle\n anthropic/claude-x \n\nError: no network\nopencode/big-pickle\nopenrouter/a/b:free\n"
    )

    assert OPENCODE.models_from(output) == ("opencode/big-pickle", "anthropic/claude-x", "openrouter/a/b:free")
    assert OPENCODE.models_command(Program(argv=("opencode",))) == ("opencode", "models")


def test_its_program_is_started_as_it_is_found() -> None:
    assert OPENCODE.native("/usr/bin/opencode") == ("/usr/bin/opencode",)
