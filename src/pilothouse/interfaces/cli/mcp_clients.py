"""The configuration files of MCP clients: where they lie, and how a server of tools is entered into one.

What else is in a file stays in it, and what cannot be read is left alone. Knows nothing of what the entry starts.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pilothouse.errors import BadInput, Unavailable

Entry = dict[str, Any]

NAME = "pilothouse"


class ClientName(StrEnum):
    VSCODE = "vscode"
    CLAUDE = "claude"
    CURSOR = "cursor"
    COPILOT = "copilot"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"


@dataclass(frozen=True, slots=True)
class McpClient:
    """``place``: its file; ``inside``: the keys that lead to its servers; ``entry``: one server, of a command line."""

    place: Callable[[], Path]
    inside: tuple[str, ...]
    entry: Callable[[list[str]], Entry]


@dataclass(frozen=True, slots=True)
class Entered:
    """A file as it is to be."""

    path: Path
    text: str
    changed: bool

    def write(self) -> None:
        """Atomically; through links, and as readable as it was. Raises ``Unavailable``."""
        try:
            target = self.path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
            handle, fresh = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                    file.write(self.text)
                    os.fchmod(file.fileno(), mode)
                Path(fresh).replace(target)
            except OSError:
                Path(fresh).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be written: {error.strerror or error}") from error


def _plain(argv: list[str]) -> Entry:
    return {"command": argv[0], "args": argv[1:]}


def _stdio(argv: list[str]) -> Entry:
    return {"type": "stdio", **_plain(argv)}


def _here(*parts: str) -> Callable[[], Path]:
    return lambda: Path.cwd().joinpath(*parts)


def _home(variable: str, folder: str, name: str) -> Callable[[], Path]:
    return lambda: Path(os.environ.get(variable) or Path.home() / folder) / name


CLIENTS: Mapping[ClientName, McpClient] = MappingProxyType(
    {
        ClientName.VSCODE: McpClient(_here(".vscode", "mcp.json"), ("servers",), _stdio),
        ClientName.CLAUDE: McpClient(_here(".mcp.json"), ("mcpServers",), _stdio),
        ClientName.CURSOR: McpClient(_here(".cursor", "mcp.json"), ("mcpServers",), _plain),
        ClientName.COPILOT: McpClient(
            _home("COPILOT_HOME", ".copilot", "mcp-config.json"),
            ("mcpServers",),
            lambda argv: {"type": "local", **_plain(argv), "tools": ["*"]},
        ),
        ClientName.CODEX: McpClient(_home("CODEX_HOME", ".codex", "config.toml"), ("mcp_servers",), _plain),
        ClientName.GEMINI: McpClient(_here(".gemini", "settings.json"), ("mcpServers",), _plain),
        ClientName.OPENCODE: McpClient(
            _here("opencode.json"), ("mcp",), lambda argv: {"type": "local", "command": argv, "enabled": True}
        ),
    }
)


def snippet(client: McpClient, argv: list[str]) -> str:
    """What would stand in the file of a client that has nothing else in it."""
    entry = client.entry(argv)
    if client.place().suffix == ".toml":
        return _table(client.inside, entry)
    return _json(_nested((*client.inside, NAME), entry), "  ")


def enter(client: McpClient, argv: list[str]) -> Entered:
    """The file of a client with an entry that starts ``argv``. Raises ``BadInput`` for a file that cannot be read, or
    holds something else in that place; ``Unavailable``."""
    path = client.place()
    into = _into_toml if path.suffix == ".toml" else _into_json
    return into(path, client.inside, client.entry(argv))


def _into_json(path: Path, inside: tuple[str, ...], entry: Entry) -> Entered:
    text = _read(path)
    try:
        whole = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise _left(path, f"is no JSON, or has comments in it: {error}") from None
    servers = whole
    for key in ("", *inside):
        servers = servers.setdefault(key, {}) if key else servers
        if not isinstance(servers, dict):
            raise _left(path, f"has no object at {key or 'its top'}")
    before = servers.get(NAME)
    servers[NAME] = {**before, **entry} if isinstance(before, dict) else entry
    changed = servers[NAME] != before
    return Entered(path, _json(whole, _indent(text)) if changed else text, changed)


def _into_toml(path: Path, inside: tuple[str, ...], entry: Entry) -> Entered:
    text = _read(path)
    known = _toml(path, text)
    for key in (*inside, NAME):
        known = known.get(key) if isinstance(known, dict) else None
    if isinstance(known, dict) and {**known, **entry} == known:
        return Entered(path, text, changed=False)
    if known is not None:
        raise _left(path, f"has another [{'.'.join((*inside, NAME))}] already")
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    text += gap + _table(inside, entry)
    _toml(path, text)  # tables can be written in ways that take nothing more
    return Entered(path, text, changed=True)


def _table(inside: tuple[str, ...], entry: Entry) -> str:
    # A string of JSON is one of TOML, and so is a list of them.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join((f"[{'.'.join((*inside, NAME))}]", *lines, ""))


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _left(path, f"cannot be added to: {error}") from None


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{path} cannot be read: {error}") from error


def _json(value: Any, indent: str) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


def _indent(text: str) -> str:
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "


def _nested(keys: tuple[str, ...], value: Entry) -> Entry:
    for key in reversed(keys):
        value = {key: value}
    return value


def _left(path: Path, what: str) -> BadInput:
    return BadInput(f"{path} {what}; it was left as it is", fix="add by hand what --print prints")
