"""Which calls of an agent are those of the server of tools it was given: others tell of them, and ask for them. Pure.

The protocol does not say whose a tool is, so it is known by what programs say of it in ways of their own. Where that is
no more than a title it is taken from the beginning of a call, and not where the model may have written it: nothing else
is to go unseen for its name. For a request a title never is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from acp.schema import ToolCall, ToolCallUpdate

Call: TypeAlias = ToolCall | ToolCallUpdate

_TOOL = r"(\w{1,128})"
"""Names of ours have no dash, as names of servers may."""


class Served:
    """``server`` is what the agent was told that the server is called; empty: it was given none. ``titles``: how its
    program titles calls, by a name of ``TITLES``; empty: as most do."""

    def __init__(self, server: str, titles: str = "") -> None:
        self._server = server
        self._is_titled = TITLES[titles]

    def is_call(self, first: Call) -> bool:
        """``first``: what is told of a call before anything else."""
        if not self._server:
            return False
        match first.field_meta:
            case {"claudeCode": {"toolName": str(name)}}:
                return name.startswith(f"mcp__{self._server}__")
        match first.raw_input:
            case {"server": self._server, "tool": str(tool)}:
                return first.title == f"Tool: {self._server}/{tool}"
        return self._is_titled(self._server, first)

    def is_asked(self, call: ToolCallUpdate) -> bool:
        """Whether a request for permission is certainly for one of its tools."""
        match call.field_meta:
            case {"claudeCode": {"mcpServer": {"name": str(name)}}}:
                return name == self._server != ""
        match call.raw_input:
            case {"server_name": str(name), "request": {"_meta": {"codex_approval_kind": "mcp_tool_call"}}}:
                return name == self._server != ""
        return False


def _most(server: str, call: Call) -> bool:
    """A kind of its own they give to what runs commands, or touches files."""
    return call.kind in (None, "other") and _named(
        call, rf"mcp__{re.escape(server)}__{_TOOL}|{re.escape(server)}_{_TOOL}"
    )


def _copilot(server: str, call: Call) -> bool:
    """It guesses the kind from the tool's name. Where the model describes what it does, the title is that."""
    return _named(call, rf"{re.escape(server)}-{_TOOL}")


def _gemini(server: str, call: Call) -> bool:
    """Its ids begin with the tool's name."""
    found = re.fullmatch(rf"{_TOOL} \({re.escape(server)} MCP Server\)", call.title or "")
    return found is not None and call.kind == "other" and call.tool_call_id.startswith(f"mcp_{server}_{found[1]}_")


def _named(call: Call, pattern: str) -> bool:
    said: Any = call.raw_input.values() if isinstance(call.raw_input, dict) else ()
    return re.fullmatch(pattern, call.title or "") is not None and call.title not in said


TITLES: Mapping[str, Callable[[str, Call], bool]] = {"": _most, "copilot": _copilot, "gemini": _gemini}
