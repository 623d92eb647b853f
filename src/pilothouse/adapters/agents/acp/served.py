"""Which calls of an agent are those of the server of tools it was given: others tell of them, and ask for them. Pure.

The protocol does not say whose a tool is, so it is known by what programs say of it in ways of their own. A title is
enough to leave a call to others, as it is the program that writes it when the call begins; but a model may have a say
in it. So a request is granted only for what names the server in a field of its own.
"""

from __future__ import annotations

import re
from typing import Any

from acp.schema import ToolCall, ToolCallUpdate

_TOOL = r"[\w.-]{1,128}"
_PLAIN = (None, "other")
"""What kind such a tool is said to be: one that touches no file and runs no command, as far as the agent knows."""


class Served:
    """``server`` is what the agent was told that the server is called; empty: it was given none."""

    def __init__(self, server: str) -> None:
        self._server = server
        name = re.escape(server)
        self._titles = re.compile(
            rf"mcp__{name}__{_TOOL}|{name}[-_]{_TOOL}|{_TOOL} \({name} MCP Server\)|Tool: {name}/{_TOOL}"
        )

    def is_call(self, first: ToolCall | ToolCallUpdate) -> bool:
        """``first``: what is told of a call before anything else."""
        return bool(self._server and first.kind in _PLAIN and self._titles.fullmatch(first.title or ""))

    def is_asked(self, call: ToolCallUpdate) -> bool:
        """Whether a request for permission is certainly for one of its tools."""
        match call.field_meta:
            case {"claudeCode": {"mcpServer": {"name": str(name)}}}:
                return self._is(name)
        match call.raw_input:
            case {"server_name": str(name), "request": {"_meta": {"codex_approval_kind": "mcp_tool_call"}}}:
                return self._is(name)
        return False

    def _is(self, name: Any) -> bool:
        return bool(self._server) and name == self._server
