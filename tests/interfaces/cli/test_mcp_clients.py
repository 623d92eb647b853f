"""Entering Pilothouse into the configuration of MCP clients: what else is there stays, what cannot be read is left."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pilothouse.interfaces.cli.main import run_line
from pilothouse.interfaces.cli.mcp_clients import CLIENTS, ClientName

# Where each client's file is, below the directory of the project or of the user, and the keys that lead to our entry.
FILES = {
    "vscode": (".vscode/mcp.json", ("servers",)),
    "claude": (".mcp.json", ("mcpServers",)),
    "cursor": (".cursor/mcp.json", ("mcpServers",)),
    "copilot": ("home/.copilot/mcp-config.json", ("mcpServers",)),
    "codex": ("home/.codex/config.toml", ("mcp_servers",)),
    "gemini": (".gemini/settings.json", ("mcpServers",)),
    "opencode": ("opencode.json", ("mcp",)),
}
JSON_CLIENTS = sorted(FILES.keys() - {"codex"})


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, with the user's home in it, and a data directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PILOTHOUSE_DATA_DIR", str(tmp_path / "data"))
    for name in ("CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(client: str, *options: str) -> int:
    return run_line(["mcp", "install", client, *options])


def entry(client: str, machine: Path) -> Any:
    name, keys = FILES[client]
    text = (machine / name).read_text("utf-8")
    found = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
    for key in (*keys, "pilothouse"):
        found = found[key]
    return found


def test_every_client_is_tried_here() -> None:
    assert set(FILES) == {str(name) for name in CLIENTS} == {str(name) for name in ClientName}


@pytest.mark.parametrize("client", sorted(FILES))
def test_the_entry_starts_the_bridge_of_this_installation(client: str, machine: Path) -> None:
    assert install(client) == 0
    found = entry(client, machine)
    argv = found["command"] if client == "opencode" else [found["command"], *found["args"]]
    assert argv[-3:] == ["mcp", "--data-dir", str(machine / "data")]
    assert Path(argv[0]).parent == Path(sys.executable).parent
    types = {"vscode": "stdio", "claude": "stdio", "copilot": "local", "opencode": "local"}
    assert found.get("type") == types.get(client)
    assert found.get("tools") == (["*"] if client == "copilot" else None)


def test_the_data_directory_is_named_only_where_it_is_not_the_usual_one(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PILOTHOUSE_DATA_DIR")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert install("claude") == 0
    assert entry("claude", machine)["args"][-1] == "mcp"


def test_the_usual_data_directory_is_named_where_only_the_shell_says_which_it_is(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PILOTHOUSE_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(machine / "share"))
    assert install("claude") == 0
    assert entry("claude", machine)["args"][-2:] == ["--data-dir", str(machine / "share" / "pilothouse")]


@pytest.mark.parametrize("client", sorted(FILES))
def test_a_second_time_changes_nothing(client: str, machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = machine / FILES[client][0]
    install(client)
    before = file.read_bytes(), file.stat().st_mtime_ns
    assert install(client) == 0
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert "already in" in capsys.readouterr().out


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_what_else_is_in_a_file_stays_with_its_order_and_indentation(client: str, machine: Path) -> None:
    name, (key,) = FILES[client]
    file = machine / name
    file.parent.mkdir(parents=True, exist_ok=True)
    others: dict[str, Any] = {"z": "ü", key: {"other": {"command": "x"}}, "a": [1, 2.5, None]}
    file.write_text(json.dumps(others, indent="\t", ensure_ascii=False), "utf-8")
    file.chmod(0o600)
    assert install(client) == 0
    text = file.read_text("utf-8")
    found = json.loads(text)
    assert list(found) == ["z", key, "a"]
    ours = found[key].pop("pilothouse")
    assert ours
    assert found == others
    assert '\n\t"z": "ü"' in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert not [each for each in file.parent.iterdir() if each != file and each.is_file()]


def test_an_entry_that_was_changed_keeps_what_was_added_to_it(machine: Path) -> None:
    install("cursor")
    file = machine / ".cursor/mcp.json"
    changed = json.loads(file.read_text())
    changed["mcpServers"]["pilothouse"] |= {"env": {"A": "1"}, "command": "/old/pilothouse"}
    file.write_text(json.dumps(changed))
    assert install("cursor") == 0
    found = entry("cursor", machine)
    assert found["env"] == {"A": "1"}
    assert found["command"] != "/old/pilothouse"


def test_toml_is_added_to_and_nothing_else_in_it_changes(machine: Path) -> None:
    file = machine / "home/.codex/config.toml"
    file.parent.mkdir(parents=True)
    before = '# mine\nmodel = "m"  # and this\n\n[mcp_servers.other]\ncommand = "x"'
    file.write_text(before)
    assert install("codex") == 0
    text = file.read_text()
    assert text.startswith(before + "\n\n[mcp_servers.pilothouse]\n")
    assert tomllib.loads(text)["mcp_servers"]["other"] == {"command": "x"}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", '{\n  // mine\n  "servers": {}\n}'),
        ("claude", "{"),
        ("claude", "[]"),
        ("claude", '{"mcpServers": []}'),
        ("codex", "model ="),
        ("codex", 'mcp_servers = { other = { command = "x" } }'),
        ("codex", '[mcp_servers.pilothouse]\ncommand = "mine"\n'),
        ("codex", "mcp_servers = 3"),
    ],
)
def test_a_file_that_cannot_be_merged_is_left_as_it_is(
    client: str, text: str, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = machine / FILES[client][0]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert install(client) == 2
    assert file.read_text() == text
    said = capsys.readouterr().err
    assert str(file) in said
    assert "--print" in said


def test_a_link_stays_one(machine: Path) -> None:
    real = machine / "dotfiles.json"
    real.write_text("{}")
    (machine / ".mcp.json").symlink_to(real)
    assert install("claude") == 0
    assert (machine / ".mcp.json").is_symlink()
    assert "pilothouse" in real.read_text()


def test_a_directory_that_cannot_be_written_is_named(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / ".cursor").write_text("a file")
    assert install("cursor") == 2
    assert ".cursor" in capsys.readouterr().err


@pytest.mark.parametrize("client", sorted(FILES))
def test_print_says_what_would_be_entered_and_writes_nothing(
    client: str, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install(client, "--print") == 0
    said = capsys.readouterr()
    assert not (machine / FILES[client][0]).exists()
    assert str(machine / FILES[client][0]) in said.err
    assert install(client) == 0
    assert (machine / FILES[client][0]).read_text() == said.out


def test_json_says_what_was_done_and_where(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, written in ((["--print"], False), ([], True), ([], False)):
        assert install("gemini", "--json", *options) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["written"] is written
        assert (said["client"], said["path"]) == ("gemini", str(machine / ".gemini/settings.json"))
        assert said["entry"]["args"][0] == "mcp"


def test_an_unknown_client_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert install("emacs") == 2
    assert "'vscode'" in capsys.readouterr().err


def test_without_the_package_the_bridge_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert run_line(["mcp"]) == 2
    assert "pip install 'pilothouse[mcp]'" in capsys.readouterr().err
