"""Which of the client's own tools writes a file or runs a command, and what arguments it wants."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from tests.support.models.asked import Asked, Json, Tool
from tests.support.models.parts import Call, RunShell, UseTool, WriteFile

WRITERS = ("write", "create", "write_file")
MAKES_NO_FOLDERS = frozenset({"create"})
"""Writers for files in folders that exist; what else is written, the client's shell writes."""

SHELLS = ("bash", "exec_command", "shell_command", "run_shell_command", "shell")

SAME_ARGUMENT = {"file_path": "path", "filePath": "path", "file_text": "content", "cmd": "command"}
"""What clients call an argument → what we call it."""

BLANK: Mapping[str, Json] = {
    "string": "scripted",
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
    "object": {},
}
"""Values for arguments that a tool requires and we have nothing to say about."""

WORKING_DIRECTORY = re.compile(
    r"(?:working directory(?: is)?|working in the directory|<cwd>)\W*?(/[^\s<`'\"]*)", re.IGNORECASE
)


def concrete(part: WriteFile | RunShell | UseTool, asked: Asked) -> Call:
    """The call by which this client does it. Raises LookupError when it offers no tool that could."""
    if isinstance(part, UseTool):
        return _served(part, asked.tools)
    if isinstance(part, WriteFile):
        folder = PurePosixPath(part.path).parent
        tool = _offered(asked.tools, WRITERS)
        if tool and not (tool.name in MAKES_NO_FOLDERS and folder.name):
            return Call(tool.name, _arguments(tool, {"path": absolute(part.path, asked), "content": part.content}))
        made = f"mkdir -p {shlex.quote(str(folder))} && " if folder.name else ""
        part = RunShell(f"{made}printf %s {shlex.quote(part.content)} > {shlex.quote(part.path)}")
    if tool := _offered(asked.tools, SHELLS):
        return Call(tool.name, _arguments(tool, {"command": part.command}))
    raise LookupError(f"no tool for {part} among {[tool.name for tool in asked.tools]}")


def absolute(path: str, asked: Asked) -> str:
    """Many tools want absolute paths; a model knows where it is because its client says so."""
    found = WORKING_DIRECTORY.search(asked.text)
    return str(PurePosixPath(found[1]) / path) if found else path


def served_by(server: str, asked: Asked) -> list[str]:
    """What the tools of a server that a client was given are called there, in the order in which it offers them."""
    names = (re.fullmatch(rf"{_prefix(server)}(.+)", tool.full_name) for tool in asked.tools)
    return [name[1] for name in names if name]


def _served(part: UseTool, tools: Sequence[Tool]) -> Call:
    """Clients write the server's name before the tool's, each in its way."""
    name = re.compile(rf"{_prefix(part.server)}{re.escape(part.tool)}")
    found = next((tool for tool in tools if name.fullmatch(tool.full_name)), None)
    if found is None:
        raise LookupError(f"no tool for {part} among {[tool.full_name for tool in tools]}")
    return Call(found.name, part.args, namespace=found.namespace)


def _prefix(server: str) -> str:
    """Some clients are not told of the server by its own name, but by one that no server of the user's has."""
    return rf"(?:mcp_+)?{re.escape(server)}(?:_tools)?[_.-]+"


def _offered(tools: Sequence[Tool], names: Sequence[str]) -> Tool | None:
    offered = {tool.name.lower(): tool for tool in tools if not tool.freeform}
    return next((offered[name] for name in names if name in offered), None)


def _arguments(tool: Tool, values: Mapping[str, str]) -> dict[str, Json]:
    arguments: dict[str, Json] = {}
    required = tool.schema.get("required", ())
    for name, kind in tool.schema.get("properties", {}).items():
        value = values.get(SAME_ARGUMENT.get(name, name))
        type_ = str(kind.get("type", "string")).lower()
        if value is not None:
            arguments[name] = ["bash", "-lc", value] if type_ == "array" else value
        elif name in required:
            arguments[name] = kind["enum"][0] if "enum" in kind else BLANK[type_]
    return arguments
